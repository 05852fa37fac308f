// How much of a memory node's memory databases may have.
//
// 1. A quota counts all that a database has there, its shards, its other parts (database_name.h)
//    and what is fenced included; also what is left of one of that name that has gone.
// 2. Grants stop at the quota: writers wait, and fail after their time-out. Deletions go on, with
//    the room that their handle has set aside (db/nodes/remote_memory.h).
// 3. Merges may go beyond it by as much as a memory node of that size keeps for merges
//    (DefaultMergeReserve): between the start and the end of a merge both its inputs and its
//    outputs are there, and without merges deletions would never make room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace dlsm {

// One thread at a time: the caller locks.
class Quotas {
 public:
  // `default_bytes`: of a database without a quota of its own; 0: none.
  explicit Quotas(uint64_t default_bytes) : default_bytes_(default_bytes) {}

  // Whose quota the database's bytes count against.
  static std::string OwnerOf(const std::string& database);

  // Each costs some memory besides the region's.
  static constexpr size_t kOwnMax = 10000;

  // 0: no limit. False, and nothing has changed, if it would be one more than kOwnMax that is not
  // as the default.
  [[nodiscard]] bool Set(const std::string& owner, uint64_t bytes);
  uint64_t Of(const std::string& owner) const;
  // Of those that have one of their own.
  const std::map<std::string, uint64_t>& own() const { return own_; }
  // What every owner has that has none of its own, as dlsm_tool --quota takes it.
  std::string DefaultForTool() const;

  // How much more an owner that has `used` bytes may get; for its merges, or for anything else.
  uint64_t Left(const std::string& owner, uint64_t used, bool for_merges) const;

 private:
  const uint64_t default_bytes_;
  std::map<std::string, uint64_t> own_;
};

}  // namespace dlsm
