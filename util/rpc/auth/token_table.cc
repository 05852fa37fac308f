#include "util/rpc/auth/token_table.h"

#include <cassert>
#include <chrono>

#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {

Status TokenTable::Acquire(const std::string& shown, const ClientRights& owner,
                           std::string* token) {
  const port::MutexLock lock(mutex_);
  const auto known = holders_.find(shown);
  if (known != holders_.end() && known->second.owner == owner) {
    *token = shown;
    ++known->second.connections;
    return Status::OK();
  }
  std::string drawn;
  DLSM_RETURN_IF_ERROR(RandomBytes(kDataTokenBytes, &drawn));
  Holder& holder = holders_[drawn];  // Without a connection it expires.
  holder.owner = owner;
  if (allowed_) allowed_(drawn, owner);
  holder.connections = 1;
  *token = std::move(drawn);
  return Status::OK();
}

void TokenTable::Restore(const std::string& token, const ClientRights& owner,
                         Clock::time_point expected_until) {
  const port::MutexLock lock(mutex_);
  Holder& holder = holders_[token];
  holder.owner = owner;
  holder.released_at = expected_until;
  if (allowed_) allowed_(token, owner);
}

void TokenTable::Release(const std::string& token, Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  const auto holder = holders_.find(token);
  if (holder == holders_.end()) return;
  assert(holder->second.connections > 0);
  --holder->second.connections;
  holder->second.released_at = now;
}

void TokenTable::Expire(Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  // Sessions last so much longer as well (memory_node/accounts/database_table.h), and need the
  // token.
  const std::chrono::nanoseconds stood_still = standstills_.Look(now);
  for (auto& [token, holder] : holders_) holder.released_at += stood_still;
  for (auto next = holders_.begin(); next != holders_.end();) {
    const auto& [token, holder] = *next;
    if (holder.connections > 0 || now - holder.released_at < grace_) {
      ++next;
      continue;
    }
    // First: where there is no memory to have the access taken away, the next look finds it here.
    if (abandoned_) abandoned_(token);
    next = holders_.erase(next);
  }
}

void TokenTable::Forget(const std::string& token) {
  const port::MutexLock lock(mutex_);
  holders_.erase(token);
}

}  // namespace dlsm
