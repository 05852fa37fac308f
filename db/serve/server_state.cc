#include "db/serve/server_state.h"

#include <utility>

namespace dlsm::serve {

uint64_t ScanCursors::Add(std::string position) {
  const port::MutexLock lock(mutex_);
  if (positions_.size() == kMost) positions_.erase(positions_.begin());
  positions_[next_] = std::move(position);
  return next_++;
}

// It stays: a client whose connection breaks asks for it again.
std::string ScanCursors::Take(uint64_t cursor) {
  const port::MutexLock lock(mutex_);
  const auto found = positions_.find(cursor);
  return found == positions_.end() ? std::string() : found->second;
}

}  // namespace dlsm::serve
