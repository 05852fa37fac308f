#include "db/serve/server_state.h"

#include <fmt/core.h>

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

Hints::Hints() {
  const port::MutexLock lock(mutex_);
  for (const char* type : {"hash", "zset"}) {
    for (const char* form : {"listpack", "ziplist"}) {
      values_[fmt::format("{}-max-{}-entries", type, form)] = "128";
      values_[fmt::format("{}-max-{}-value", type, form)] = "64";
    }
  }
  values_["list-max-listpack-size"] = values_["list-max-ziplist-size"] = "-2";
  values_["list-compress-depth"] = "0";
  values_["set-max-intset-entries"] = "512";
  values_["save"] = "";
}

bool Hints::Set(const std::string& name, const std::string& value) {
  const port::MutexLock lock(mutex_);
  const auto found = values_.find(name);
  if (found == values_.end()) return false;
  found->second = value;
  return true;
}

std::map<std::string, std::string> Hints::All() const {
  const port::MutexLock lock(mutex_);
  return values_;
}

}  // namespace dlsm::serve
