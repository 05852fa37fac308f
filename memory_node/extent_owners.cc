#include "memory_node/extent_owners.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dlsm {

class ExtentOwners::ClientReach final : public Reach {
 public:
  ClientReach(const ExtentOwners* owners, std::shared_ptr<const AccessRights> rights)
      : owners_(owners), rights_(std::move(rights)) {}

  bool During(const ReachedRange* ranges, size_t count, bool writes,
              const std::function<void()>& transfer) const override {
    const port::MutexLock lock(owners_->mutex_);
    for (size_t i = 0; i < count; ++i) {
      if (!owners_->MayReachLocked(*rights_, ranges[i], writes)) return false;
    }
    transfer();
    return true;
  }

 private:
  const ExtentOwners* const owners_;
  const std::shared_ptr<const AccessRights> rights_;
};

void ExtentOwners::Add(uint64_t offset, uint64_t bytes, const std::string& database) {
  const port::MutexLock lock(mutex_);
  extents_[offset] = Extent{offset + bytes, database};
}

void ExtentOwners::Remove(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  const port::MutexLock lock(mutex_);
  auto next = extents_.upper_bound(offset);
  if (next != extents_.begin() && std::prev(next)->second.end > offset) --next;
  while (next != extents_.end() && next->first < end) {
    // Only what stays behind the range needs memory, and takes it before anything has changed.
    if (next->second.end > end) extents_.emplace(end, next->second);
    if (next->first < offset) {
      next->second.end = offset;
      ++next;
    } else {
      next = extents_.erase(next);
    }
  }
}

bool ExtentOwners::MayReachLocked(const AccessRights& rights, const ReachedRange& range,
                                  bool writes) const {
  if (range.region != region_) return false;
  const uint64_t end = range.offset + range.bytes;  // Inside the region, so it does not wrap.
  uint64_t at = range.offset;
  auto next = extents_.upper_bound(at);
  if (next != extents_.begin()) --next;
  // At least one extent, so that nobody learns which empty ranges are allowed.
  do {
    if (next == extents_.end() || next->first > at || next->second.end <= at) return false;
    const std::string& database = next->second.database;
    if (!(writes ? rights.MayOwn(database) : rights.MayRead(database))) return false;
    at = next->second.end;
    ++next;
  } while (at < end);
  return true;
}

ReachPointer ExtentOwners::ReachOf(std::shared_ptr<const AccessRights> rights) const {
  return std::make_shared<const ClientReach>(this, std::move(rights));
}

}  // namespace dlsm
