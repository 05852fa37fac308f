// One open database at its memory node: the session, and the manifest kept there.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/manifest_store.h"
#include "port/boot_clock.h"
#include "port/mutex.h"
#include "table/table_reader.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/database_header.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

class MemoryNodeSession final : public ManifestStore {
 public:
  // Opens the database `name`, or claims it (options.take_over); waits for the lease of a process
  // that has died, not longer than options.open_timeout_ms. `rpc` outlives the session.
  static Status Open(const Options& options, const std::string& name, RpcClient* rpc,
                     std::unique_ptr<MemoryNodeSession>* session);
  // Puts the session's word into the database's header. Busy naming who was faster, if somebody
  // was; TimedOut, and nothing is put, if Open() is so long ago that the session may have ended.
  // The database may be written only after it, and what the session knows of it before may be out
  // of date.
  Status TakeOwnership(QueuePairs* queue_pairs);
  // Asks the memory node whether this session, which has become the owner, still is: IOFenced if
  // another has taken the database over since, IOError if the session has ended otherwise.
  Status CheckOwned() const;
  // Waits until no former owner of the database can write to it one-sided any more. Where memory is
  // mapped, a former owner can, but finds in the header that it is none. TimedOut after the
  // deadline.
  Status AwaitRevocation(Deadline deadline) const;
  // Destroys a database that is not open. OK if there is none. InvalidArgument if it is another one
  // of its name than `incarnation`, unless that is 0.
  static Status Destroy(const Options& options, const std::string& name,
                        DatabaseIncarnation incarnation, RpcClient* rpc);
  // The same of one that nobody uses: its manifest refers to nothing at that memory node, and is
  // none after `manifest_version_max`. InvalidArgument if somebody does by now.
  static Status DestroyUnused(const Options& options, const std::string& name,
                              DatabaseIncarnation incarnation, uint64_t manifest_version_max,
                              RpcClient* rpc);
  ~MemoryNodeSession() override;

  SessionId id() const { return opened_.session; }
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(opened_.lease_ms); }
  // What is in the header while this session is the owner's.
  uint64_t ownership_word() const { return opened_.ownership_word; }
  // Of that word: larger than that of any owner before.
  uint32_t epoch() const { return OwnershipWord::Of(opened_.ownership_word).epoch; }
  // At the memory node, of all the database's shards there; 0: none.
  uint64_t quota_bytes() const { return opened_.quota_bytes; }
  // See util/rpc/messages/database_header.h.
  const RemoteSpan& header() const { return opened_.header; }
  // As it was when the database was opened; empty for a new one.
  const std::string& manifest() const { return opened_.manifest; }
  // Its number: larger than that of any before; 0 for a new one.
  uint64_t manifest_version() const { return opened_.manifest_version; }

  Status Put(const std::string& manifest, std::vector<RemoteSpan> live) override
      LOCKS_EXCLUDED(mutex_);
  // Whose transfers reach what the session holds; it outlives the session. See Close().
  void TransfersGoOver(const FabricConnection& fabric) { fabric_ = &fabric; }
  // This outlives the session besides what manifests refer to that are put from now on.
  void Keep(const RemoteSpan& span) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    kept_ = span;
  }
  // Ends the session: the memory node keeps what the manifest refers to. The last call. While a
  // write that was given up may still land there, the session is not closed but left to the end of
  // the connection, or of its lease, which is an IOError: a memory node gives what a closed session
  // had to others at once if its client has another one, and takes the access away first if not.
  // `unnamed_from`: what is left behind no publication names from that one on.
  Status Close(uint64_t unnamed_from = HeartbeatRequest::kPublicationsUnknown);
  // The last call in the place of Close(): the memory node is not told, and will notice.
  void Leave() { closed_ = true; }

 private:
  // The memory node's goes on while this machine is suspended.
  using Clock = port::BootClock;

  MemoryNodeSession(RpcClient* rpc, std::string name, OpenDatabaseReply opened,
                    Clock::time_point asked_at, std::chrono::nanoseconds timeout);
  static Status Check(const OpenDatabaseReply& reply);
  Status CheckOfferLasts() const;

  RpcClient* const rpc_;
  const FabricConnection* fabric_ = nullptr;  // Null: there are no transfers.
  const std::string name_;
  OpenDatabaseReply opened_;
  const Clock::time_point asked_at_;  // For the session: its lease began later.
  const std::chrono::nanoseconds timeout_;
  uint64_t manifest_version_;
  bool closed_ = false;

  port::Mutex mutex_;                   // Never held across a call.
  RemoteSpan kept_ GUARDED_BY(mutex_);  // No bytes: nothing.
};

}  // namespace dlsm
