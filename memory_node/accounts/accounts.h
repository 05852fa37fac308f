// The accounts of a memory node's databases: which bytes each has, and for which reasons; how much
// more it may have; and its manifest.
//
// 1. A call makes an AccountChange, a value, and Apply() alone carries it out. A change that does
//    not fit the account is refused as a whole.
// 2. Bytes that lose their last reason are retired (reader_leases.h), and free once no reader may
//    read them. What readers keep does not count for the database's quota. Where there is no memory
//    to retire or free bytes, they keep a place in the accounts, and FreeUnread() tries again.
// 3. Applying a change touches accounts alone: it neither reads nor writes the bytes themselves.
// 4. Where the accounts are stored (AccountsOptions::store), bytes that nobody may read any more
// are
//    free when it is persisted that they have no reason: else the file could name them again after
//    others have written there.
// 5. An account that was dropped stays, without being listed, until its last byte has no reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/account_change.h"
#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/accounts/extent_owners.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/accounts/quotas.h"
#include "memory_node/accounts/reader_leases.h"
#include "memory_node/accounts/recent_refusals.h"
#include "memory_node/store/store_keeper.h"
#include "memory_node/store/stored_state.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/memory/extent_allocator.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// What grants leave free for merges, which make room, unless something else is asked for: an
// eighth, but at least two tables of the default size where that is not more than a quarter.
uint64_t DefaultMergeReserve(uint64_t capacity_bytes);

struct AccountsOptions {
  using Clock = port::Clock;

  NodeId node{};
  RegionId region{};
  uint64_t capacity_bytes = 0;
  OwnMemory* memory = nullptr;  // The region's bytes; outlives the accounts.
  uint64_t merge_reserve_bytes = 0;
  uint64_t database_quota_bytes = 0;  // Of each database that has no quota of its own; 0: none.
  std::chrono::nanoseconds lease = std::chrono::seconds(10);
  // What to do when it is full, besides deleting data; for messages.
  std::string full_remedy = "start Server with more memory";
  std::function<Clock::time_point()> clock = [] { return Clock::now(); };
  // Told whose each extent is; outlives the accounts; may be null. Where there is one, memory is
  // overwritten with zeros before it is given to anybody: not every client may read what was there
  // before.
  ExtentOwners* extent_owners = nullptr;
  // Asked, under the accounts' lock, before memory is allocated: true is as if there were none in
  // one piece. May be empty.
  std::function<bool()> refuse_extent;
  // Clients are told of no more free memory than that. For tests: their merges then go by steps
  // (db/merge/merge_pieces.h) as in a full memory node.
  uint64_t free_bytes_told_max = UINT64_MAX;
  // Where the accounts are kept, besides in memory; outlives them. May be null.
  StoreKeeper* store = nullptr;
  // Shown each change, under the accounts' lock, after it was found to fit and before it is carried
  // out. May be empty.
  std::function<void(const AccountChange&)> changing;
};

// The constants of a database, from its making to its end.
struct DatabaseIdentity {
  std::string name;
  DatabaseIncarnation incarnation{};  // Drawn when it was made.
  RemoteSpan header;
  ReaderLeases::Database published = std::make_shared<PublishedDatabase>();
};
using DatabasePointer = std::shared_ptr<const DatabaseIdentity>;

// Thread-safe. Its lock is taken before that of the ReaderLeases and of the ExtentOwners.
class Accounts {
 public:
  // Of an owner that asks for memory in vain.
  struct RefusedGrants {
    uint64_t over_quota = 0;
    uint64_t full = 0;
  };

  // `readers` outlives the accounts.
  Accounts(AccountsOptions options, ReaderLeases* readers);

  // Carries out the change. InvalidArgument, and nothing has changed, if it does not fit.
  Status Apply(AccountChange change) LOCKS_EXCLUDED(mutex_);

  // Null if no database of this name is listed.
  DatabasePointer Find(const std::string& name) const LOCKS_EXCLUDED(mutex_);
  size_t count() const LOCKS_EXCLUDED(mutex_);
  // *database is new, and has nothing but its header. `room_is_coming`: it is TimedOut, and not
  // Busy, if there is no room.
  Status Make(const std::string& name, bool room_is_coming, DatabasePointer* database)
      LOCKS_EXCLUDED(mutex_);
  // Nobody opens it any more.
  Status Drop(const DatabaseIdentity& database) LOCKS_EXCLUDED(mutex_);
  AccountManifest ManifestOf(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);
  uint64_t ManifestVersionOf(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);
  bool IsLiveEmpty(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);

  // A session becomes the owner: it holds what is live. It may give back what the last owner has
  // published, before it tells from where on it does; *unnamed_before is what that one has told.
  Status BeginOwner(const DatabaseIdentity& database, uint64_t* unnamed_before)
      LOCKS_EXCLUDED(mutex_);
  // A session has ended, of this number; its client still reaches what is fenced with it.
  struct SessionEnd {
    uint64_t number = 0;
    bool owner = false;        // It held something.
    bool fences_live = false;  // The live bytes are fenced, too.
    bool owner_gone = false;   // Nobody knows how far its publications had got.
    uint64_t unnamed_from = PublishedDatabase::kUnknown;
  };
  Status EndSession(const DatabaseIdentity& database, const SessionEnd& end) LOCKS_EXCLUDED(mutex_);
  // Its client reaches nothing of that any more.
  Status EndFence(const DatabaseIdentity& database, uint64_t number) LOCKS_EXCLUDED(mutex_);
  uint64_t FencedBytes(const DatabaseIdentity& database, uint64_t number) const
      LOCKS_EXCLUDED(mutex_);

  // The owner's calls. `session` asks, for OthersWantRoom().
  Status Grant(const DatabaseIdentity& database, SessionId session, const GrantRequest& request,
               RemoteSpan* extent) LOCKS_EXCLUDED(mutex_);
  // *freed has been given back. What no publication names from `unnamed_from` on.
  Status Free(const DatabaseIdentity& database, const std::vector<RemoteSpan>& spans,
              uint64_t unnamed_from, ByteRanges* freed) LOCKS_EXCLUDED(mutex_);
  // The owner lets go of bytes that it holds, whether it has ever known of them or not.
  Status Release(const DatabaseIdentity& database, ByteRanges held) LOCKS_EXCLUDED(mutex_);
  Status PutManifest(const DatabaseIdentity& database, const PutManifestRequest& request)
      LOCKS_EXCLUDED(mutex_);
  // Bytes that are given back from now on are named by no publication from this one on. kUnknown:
  // the owner does not know yet.
  Status UnnamedFrom(const DatabaseIdentity& database, uint64_t publication) LOCKS_EXCLUDED(mutex_);

  // Merges, by numbers of the caller's.
  Status BeginMerge(const DatabaseIdentity& database, uint64_t merge,
                    const std::vector<RemoteSpan>& inputs) LOCKS_EXCLUDED(mutex_);
  // *in_vain: there is no memory. A merge that is refused a large piece may make do with a smaller
  // one.
  Status AllocateOutput(const DatabaseIdentity& database, uint64_t merge, uint64_t bytes,
                        RemoteSpan* span, bool* in_vain) LOCKS_EXCLUDED(mutex_);
  // Keeps the first `bytes` of `allocated`.
  Status ShrinkOutput(const DatabaseIdentity& database, uint64_t merge, const RemoteSpan& allocated,
                      uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  ByteRanges OutputsOf(const DatabaseIdentity& database, uint64_t merge) const
      LOCKS_EXCLUDED(mutex_);
  Status KeepOutputs(const DatabaseIdentity& database, uint64_t merge) LOCKS_EXCLUDED(mutex_);
  // Frees the outputs that were not kept. `in_vain`: the last one that it asked for was refused.
  Status EndMerge(const DatabaseIdentity& database, uint64_t merge, bool in_vain)
      LOCKS_EXCLUDED(mutex_);

  // What no reader may read any more is free, as far as there is memory to say so. To be called
  // after readers have changed, and every now and then.
  void FreeUnread() LOCKS_EXCLUDED(mutex_);

  // `owner`: see Quotas::OwnerOf(). Returns false if there are too many quotas.
  [[nodiscard]] bool SetQuota(const std::string& owner, uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  uint64_t QuotaOf(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);
  std::string DefaultQuotaForTool() const LOCKS_EXCLUDED(mutex_);

  // All but `open`.
  ListDatabasesReply List() const LOCKS_EXCLUDED(mutex_);
  void Describe(NodeStatisticsReply* statistics) const LOCKS_EXCLUDED(mutex_);
  // Pieces into which the free memory is divided.
  size_t free_extents() const LOCKS_EXCLUDED(mutex_);
  // Of this memory node, what it keeps for merges included.
  uint64_t FreeBytes() const LOCKS_EXCLUDED(mutex_);
  // The same as told to clients: for this database, which may have a quota, or for any, if
  // `database` is null.
  uint64_t FreeBytesFor(const DatabaseIdentity* database) const LOCKS_EXCLUDED(mutex_);
  // The part of that which may be granted: without the reserve for merges.
  uint64_t GrantableBytesFor(const DatabaseIdentity* database) const LOCKS_EXCLUDED(mutex_);
  // Whether others have lately been refused what this database has a part of: this memory node's
  // memory, or a quota.
  bool OthersWantRoom(const DatabaseIdentity& database, SessionId session) const
      LOCKS_EXCLUDED(mutex_);
  RefusedGrants refused_grants() const LOCKS_EXCLUDED(mutex_);

  // Storing: stored_accounts.cc.
  // The accounts as rows, but for what only sessions know. Manifests whose version is in
  // `manifests` are left out. *change: the last one that is in it.
  void TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests,
                    std::vector<StoredDatabase>* rows, std::map<uint64_t, StoredManifest>* put,
                    StoredQuotas* quotas, uint64_t* change) const LOCKS_EXCLUDED(mutex_);
  void NotePersisted(uint64_t change) LOCKS_EXCLUDED(mutex_);
  // Takes up what was stored, once, before anything else. With `resumed` sessions go on, and what
  // they hold; else what manifests name is all that has a reason, and a database without a manifest
  // is gone. The readers of before are not known: bytes that were kept for them get a fence, each
  // database another one, with numbers from this one on.
  void Restore(const StoredState& state, bool resumed, uint64_t first_readers_fence)
      LOCKS_EXCLUDED(mutex_);
  // By their incarnations, with the numbers of the fences that each has.
  std::vector<std::pair<DatabasePointer, std::vector<uint64_t>>> Fences() const
      LOCKS_EXCLUDED(mutex_);
  DatabasePointer FindIncarnation(DatabaseIncarnation incarnation) const LOCKS_EXCLUDED(mutex_);
  // Has the disk get back what is free, if that is much; and looks how much the disk can take.
  void KeepDisk() LOCKS_EXCLUDED(mutex_);

  // The bytes that have this reason.
  ByteRanges BytesOf(const DatabaseIdentity& database, ByteReason reason) const
      LOCKS_EXCLUDED(mutex_);
  // Corruption unless every allocated byte belongs to one account, or to readers.
  Status CheckInvariants() const LOCKS_EXCLUDED(mutex_);

 private:
  using Reasons = std::map<ByteReason, ByteRanges>;
  struct Account {
    DatabasePointer identity;
    bool listed = true;
    uint64_t bytes = 0;  // All that have a reason.
    Reasons reasons;     // None is empty.
    AccountManifest manifest;
  };

  Account* FindLocked(DatabaseIncarnation incarnation) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Account* FindLocked(DatabaseIncarnation incarnation) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Account* FindNameLocked(const std::string& name) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static const ByteRanges& BytesFor(const Account& account, ByteReason reason);

  // Applying: accounts.cc.
  Status ApplyLocked(AccountChange change) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes no memory. `given` has an entry for each reason that a step gives, with the bytes that
  // are copied as a whole; *holes are enough for all steps.
  void CarryOutLocked(AccountChange change, Reasons given, ByteRanges::Holes* holes,
                      Account* account) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status CheckLocked(const AccountChange& change) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status CheckStepLocked(const Account* account, const AccountStep& step) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Account* MakeAccountLocked(const AccountChange& change) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Allocates what the steps do; each call's change allocates one range at most.
  void AllocateLocked(const std::vector<AccountStep>& steps, Account* account)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Retires what the account has no reason left to keep.
  void SettleLocked(Account* account) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeUnreadLocked() noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeRangeLocked(ByteRange range) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UnpersistedBytesLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RestoreLocked(const StoredDatabase& stored, const StoredManifest& manifest, bool resumed,
                     uint64_t readers_fence) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackLocked(ByteRange range) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfGoneLocked(DatabaseIncarnation incarnation) noexcept
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Room: accounts_room.cc.
  // Finds free bytes, which are zero where not every client may read what was there, and allocates
  // none of them. Returns false if there are none in one piece.
  bool FindRoomLocked(uint64_t bytes, ByteRange* range) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the disk has room for this range of the region, from now on.
  bool TakeDiskLocked(ByteRange range) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How much of the region is free, and can be on the disk.
  uint64_t FreeLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t GrantableLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t OwnedBytesLocked(const std::string& owner) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t QuotaLeftLocked(const std::string& database, bool for_merges) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status OverQuotaLocked(const std::string& database, uint64_t bytes) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status FullLocked(uint64_t bytes, uint64_t usable) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // FullLocked(), and what readers keep.
  Status NoRoomLocked(uint64_t bytes, uint64_t usable) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Somebody has asked for memory in vain: readers that keep some are to move on.
  void PressReadersLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRefusedLocked(const std::string& database, SessionId session, bool over_quota)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Status RangeOf(const RemoteSpan& span, ByteRange* range) const;
  RemoteSpan SpanOf(uint64_t offset, uint64_t bytes) const;

  const AccountsOptions options_;
  ReaderLeases* const readers_;

  mutable port::Mutex mutex_;  // Protects what follows.
  ExtentAllocator allocator_ GUARDED_BY(mutex_);
  std::map<DatabaseIncarnation, Account> accounts_ GUARDED_BY(mutex_);
  // The same, with those that are gone; of each name at most one is listed.
  std::multimap<std::string, Account*> by_name_ GUARDED_BY(mutex_);
  size_t listed_ GUARDED_BY(mutex_) = 0;
  // There was no memory to settle some account.
  bool unsettled_ GUARDED_BY(mutex_) = false;
  // Where the accounts are stored: what is free when this change is persisted, in their order.
  struct Unpersisted {
    uint64_t change = 0;
    ByteRange range;
  };
  std::deque<Unpersisted> unpersisted_ GUARDED_BY(mutex_);
  // What the disk has room for; what else it can take, when somebody looked last; and why it had no
  // room then, if it had none.
  ByteRanges on_disk_ GUARDED_BY(mutex_);
  uint64_t free_disk_bytes_ GUARDED_BY(mutex_) = UINT64_MAX;
  Status disk_refusal_ GUARDED_BY(mutex_);
  Quotas quotas_ GUARDED_BY(mutex_);
  RecentRefusals refusals_ GUARDED_BY(mutex_);
  RefusedGrants refused_grants_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
