// The part of DatabaseTable that is about quotas.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>

#include "memory_node/accounts/database_table.h"
#include "util/format_bytes.h"
#include "util/log.h"
#include "util/rpc/messages/database_name.h"

namespace dlsm {
namespace {

// Larger ones would overflow with their reserve, and limit nothing.
constexpr uint64_t kQuotaBytesMax = uint64_t{1} << 60;

}  // namespace

Status DatabaseTable::SetQuota(const RpcPeer& peer, const SetQuotaRequest& request) {
  if (request.name.empty() || request.name.find(kPartMark) != std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "a quota is of a database with all of its shards: name it by what comes before the # "
        "in '{}'",
        request.name));
  }
  if (request.bytes > kQuotaBytesMax) {
    return Status::InvalidArgument("a quota has at most 2^60 bytes; 0 is none");
  }
  const port::MutexLock lock(mutex_);
  if (!quotas_.Set(request.name, request.bytes)) {
    return Status::Busy(fmt::format(
        "memory node {} has quotas of {} databases, its limit; set one back to what every "
        "database has: dlsm_tool --db=NAME --quota={} quota",
        static_cast<uint32_t>(options_.node), Quotas::kOwnMax, quotas_.DefaultForTool()));
  }
  Log().Warn("{} sets the quota of database '{}': {}", peer.name, request.name,
             request.bytes == 0 ? "none" : FormatBytes(request.bytes));
  return Status::OK();
}

uint64_t DatabaseTable::OwnedBytesLocked(const std::string& owner) const {
  uint64_t bytes = 0;
  for (auto each = databases_.lower_bound(owner);
       each != databases_.end() && each->first.compare(0, owner.size(), owner) == 0; ++each) {
    if (Quotas::OwnerOf(each->first) == owner) bytes += each->second->bytes;
  }
  // What has gone counts as well, as long as something of it is fenced, or a merge's.
  std::set<const Database*> gone;
  const auto add_gone = [&](const Database& database) {
    const bool has_gone = database.header == ByteRange();
    if (!has_gone || Quotas::OwnerOf(database.name) != owner) return;
    if (gone.insert(&database).second) bytes += database.bytes;
  };
  for (const auto& [number, revocation] : revocations_) add_gone(*revocation.database);
  for (const auto& [key, merge] : merges_) add_gone(*merge->database);
  return bytes;
}

uint64_t DatabaseTable::QuotaLeftLocked(const Database& database, bool for_merges) const {
  const std::string owner = Quotas::OwnerOf(database.name);
  // Most have none, and need no count.
  const uint64_t used = quotas_.Of(owner) == 0 ? 0 : OwnedBytesLocked(owner);
  return quotas_.Left(owner, used, for_merges);
}

Status DatabaseTable::OverQuotaLocked(const Database& database, uint64_t bytes) const {
  const std::string owner = Quotas::OwnerOf(database.name);
  return Status::Busy(fmt::format(
      "database '{}' has {} of its quota of {} at memory node {}, and asks for {} more; delete "
      "data, or raise the quota: dlsm_tool --db={} --quota=BYTES quota",
      owner, FormatBytes(OwnedBytesLocked(owner)), FormatBytes(quotas_.Of(owner)),
      static_cast<uint32_t>(options_.node), FormatBytes(bytes), owner));
}

uint64_t DatabaseTable::FreeBytesFor(SessionId session) const {
  const port::MutexLock lock(mutex_);
  const uint64_t free = std::min(allocator_.free_bytes(), options_.free_bytes_told_max);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return free;
  return std::min(free, QuotaLeftLocked(*found->second.database, /*for_merges=*/true));
}

uint64_t DatabaseTable::GrantableBytesFor(SessionId session) const {
  const port::MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return GrantableLocked();
  return std::min(GrantableLocked(),
                  QuotaLeftLocked(*found->second.database, /*for_merges=*/false));
}

}  // namespace dlsm
