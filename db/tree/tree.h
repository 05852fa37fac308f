// The LSM-tree's state: memtables, version, and the view of both that readers hold.
//
// How the parts change:
//   switch   the active memtable becomes the newest immutable one; a new one takes its place.
//   flush    the oldest immutable memtables leave, their tables enter level 0, in one step. Flushes
//            run side by side and end in any order; they are installed in the order of memtables.
//   ingest   tables that were made elsewhere enter level 0 with the memtable that they follow.
//   merge    some tables leave, others enter, in one step.
// A change of the version first goes into the manifest, then becomes visible.
//
// Where there is a log, a flush is installed when the log is durable behind all that the memtable
// has: else a part of a write would be in a table and the rest nowhere. The manifest says which
// numbers are in tables, and a log that is replayed is read from the oldest memtable on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/status.h"
#include "db/log/write_log.h"
#include "db/memtable/memtable.h"
#include "db/memtable/memtable_epochs.h"
#include "db/memtable/sequencer.h"
#include "db/nodes/manifest_store.h"
#include "db/tree/manifest.h"
#include "db/tree/read_view.h"
#include "db/tree/version.h"
#include "port/mutex.h"
#include "util/numa.h"

namespace dlsm {

// Thread-safe.
class Tree {
 public:
  // `store` and `epochs`, which other trees share, outlive the tree. All epochs together start
  // behind the manifest's last sequence number. The first look at a memtable is due when it has
  // `memtable_bytes`, see LookIsDue(). Memtables get filters for `filtered_bytes`; 0: for
  // `memtable_bytes`. They are on `numa_node`, see Arena.
  Tree(size_t memtable_bytes, const InternalKeyComparator& comparator, const Manifest& manifest,
       std::vector<Level> levels, ManifestStore* store, MemtableEpochs* epochs,
       size_t filtered_bytes = 0, int numa_node = kNoNumaNode);
  ~Tree() { epochs_->Leave(&by_epoch_); }

  Sequencer& sequencer() { return epochs_->sequencer(); }
  ReadViews& views() { return views_; }
  const InternalKeyComparator& comparator() const { return comparator_; }

  // Memtable of a write that is under way: it lives at least as long as the write.
  Memtable& MemtableOf(MemtableEpoch epoch) const { return by_epoch_.Of(epoch); }

  // Whether the view, taken before `epoch` was the current one, has all that was written up to
  // then: the memtable of that epoch is in it. (A view that is too old lacks it.)
  bool Shows(const ReadView& view, MemtableEpoch epoch) const;

  // Whether the memtable has become so large that MemtableBudget is to be asked about it: whether
  // to switch it, and at what size to ask again. With one shard it is full then, with several it
  // may be far from it.
  bool LookIsDue(const Memtable& memtable) const {
    return memtable.MemoryUsage() >= look_at_bytes_.load(std::memory_order_relaxed) ||
           memtable.RangesFull();
  }
  // The next look is due when the active memtable has so many bytes.
  void LookAgainAt(size_t bytes) {
    // Only if it changes: each write reads it.
    if (look_at_bytes_.load(std::memory_order_relaxed) == bytes) return;
    look_at_bytes_.store(bytes, std::memory_order_relaxed);
  }

  // Range tombstones, those of the version and of memtables, are put with the manifest or will be:
  // so all of them together have an end. What one costs counts twice, for fragments share bounds.
  static constexpr uint64_t kTombstoneBytesMax = uint64_t{8} << 20;
  static uint64_t CostOfTombstone(const Slice& begin, const Slice& end) {
    constexpr uint64_t kFixedBytes = 32;
    return 2 * (begin.size() + end.size()) + kFixedBytes;
  }
  // Returns false if there is no room for so many bytes more. Otherwise they are reserved until
  // ReleaseTombstones(); what is written of them by then is counted by NoteTombstone().
  bool ReserveTombstones(uint64_t bytes);
  void ReleaseTombstones(uint64_t bytes) {
    unflushed_tombstone_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  // One that costs so much is in a memtable. Until it is flushed.
  void NoteTombstone(uint64_t bytes) {
    unflushed_tombstone_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Whether they are so many that merges are to apply them, though none is due otherwise.
  bool TombstonesPress() const {
    return tombstone_bytes_.load(std::memory_order_relaxed) >= kTombstoneBytesMax / 16;
  }
  // Which snapshots are live, ascending: of the numbers of range tombstones that hide the same,
  // only those stay that some reader needs. Before the first flush.
  void SetSnapshots(std::function<std::vector<SequenceNumber>()> snapshots) {
    snapshots_ = std::move(snapshots);
  }
  // All that is written from now on is in this log, which outlives the tree. Before the first
  // write.
  void SetLog(WriteLog* log) LOCKS_EXCLUDED(mutex_);
  // What the manifest says of the handle's log; only that of the first shard. On an error what is
  // in force may be this or what was before: until a put has succeeded both are to be kept.
  Status RecordLog(LogRecord record) LOCKS_EXCLUDED(mutex_, installing_);
  // The next put names no log.
  void ForgetLog() LOCKS_EXCLUDED(installing_) {
    const port::MutexLock installing(installing_);
    log_record_.reset();
  }
  // The log has nothing of this tree before this position, where a frame begins, that is not in its
  // tables.
  LogPosition LogNeededFrom() LOCKS_EXCLUDED(mutex_);
  // All of this tree's entries with numbers up to this one are in tables; it is at most `settled`,
  // up to which all writes have settled (Sequencer::WaitSettled).
  SequenceNumber FlushedUpTo(SequenceNumber settled) const LOCKS_EXCLUDED(mutex_);

  enum class SwitchResult : uint8_t { kNotNeeded, kSwitched, kTooManyMemtables, kNoMemory };
  // Switches if the active memtable holds something, and no less than `bytes`, unless
  // `immutables_max` wait already, or the process has no memory for the next one.
  SwitchResult Switch(size_t bytes, size_t immutables_max) LOCKS_EXCLUDED(mutex_);

  // The oldest immutable memtable that nobody is flushing, now the caller's to flush; null if there
  // is none whose number is at most `number_max`. Complete when this returns.
  std::shared_ptr<Memtable> TakeForFlush(uint64_t number_max = UINT64_MAX) LOCKS_EXCLUDED(mutex_);
  bool HasMemtableToFlush(uint64_t number_max = UINT64_MAX) const LOCKS_EXCLUDED(mutex_);
  void ReturnUnflushed(const Memtable& memtable) LOCKS_EXCLUDED(mutex_);
  // Hands in what a flush made (newest first); it becomes visible at once, or when the memtables
  // before it have been flushed too. On an error nothing has changed and the memtable is the
  // caller's still; those that waited for it are to be flushed again.
  Status InstallFlush(const std::shared_ptr<Memtable>& memtable, std::vector<TableRef> tables)
      LOCKS_EXCLUDED(mutex_, installing_);

  // Ingested tables: their entries, each of another key, all have `number`, which is above all
  // numbers that were given. The active memtable is switched, and numbers go on behind `number`. So
  // what the memtable and those before it have is older than the tables, and all that is written
  // from now on is newer. *memtable is the number of that memtable: when it is flushed the tables
  // are installed with it, in front of its own. Until then ReadView::awaits is set. Busy, and
  // nothing has changed, if the process has no memory for the next memtable, or writes have come
  // too near to `number`.
  Status SwitchForIngest(SequenceNumber number, std::vector<TableRef> tables, uint64_t* memtable)
      LOCKS_EXCLUDED(mutex_);
  // Takes the tables back that were to be installed with this memtable. Returns false if they have
  // been installed.
  [[nodiscard]] bool WithdrawIngest(uint64_t memtable, std::vector<TableRef>* tables)
      LOCKS_EXCLUDED(mutex_, installing_);

  // Makes the edit visible. On an error nothing has changed.
  Status InstallMerge(const VersionEdit& edit) LOCKS_EXCLUDED(mutex_, installing_);

  // Replaces readers of tables: `choose`, called with installing_ held, returns tables by number,
  // and each takes the place of the one with its number in the version. They are the same tables,
  // so the manifest stays as it is. False, and nothing is done, while something is being installed:
  // an install waits for memory nodes, and this must not.
  [[nodiscard]] bool TryReplaceReaders(
      const std::function<std::unordered_map<uint64_t, TableRef>()>& choose)
      LOCKS_EXCLUDED(mutex_, installing_);

  // Puts the manifest once more, with the present sequence number.
  Status PutManifest() LOCKS_EXCLUDED(mutex_, installing_);

  // What a manifest of `version` says of this tree besides its levels, as of `last`.
  Manifest Identity(SequenceNumber last, const Version& version) const {
    Manifest manifest = identity_;
    manifest.tombstones = version.TombstoneFragments();
    manifest.flushed_below = 0;  // Of the log only its owner says something.
    manifest.log.reset();
    manifest.last_sequence = last;
    manifest.next_table_number = next_table_number_.load(std::memory_order_relaxed);
    return manifest;
  }

  uint64_t NewTableNumber() { return next_table_number_.fetch_add(1, std::memory_order_relaxed); }

  struct MemtableCounts {
    size_t immutable = 0;
    size_t bytes = 0;            // Of all memtables.
    size_t filter_bytes = 0;     // Beside them.
    uint64_t newest_number = 0;  // Of the active one.
    uint64_t oldest_number = 0;  // Of the oldest that is not flushed.
  };
  MemtableCounts Memtables() const LOCKS_EXCLUDED(mutex_);

  struct MemtableUsage {
    size_t active_bytes = 0;  // None as long as it has no entry: there is nothing to flush.
    size_t immutable_bytes = 0;
    size_t immutables = 0;
  };
  // As readers see it, without a lock. The thread has no view pinned.
  MemtableUsage Usage();

 private:
  struct Immutable {
    std::shared_ptr<Memtable> memtable;
    bool taken = false;
    bool flushed = false;
    std::vector<TableRef> tables;
    // As SwitchForIngest() has it; 0: none.
    SequenceNumber ingest_number = 0;
    std::vector<TableRef> ingested;
  };

  // Returns null if the process has no memory for it.
  std::shared_ptr<Memtable> NextMemtableLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With ingested tables that are to be installed with the memtable before; none: number 0.
  void SwitchLocked(std::shared_ptr<Memtable> fresh, SequenceNumber ingest_number,
                    std::vector<TableRef> ingested) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes `version` the one that readers find; the `flushed` oldest immutable memtables are in it,
  // and leave the view.
  void ShowLocked(std::shared_ptr<const Version> version, size_t flushed)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The view with this active memtable and this version, without the `flushed` oldest immutable
  // memtables. Where `active` is a new one, the present one is the newest of these.
  std::shared_ptr<ReadView> ViewLocked(const std::shared_ptr<Memtable>& active,
                                       const std::shared_ptr<const Version>& version,
                                       size_t flushed) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string GuessPrefixLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Immutable* FindLocked(const Memtable& memtable) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An install has failed that was to take the flushed memtables in, `failed` among them: all of
  // these are to be flushed anew.
  void ForgetFlushes(const Memtable& failed) EXCLUSIVE_LOCKS_REQUIRED(installing_)
      LOCKS_EXCLUDED(mutex_);
  // Installs the oldest memtables as far as they are flushed without a gap.
  Status InstallFlushed() EXCLUSIVE_LOCKS_REQUIRED(installing_) LOCKS_EXCLUDED(mutex_);
  // Puts the manifest of `version` at the memory nodes.
  Status Store(const Version& version) EXCLUSIVE_LOCKS_REQUIRED(installing_);
  LogPosition CompleteInLog() const { return log_ == nullptr ? 0 : log_->CompleteUpTo(); }
  std::shared_ptr<const Version> Head() const LOCKS_EXCLUDED(mutex_);
  // Those of the manifest; null if there are none.
  static std::shared_ptr<const RangeTombstones> TombstonesOf(
      const InternalKeyComparator& comparator, const Manifest& manifest);
  void NoteTombstones(const Version& version);
  static Manifest WithoutTombstones(Manifest manifest);
  // Those of `version` and of `added` together.
  std::shared_ptr<const RangeTombstones> WithTombstones(const Version& version,
                                                        std::vector<RangeTombstone> added) const;

  const InternalKeyComparator comparator_;
  const Manifest identity_;  // What does not change while the database is open.
  ManifestStore* const store_;
  MemtableEpochs* const epochs_;
  const size_t filtered_bytes_;
  const int numa_node_;
  std::atomic<size_t> look_at_bytes_;
  std::atomic<uint64_t> tombstone_bytes_{0};            // Of the version that readers find.
  std::atomic<uint64_t> unflushed_tombstone_bytes_{0};  // Of memtables, and of writes to come.
  std::function<std::vector<SequenceNumber>()> snapshots_;
  EpochMap by_epoch_;
  std::atomic<uint64_t> next_table_number_;

  WriteLog* log_ = nullptr;

  // One change of the version at a time, manifest included. Taken before mutex_.
  port::Mutex installing_;
  std::optional<LogRecord> log_record_ GUARDED_BY(installing_);
  // As in Manifest.
  SequenceNumber flushed_below_ GUARDED_BY(installing_);

  mutable port::Mutex mutex_;                         // Never held across a call to a memory node.
  SequenceNumber unflushed_from_ GUARDED_BY(mutex_);  // Tables have everything before it.
  std::shared_ptr<Memtable> active_ GUARDED_BY(mutex_);
  uint64_t next_memtable_number_ GUARDED_BY(mutex_) = 1;
  std::vector<Immutable> immutables_ GUARDED_BY(mutex_);  // Oldest first.
  std::shared_ptr<const Version> version_ GUARDED_BY(mutex_);

  ReadViews views_;  // Last: what it holds refers to nothing here.
};

}  // namespace dlsm
