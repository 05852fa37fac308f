// Whose the extents of a region are, for those who may reach only some databases' (access_list.h).
// Kept only where there is an access list: its clients' transfers over tcp are checked here.
//
// A transfer lies within one database's memory. So to look up its owner takes as long for who has
// cut its part of the region into millions of grants as for others, who wait for that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "port/mutex.h"
#include "util/fabric/reach.h"
#include "util/rpc/auth/access_list.h"

namespace dlsm {

// Thread-safe. Outlives what ReachOf() gives.
class ExtentOwners {
 public:
  // Of this region alone.
  explicit ExtentOwners(RegionId region) : region_(region) {}

  // The range is the database's from now on; it was nobody's. Its bytes are no former owner's.
  void Add(uint64_t offset, uint64_t bytes, const std::string& database) LOCKS_EXCLUDED(mutex_);
  // The range, which may be parts of several, is nobody's any more. Waits for transfers under way.
  void Remove(uint64_t offset, uint64_t bytes) LOCKS_EXCLUDED(mutex_);

  ReachPointer ReachOf(std::shared_ptr<const AccessRights> rights) const;

 private:
  class ClientReach;
  struct Extent {
    uint64_t end = 0;
    std::string database;
  };

  bool MayReachLocked(const AccessRights& rights, const ReachedRange& range, bool writes) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RegionId region_;

  mutable port::Mutex mutex_;  // Also held during transfers.
  // By offset; disjoint, and joined where those of one database touch.
  std::map<uint64_t, Extent> extents_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
