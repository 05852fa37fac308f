// The calls of readers that follow databases: see reader_leases.h.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "util/coding.h"
#include "util/log.h"
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
  for (const std::string& name : request.databases) {
    const DatabasePointer database = accounts_.Find(name);
    if (database == nullptr) {
      return Status::NotFound(fmt::format("memory node {} has no database '{}'",
                                          static_cast<uint32_t>(options_.node), name));
    }
    if (std::ranges::find(databases, database->published) != databases.end()) {
      return Status::InvalidArgument("a reader names a database twice");
    }
    if (databases.empty()) reply->header = database->header;
    databases.push_back(database->published);
  }
  do {
    std::string random;
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    reply->reader = ReaderId{DecodeFixed64(random.data())};
  } while (readers_.contains(reply->reader));
  const auto now = options_.clock();
  reply->whole_from = readers_.Open(reply->reader, peer.name, databases, now, now + options_.lease);
  // Only now: a revocation that ends frees memory at any time, but no more of what a reader may
  // read that has been taken up.
  for (const ReaderLeases::Database& database : databases) {
    reply->whole_from = std::max(reply->whole_from, readers_.WholeFromOf(database));
  }
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
  accounts_.FreeUnread();
  return renewed;
}

Status DatabaseTable::CloseReader(const CloseReaderRequest& request) {
  const port::MutexLock lock(mutex_);
  readers_.Close(request.reader);
  accounts_.FreeUnread();
  return Status::OK();
}

}  // namespace dlsm
