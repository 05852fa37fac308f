// The calls of readers that follow databases: see reader_leases.h.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "util/coding.h"
#include "util/format_bytes.h"
#include "util/log.h"
#include "util/rpc/messages/database_header.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each costs some memory besides the region's.
constexpr size_t kReadersMax = 10000;

}  // namespace

Status DatabaseTable::OpenReader(const RpcPeer& peer, const OpenReaderRequest& request,
                                 OpenReaderReply* reply) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  if (request.databases.empty()) return Status::InvalidArgument("a reader reads something");
  if (readers_.count() >= kReadersMax) {
    return Status::Busy(fmt::format("memory node {} has {} readers, its limit; close some",
                                    static_cast<uint32_t>(options_.node), kReadersMax));
  }
  std::vector<ReaderLeases::Database> databases;
  reply->whole_from = 0;
  for (const std::string& name : request.databases) {
    const auto found = databases_.find(name);
    if (found == databases_.end()) {
      return Status::NotFound(fmt::format("memory node {} has no database '{}'",
                                          static_cast<uint32_t>(options_.node), name));
    }
    const Database& database = *found->second;
    if (std::ranges::find(databases, database.published) != databases.end()) {
      return Status::InvalidArgument("a reader names a database twice");
    }
    if (databases.empty()) reply->header = SpanOf(database.header.begin, kDatabaseHeaderBytes);
    databases.push_back(database.published);
    reply->whole_from = std::max(reply->whole_from, database.published->whole_from);
  }
  do {
    std::string random;
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    reply->reader = ReaderId{DecodeFixed64(random.data())};
  } while (readers_.contains(reply->reader));
  const auto now = options_.clock();
  const uint64_t oldest =
      readers_.Open(reply->reader, peer.name, std::move(databases), now, now + options_.lease);
  reply->whole_from = std::max(reply->whole_from, oldest);
  reply->lease_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count());
  Log().Info("{} follows database '{}'", peer.name, request.databases.front());
  return Status::OK();
}

Status DatabaseTable::RenewReader(const ReaderHeartbeatRequest& request,
                                  ReaderHeartbeatReply* reply) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  const auto now = options_.clock();
  const Status renewed =
      readers_.Renew(request.reader, request.oldest, now, now + options_.lease, &reply->must_move);
  FreeUnreadLocked();
  return renewed;
}

Status DatabaseTable::CloseReader(const CloseReaderRequest& request) {
  const port::MutexLock lock(mutex_);
  readers_.Close(request.reader);
  FreeUnreadLocked();
  return Status::OK();
}

void DatabaseTable::FreeUnreadLocked() { GiveBackLocked(readers_.TakeUnread()); }

void DatabaseTable::PressReadersLocked() {
  if (readers_.retired_bytes() > 0) readers_.Press(options_.clock() + options_.lease);
}

Status DatabaseTable::NoRoomLocked(uint64_t bytes, uint64_t usable) const {
  if (readers_.retired_bytes() == 0) return FullLocked(bytes, usable);
  const Status full = FullLocked(bytes, usable);
  return Status::FromCode(
      full.code(),
      fmt::format("{}; {} are kept for readers that use old publications, and are "
                  "free when those move on or their leases end",
                  full.message().ToStringView(), FormatBytes(readers_.retired_bytes())));
}

}  // namespace dlsm
