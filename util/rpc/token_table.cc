#include "util/rpc/token_table.h"

#include <cassert>

namespace dlsm {

void TokenTable::Acquire(const std::string& token) {
  const port::MutexLock lock(mutex_);
  const auto [holder, is_new] = holders_.try_emplace(token);
  ++holder->second.connections;
  if (is_new && allowed_) allowed_(token);
}

void TokenTable::Release(const std::string& token, Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  const auto holder = holders_.find(token);
  assert(holder != holders_.end() && holder->second.connections > 0);
  --holder->second.connections;
  holder->second.released_at = now;
}

void TokenTable::Expire(Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  for (auto next = holders_.begin(); next != holders_.end();) {
    const auto [token, holder] = *next;
    if (holder.connections > 0 || now - holder.released_at < grace_) {
      ++next;
      continue;
    }
    next = holders_.erase(next);
    if (revoked_) revoked_(token);
  }
}

}  // namespace dlsm
