#include "memory_node/accounts/quotas.h"

#include <limits>

#include "memory_node/accounts/accounts.h"
#include "util/rpc/messages/database_name.h"

namespace dlsm {

std::string Quotas::OwnerOf(const std::string& database) {
  return std::string(NameOfUsers(database));
}

bool Quotas::Set(const std::string& owner, uint64_t bytes) {
  if (bytes == default_bytes_) {
    own_.erase(owner);
    return true;
  }
  if (own_.size() >= kOwnMax && !own_.contains(owner)) return false;
  own_[owner] = bytes;
  return true;
}

uint64_t Quotas::Of(const std::string& owner) const {
  const auto own = own_.find(owner);
  return own == own_.end() ? default_bytes_ : own->second;
}

std::string Quotas::DefaultForTool() const {
  return default_bytes_ == 0 ? "none" : std::to_string(default_bytes_);
}

uint64_t Quotas::Left(const std::string& owner, uint64_t used, bool for_merges) const {
  const uint64_t quota = Of(owner);
  if (quota == 0) return std::numeric_limits<uint64_t>::max();
  const uint64_t limit = quota + (for_merges ? DefaultMergeReserve(quota) : 0);
  return limit > used ? limit - used : 0;
}

}  // namespace dlsm
