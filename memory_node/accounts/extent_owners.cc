#include "memory_node/accounts/extent_owners.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "port/allocation_point.h"

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
  const uint64_t end = offset + bytes;
  const port::MutexLock lock(mutex_);
  const auto next = extents_.lower_bound(offset);
  const bool joins_next =
      next != extents_.end() && next->first == end && next->second.database == database;
  if (next != extents_.begin()) {
    Extent& before = std::prev(next)->second;
    if (before.end == offset && before.database == database) {
      before.end = joins_next ? next->second.end : end;
      if (joins_next) extents_.erase(next);
      return;
    }
  }
  if (joins_next) {
    auto grown = extents_.extract(next);
    grown.key() = offset;
    extents_.insert(std::move(grown));
    return;
  }
  port::AllocationPoint("extent owners");
  extents_.emplace(offset, Extent{end, database});
}

void ExtentOwners::Remove(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  const port::MutexLock lock(mutex_);
  auto next = extents_.upper_bound(offset);
  if (next != extents_.begin() && std::prev(next)->second.end > offset) --next;
  while (next != extents_.end() && next->first < end) {
    // Only what stays behind the range needs memory, and takes it before anything has changed.
    if (next->second.end > end) {
      port::AllocationPoint("extent owners");
      extents_.emplace(end, next->second);
    }
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
  const auto next = extents_.upper_bound(range.offset);
  if (next == extents_.begin()) return false;
  const Extent& extent = std::prev(next)->second;
  // Also of an empty range, so that nobody learns which of these are allowed.
  if (extent.end <= range.offset || extent.end < end) return false;
  return writes ? rights.MayOwn(extent.database) : rights.MayRead(extent.database);
}

ReachPointer ExtentOwners::ReachOf(std::shared_ptr<const AccessRights> rights) const {
  return std::make_shared<const ClientReach>(this, std::move(rights));
}

}  // namespace dlsm
