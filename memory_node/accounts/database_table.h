// The databases of a memory node: who has which open, and who owns which bytes.
//
// DatabaseTable answers calls, and connects the classes that know one thing each:
//
// * Accounts: which bytes each database has, and why; quotas; manifests.
// * Sessions: which sessions there are, and until when.
// * Ownership: whose word is in each database's header.
// * Revocations: sessions that have ended, and whose clients may still reach memory.
// * ReaderLeases: readers that follow databases, and what is kept for them.
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
//
// Locks. A call is one step: that a session goes on, that its word is still in place, and what it
// then does must not fall apart. So the table's lock is held over a whole call, and protects the
// sessions and the ownership, which are decided together. The other classes are also called without
// it, by merges, by the revoker and for statistics, and have locks of their own. The order is:
// DatabaseTable, Revocations, Accounts, and then ReaderLeases, ExtentOwners or AccessRevoker.
#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/access_revoker.h"
#include "memory_node/accounts/accounts.h"
#include "memory_node/accounts/ownership.h"
#include "memory_node/accounts/reader_leases.h"
#include "memory_node/accounts/revocations.h"
#include "memory_node/accounts/sessions.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/standstill_watch.h"

namespace dlsm {

struct DatabaseTableOptions : AccountsOptions {
  std::chrono::nanoseconds grace = std::chrono::seconds(2);
  // Clients address the region themselves: that cannot be taken from them.
  bool clients_map_memory = false;
  // Takes access away, and tells the outcome later, from another thread; outlives the table. Null
  // where clients reach nothing that could be taken away.
  AccessRevoker* revoker = nullptr;
};

class MergeHold;

// Thread-safe.
class DatabaseTable : public StoredSource {
 public:
  using RefusedGrants = Accounts::RefusedGrants;

  explicit DatabaseTable(DatabaseTableOptions options);
  // All MergeHolds are gone.
  ~DatabaseTable() override;

  // Takes up what was stored, once, before the first call: see stored_databases.cc. `resumed`: the
  // clients of the process before may still be there, and go on.
  void Restore(const StoredState& state, bool resumed) LOCKS_EXCLUDED(mutex_);
  void TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests, StoredRows* rows,
                    uint64_t* change) override LOCKS_EXCLUDED(mutex_);
  // Those with which sessions that go on were called.
  std::vector<std::string> DataTokens() const LOCKS_EXCLUDED(mutex_);
  void NotePersisted(uint64_t change) override { accounts_.NotePersisted(change); }

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
  // For a call of the session's owner that is about nothing in this table.
  Status CheckOwned(const RpcPeer& peer, SessionId session);
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
  // The same, for the disk: see Accounts.
  void KeepDisk() { accounts_.KeepDisk(); }

  void Describe(NodeStatisticsReply* statistics) const;
  size_t free_extents() const { return accounts_.free_extents(); }
  // Of this memory node, what it keeps for merges included.
  uint64_t FreeBytes() const { return accounts_.FreeBytes(); }
  // The same for the database of this session, which may have a quota.
  uint64_t FreeBytesFor(SessionId session) const;
  // What may be granted to it: without what is kept for merges.
  uint64_t GrantableBytesFor(SessionId session) const;
  // Whether others have lately been refused what its database has a part of: this memory node's
  // memory, or a quota.
  bool OthersWantRoom(SessionId session) const;
  // As in HeartbeatReply.
  bool FormerReaches(SessionId session) const;
  // What is kept from use because the access of its former client could not be taken away so far.
  uint64_t quarantined_bytes() const { return revocations_.quarantined_bytes(); }
  // Databases that were taken over from whoever had them open, so far.
  uint64_t take_overs() const;
  // Grants that owners have asked for in vain.
  RefusedGrants refused_grants() const { return accounts_.refused_grants(); }
  // Corruption unless every allocated byte has exactly one owner.
  Status CheckInvariants() const;

 private:
  friend class MergeHold;
  using Clock = DatabaseTableOptions::Clock;

  // How a session ends.
  enum class End {
    kClosed,
    kExpired,
    kFenced,
    kUnknown,  // Its client is still there, does not know of it, and opens anew.
  };

  // One that runs, from its beginning to its end; see MergeHold.
  struct Merge {
    uint64_t id = 0;  // As the accounts know it.
    DatabasePointer database;
    SessionId session{};
    uint64_t number = 0;  // As its client knows it.
    uint64_t connection = 0;
    // There was no memory when it asked for some last. Of the merge's own thread.
    bool in_vain = false;
    // It has, and there was no memory to say so to the accounts. Under the table's lock.
    bool ended = false;
    // Read by the merge's thread while others set it; orders nothing.
    std::atomic<bool> cancelled{false};
  };

  Status CheckOpenableLocked(const OpenDatabaseRequest& request) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillReplyLocked(SessionId id, const Session& session, OpenDatabaseReply* reply) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A session has changed: where accounts are stored, so is that.
  void NoteChange() {
    if (options_.store != nullptr) options_.store->NoteChange();
  }
  // The database of this session, or null if there is no such session.
  DatabasePointer DatabaseOf(SessionId session) const LOCKS_EXCLUDED(mutex_);

  // Sessions: database_sessions.cc.
  // The session of an owner, which the call renews.
  Status FindSessionLocked(const RpcPeer& peer, SessionId id, Session** session)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status NoSessionLocked(SessionId id) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes *done over if it is to be called later.
  void EndSessionLocked(SessionId id, End how, std::function<void()>* done)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> TokensToRevokeLocked(const Session& session, bool owner, End how) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndExpiredSessionsLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AllowForStandstillLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Ownership: database_ownership.cc.
  void BecomeOwnerLocked(SessionId id, Session* session) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status ConfirmClaimLocked(const RpcPeer& peer, const OpenDatabaseRequest& request,
                            OpenDatabaseReply* reply) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session of an owner whose word has been replaced. A database without a manifest may go
  // with it, so callers hold on to the identity.
  void FenceLostOwnerLocked(const DatabaseIdentity& database) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A connection has one claim on a database at a time. A client that opens it again has not heard
  // of the claim before, which may have become the owner at once: that is ended, too, if it was
  // never taken up.
  void EndClaimsLocked(uint64_t connection, const std::string& name)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The client has told of the answers to its merges: what nobody waits for ends, and what nobody
  // has heard of goes.
  void SettleMergesLocked(SessionId id, const MergeAnswers& answers, Session* session)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The call of MergeHold that other calls must not come between.
  Status KeepOutputs(Merge* merge) LOCKS_EXCLUDED(mutex_);
  void EndMerge(Merge* merge) noexcept LOCKS_EXCLUDED(mutex_);
  void EndMergeLocked(Merge* merge) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those for which there was no memory.
  void EndMergesOverLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DatabaseTableOptions options_;
  // In the order in which their locks are taken, the last one first.
  ReaderLeases readers_;
  Accounts accounts_;
  Revocations revocations_;

  mutable port::Mutex mutex_;  // Protects what follows.
  Sessions sessions_ GUARDED_BY(mutex_);
  Ownership ownership_ GUARDED_BY(mutex_);
  StandstillWatch standstills_ GUARDED_BY(mutex_);
  std::map<uint64_t, std::unique_ptr<Merge>> merges_ GUARDED_BY(mutex_);
  uint64_t next_merge_ GUARDED_BY(mutex_) = 1;
};

// What one merge holds: its inputs, so that they stay where they are until it has ended, and its
// outputs, until they are kept by the session. One thread at a time.
class MergeHold {
 public:
  explicit MergeHold(DatabaseTable* table) : table_(table) {}
  MergeHold(const MergeHold&) = delete;
  MergeHold& operator=(const MergeHold&) = delete;
  // Frees the outputs that were not kept, and the inputs that were given back meanwhile.
  ~MergeHold() {
    if (merge_ != nullptr) table_->EndMerge(merge_);
  }

  // Set when nobody wants the result any more.
  const std::atomic<bool>& cancelled() const { return merge_->cancelled; }
  Status AllocateOutput(uint64_t bytes, RemoteSpan* span) {
    return table_->accounts_.AllocateOutput(*merge_->database, merge_->id, bytes, span,
                                            &merge_->in_vain);
  }
  uint64_t FreeBytes() const { return table_->accounts_.FreeBytesFor(merge_->database.get()); }
  // Keeps the first `bytes` of what AllocateOutput() gave; none: frees all of it.
  void ShrinkOutput(const RemoteSpan& allocated, uint64_t bytes) {
    const Status shrunk =
        table_->accounts_.ShrinkOutput(*merge_->database, merge_->id, allocated, bytes);
    assert(shrunk.ok());
    shrunk.PermitUncheckedError();
  }
  // Hands all outputs to the session. Aborted if it has ended, or has given up the merge.
  Status KeepOutputs() { return table_->KeepOutputs(merge_); }

 private:
  friend class DatabaseTable;

  DatabaseTable* const table_;
  DatabaseTable::Merge* merge_ = nullptr;  // Null while nothing is held.
};

}  // namespace dlsm
