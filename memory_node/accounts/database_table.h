// The databases of a memory node: who has which open, and who owns which bytes.
//
// Every byte that is allocated belongs to one database, for at least one of these reasons:
//
//   held     by its session: granted to it or merged for it, and not yet given back
//   live     its manifest refers to it
//   header   its clients' own (database_header.h), for as long as the database is there
//   in use   a merge reads it, or writes its output there
//   fenced   its session has ended, but it is not yet certain that the session's client no longer
//            reaches it one-sided: requests that are on their way would hit whoever gets it next
//
// and is free again when the last reason is gone, whatever order they go in:
//
//   a session's free           ends `held` for these bytes; those that are live stay until a
//                              manifest no longer names them: so a handle that dies leaves its last
//                              manifest whole
//   a new manifest             replaces `live`
//   the end of a session       turns all of its `held` into `fenced`
//   a confirmed revocation     of the client's access ends `fenced`; one that fails is tried again,
//                              and the bytes are quarantined until then
//   a take-over                ends a session, too; what is live is then fenced as well, for the
//                              former owner may go on reading. Where clients map the region, its
//                              bytes stay fenced until it has let go: it has closed the database,
//                              or its connection has been gone for the grace period, and it has
//                              not called over another one
//   the end of a merge         ends `in use`; its outputs are held if its session still exists and
//                              may be waiting for the answer
//   an answer told to be lost  ends `held` for the outputs of that merge, as a free does
//
// What readers that follow the database may still read is not free then, but *retired*, until they
// have moved on (reader_leases.h).
//
// The ownership word in a database's header (database_header.h) says who owns it:
//
// 1. Open() says which word the session is to put in place of which. If the database is open and is
//    to be taken over, the session is a claim: it can do nothing yet.
// 2. The client swaps the words, if it can.
// 3. It opens again with `claimed`. If its word is there, it is the owner; whoever was is fenced.
//
// Each call of a session looks at the word first, in FindSessionLocked(): so from step 2 on, which
// no memory node has to notice, the former owner can neither allocate, free nor put a manifest.
//
// A session ends when it is closed, when its lease runs out, or when it has had no connection for
// the grace period. Where the memory node itself has stood still (stopped, or paged out), nobody's
// lease has run meanwhile: what clients have sent lies unread. The next session of a database
// starts by holding what is live, once nothing of it is fenced.
//
// A client that closes one of several sessions that it has over the same data token keeps its
// access, and nothing is fenced: it has said that it is done with that memory, which it does only
// when no write of its own may land there any more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/access_revoker.h"
#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/accounts/database_records.h"
#include "memory_node/accounts/extent_owners.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/accounts/quotas.h"
#include "memory_node/accounts/reader_leases.h"
#include "memory_node/accounts/recent_refusals.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/memory/extent_allocator.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/standstill_watch.h"

namespace dlsm {

// What grants leave free for merges, which make room, unless something else is asked for: an
// eighth, but at least two tables of the default size where that is not more than a quarter.
uint64_t DefaultMergeReserve(uint64_t capacity_bytes);

struct DatabaseTableOptions {
  using Clock = port::Clock;

  NodeId node{};
  RegionId region{};
  uint64_t capacity_bytes = 0;
  OwnMemory* memory = nullptr;  // The region's bytes; outlives the table.
  uint64_t merge_reserve_bytes = 0;
  uint64_t database_quota_bytes = 0;  // Of each database that has no quota of its own; 0: none.
  std::chrono::nanoseconds lease = std::chrono::seconds(10);
  std::chrono::nanoseconds grace = std::chrono::seconds(2);
  // What to do when it is full, besides deleting data; for messages.
  std::string full_remedy = "start Server with more memory";
  std::function<Clock::time_point()> clock = [] { return Clock::now(); };
  // Clients address the region themselves: that cannot be taken from them.
  bool clients_map_memory = false;
  // Takes access away, and tells the outcome later, from another thread; outlives the table. Null
  // where clients reach nothing that could be taken away.
  AccessRevoker* revoker = nullptr;
  // Told whose what is; outlives the table. Null: nobody asks. Otherwise memory is overwritten with
  // zeros before it is given to anybody: not every client may read what was there before.
  ExtentOwners* extent_owners = nullptr;
  // Asked, under the table's lock, before memory is allocated: true is as if there were none in one
  // piece. Empty: there is what there is.
  std::function<bool()> refuse_extent;
  // Clients are told of no more free memory than that. For tests: their merges then go by steps
  // (db/merge/merge_pieces.h) as in a full memory node.
  uint64_t free_bytes_told_max = UINT64_MAX;
};

class MergeHold;

// Thread-safe.
class DatabaseTable {
 public:
  explicit DatabaseTable(DatabaseTableOptions options);
  // All MergeHolds are gone.
  ~DatabaseTable();

  uint64_t capacity_bytes() const { return options_.capacity_bytes; }

  // Unless it is to be taken over: Busy if a session that has a connection has it open; TimedOut if
  // one without has, which will come back or end within the grace period, or if the access of the
  // last one's client is just being taken away. IOError if that of this peer has been.
  Status Open(const RpcPeer& peer, const OpenDatabaseRequest& request, OpenDatabaseReply* reply);

  // These renew the lease of the session and tie it to the peer's connection. IOError when there is
  // no such session (any more), of Heartbeat() Aborted, or its client has called over a later
  // connection; IOFenced naming the new owner if the database was taken over.
  Status Heartbeat(const RpcPeer& peer, const HeartbeatRequest& request);
  // The same lease for a session of which this peer says that its process lives, and which stays
  // tied to its own connection. False, and nothing is renewed, where Heartbeat() might be an error,
  // or while the session has no connection.
  bool Renew(const RpcPeer& peer, SessionId session);
  Status Grant(const RpcPeer& peer, const GrantRequest& request, GrantReply* reply);
  Status Free(const RpcPeer& peer, const FreeRequest& request);
  Status PutManifest(const RpcPeer& peer, const PutManifestRequest& request);
  // Unless it returns an error, calls `done` once: when the session's memory is free, or the first
  // attempt to take its client's access away has failed. Before it returns, if there is none.
  Status Close(
      const RpcPeer& peer, const CloseDatabaseRequest& request, std::function<void()> done = [] {});

  Status Destroy(const DestroyDatabaseRequest& request);
  ListDatabasesReply List() const;
  Status SetQuota(const RpcPeer& peer, const SetQuotaRequest& request);

  // A merge of `inputs`, which the session holds, begins, if none of this number has. *hold ends it
  // when it is destroyed.
  Status BeginMerge(const RpcPeer& peer, SessionId session, const MergeNumber& number,
                    const std::vector<RemoteSpan>& inputs, std::unique_ptr<MergeHold>* hold);
  void CancelMerges();

  // Readers that follow databases, whoever has these open.
  Status OpenReader(const RpcPeer& peer, const OpenReaderRequest& request, OpenReaderReply* reply);
  Status RenewReader(const ReaderHeartbeatRequest& request, ReaderHeartbeatReply* reply);
  Status CloseReader(const CloseReaderRequest& request);

  void Disconnected(const RpcPeer& peer);
  // To be called every now and then.
  void EndExpiredSessions();

  void Describe(NodeStatisticsReply* statistics) const;
  // Of this memory node, what it keeps for merges included.
  uint64_t FreeBytes() const;
  // The same for the database of this session, which may have a quota.
  uint64_t FreeBytesFor(SessionId session) const;
  // What may be granted to it: without what is kept for merges.
  uint64_t GrantableBytesFor(SessionId session) const;
  // Whether others have lately been refused what its database has a part of: this memory node's
  // memory, or a quota.
  bool OthersWantRoom(SessionId session) const;
  // What is kept from use because the access of its former client could not be taken away so far.
  uint64_t quarantined_bytes() const;
  // Databases that were taken over from whoever had them open, so far.
  uint64_t take_overs() const;
  // Grants that owners have asked for in vain.
  struct RefusedGrants {
    uint64_t over_quota = 0;
    uint64_t full = 0;
  };
  RefusedGrants refused_grants() const;
  // Corruption unless every allocated byte has exactly one owner.
  Status CheckInvariants() const;

 private:
  friend class MergeHold;
  using Clock = DatabaseTableOptions::Clock;

  using Database = database_table::Database;
  using Session = database_table::Session;
  using SessionMap = std::map<SessionId, Session>;
  using End = database_table::End;
  using Revocation = database_table::Revocation;
  using RevocationMap = std::map<uint64_t, Revocation>;
  using Fenced = database_table::Fenced;
  using Merge = database_table::Merge;

  Status CheckOpenableLocked(const OpenDatabaseRequest& request) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether memory will be free without anybody's doing.
  bool RoomIsComingLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status NewDatabaseLocked(const std::string& name, std::shared_ptr<Database>* database)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It has gone: nobody opens it any more.
  void DropDatabaseLocked(const std::shared_ptr<Database>& database)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sessions: database_sessions.cc.
  Status NewSessionIdLocked(SessionId* id) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status FindSessionLocked(const RpcPeer& peer, SessionId id, SessionMap::iterator* session)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status NoSessionLocked(SessionId id) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // IOError, and nothing is renewed, if the session has been called over a later connection, or
  // with too many data tokens.
  Status RenewLocked(const RpcPeer& peer, Session* session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SessionMap::iterator EndSessionLocked(SessionMap::iterator session, End how,
                                        std::function<void()>* done)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> TokensToRevokeLocked(const Session& session, End how) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the revoker; without memory for that, EndRevocationsLocked() does.
  void RevokeAccessLocked(RevocationMap::iterator revocation) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRevocationLocked(RevocationMap::iterator revocation) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRevocationsLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AccessRevoked(uint64_t revocation, const Status& status) LOCKS_EXCLUDED(mutex_);
  void EndExpiredSessionsLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of sessions, where one may be.
  void EndThoseOverLocked(Clock::time_point now) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AllowForStandstillLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEndLocked(Clock::time_point ends_at, Session* session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Ownership: database_ownership.cc.
  uint64_t OwnershipWordLocked(const Database& database) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says in *session which word it is to put in place of which.
  void OfferWordLocked(SessionId id, Session* session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOfferedLocked(const Database& database, uint64_t word) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BecomeOwnerLocked(SessionId id, Database* database) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status ConfirmClaimLocked(const RpcPeer& peer, const OpenDatabaseRequest& request,
                            OpenDatabaseReply* reply) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillReplyLocked(SessionId id, const Session& session, OpenDatabaseReply* reply) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session of an owner whose word has been replaced.
  void FenceLostOwnerLocked(const Database& database) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Session* ClaimOnLocked(const Database& database) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Who put this word into the database's header, for people.
  std::string HolderOfLocked(const Database& database, uint64_t word) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A connection has one claim on a database at a time. Who asks again has not heard of the one
  // before, which may have become the owner at once: that is ended, too, if it was never taken up.
  void EndClaimsLocked(uint64_t connection, const std::string& name)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client of a session that was ended has let go of what that had.
  void LetGoLocked(SessionId session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It calls with that session all the same: a connection that it had before says nothing of it.
  void NoteAliveLocked(const RpcPeer& peer, SessionId session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Retires those of `candidates` that `database` has no reason left to keep, and frees what no
  // reader may read.
  void ReleaseLocked(Database* database, ByteRanges candidates) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllocateLocked(Database* database, uint64_t bytes, uint64_t* offset)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeRangesLocked(Database* database, const ByteRanges& ranges)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackLocked(const ByteRanges& ranges) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What no reader may read any more.
  void FreeUnreadLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t GrantableLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status FullLocked(uint64_t bytes, uint64_t usable) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // FullLocked(), and what readers keep.
  Status NoRoomLocked(uint64_t bytes, uint64_t usable) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Somebody has asked for memory in vain: readers that keep some are to move on.
  void PressReadersLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Status RangeOf(const RemoteSpan& span, ByteRange* range) const;
  RemoteSpan SpanOf(uint64_t offset, uint64_t bytes) const;

  // What a refused grant was short of. Of a quota that is its owner's name, which is not empty.
  static constexpr char kNode[] = "";
  void NoteRefusedLocked(const Database& database, bool over_quota)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Quotas: database_quota.cc.
  uint64_t OwnedBytesLocked(const std::string& owner) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t QuotaLeftLocked(const Database& database, bool for_merges) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status OverQuotaLocked(const Database& database, uint64_t bytes) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The client has told of the answers to its merges: what nobody waits for ends, and what nobody
  // has heard of goes.
  void SettleMergesLocked(SessionMap::iterator session, const MergeAnswers& answers)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The calls of MergeHold.
  Status AllocateOutput(Merge* merge, uint64_t bytes, RemoteSpan* span);
  void ShrinkOutput(Merge* merge, const RemoteSpan& allocated, uint64_t bytes);
  Status KeepOutputs(Merge* merge);
  void EndMerge(Merge* merge) noexcept LOCKS_EXCLUDED(mutex_);
  void EndMergeLocked(Merge* merge) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DatabaseTableOptions options_;

  mutable port::Mutex mutex_;  // Protects what follows.
  ExtentAllocator allocator_ GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Database>> databases_ GUARDED_BY(mutex_);
  SessionMap sessions_ GUARDED_BY(mutex_);
  // None of them ends before: each call looks for those that have ended, of perhaps thousands.
  Clock::time_point first_end_ GUARDED_BY(mutex_) = Clock::time_point::max();
  StandstillWatch standstills_ GUARDED_BY(mutex_);
  ReaderLeases readers_ GUARDED_BY(mutex_);
  std::map<const Merge*, std::unique_ptr<Merge>> merges_ GUARDED_BY(mutex_);
  RevocationMap revocations_ GUARDED_BY(mutex_);
  std::map<SessionId, Fenced> fenced_ GUARDED_BY(mutex_);
  uint64_t take_overs_ GUARDED_BY(mutex_) = 0;
  RefusedGrants refused_grants_ GUARDED_BY(mutex_);
  RecentRefusals refusals_ GUARDED_BY(mutex_);
  Quotas quotas_ GUARDED_BY(mutex_);
  uint64_t next_revocation_ GUARDED_BY(mutex_) = 0;
  // Connections whose token has been taken away, for as long as they last.
  std::set<uint64_t> cut_off_ GUARDED_BY(mutex_);
};

// What one merge holds: its inputs, so that they stay where they are until it has ended, and its
// outputs, until they are kept by the session. One thread at a time.
class MergeHold {
 public:
  MergeHold(DatabaseTable* table, DatabaseTable::Merge* merge) : table_(table), merge_(merge) {}
  MergeHold(const MergeHold&) = delete;
  MergeHold& operator=(const MergeHold&) = delete;
  // Frees the outputs that were not kept, and the inputs that were given back meanwhile.
  ~MergeHold() { table_->EndMerge(merge_); }

  // Set when nobody wants the result any more.
  const std::atomic<bool>& cancelled() const { return merge_->cancelled; }
  Status AllocateOutput(uint64_t bytes, RemoteSpan* span) {
    return table_->AllocateOutput(merge_, bytes, span);
  }
  uint64_t FreeBytes() const { return table_->FreeBytesFor(merge_->session); }
  // Keeps the first `bytes` of what AllocateOutput() gave; none: frees all of it.
  void ShrinkOutput(const RemoteSpan& allocated, uint64_t bytes) {
    table_->ShrinkOutput(merge_, allocated, bytes);
  }
  // Hands all outputs to the session. Aborted if it has ended, or has given up the merge.
  Status KeepOutputs() { return table_->KeepOutputs(merge_); }

 private:
  DatabaseTable* const table_;
  DatabaseTable::Merge* const merge_;
};

}  // namespace dlsm
