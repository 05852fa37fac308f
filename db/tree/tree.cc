#include "db/tree/tree.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/sync_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

void CollectObsolete(const Version& before, const VersionEdit& edit,
                     std::vector<TableRef>* tables) {
  for (size_t i = 0; i < edit.levels.size(); ++i) {
    const std::vector<uint64_t>& removed = edit.levels[i].removed;
    if (removed.empty()) continue;
    for (const TableRef& table : before.levels()[i].AllTables()) {
      if (std::find(removed.begin(), removed.end(), table->number()) != removed.end()) {
        tables->push_back(table);
      }
    }
  }
}

#ifndef NDEBUG
bool Holds(const Status& invariants) {
  if (!invariants.ok()) Log().Critical("a version is wrong: {}", invariants.ToString());
  return invariants.ok();
}
#endif

// A table that only moves to another level stays: with the reader that it has now, which may be
// another one than when it was picked. *removed: those of `before` that leave; then only the
// others.
VersionEdit WithPresentReaders(VersionEdit edit, std::vector<TableRef>* removed) {
  for (VersionEdit::LevelEdit& level : edit.levels) {
    for (TableRef& added : level.added) {
      const auto moved = std::find_if(
          removed->begin(), removed->end(),
          [&added](const TableRef& table) { return table->number() == added->number(); });
      if (moved == removed->end()) continue;
      added = *moved;
      removed->erase(moved);
    }
  }
  return edit;
}

}  // namespace

Tree::Tree(size_t memtable_bytes, const InternalKeyComparator& comparator, const Manifest& manifest,
           std::vector<Level> levels, ManifestStore* store, MemtableEpochs* epochs,
           size_t filtered_bytes, int numa_node)
    : comparator_(comparator),
      identity_(WithoutTombstones(manifest)),
      store_(store),
      epochs_(epochs),
      filtered_bytes_(filtered_bytes == 0 ? memtable_bytes : filtered_bytes),
      numa_node_(numa_node),
      look_at_bytes_(memtable_bytes),
      next_table_number_(manifest.next_table_number),
      log_record_(manifest.log),
      flushed_below_(manifest.flushed_below),
      unflushed_from_(epochs->sequencer().Now().next),
      active_(std::make_shared<Memtable>(comparator, 0, Slice(), filtered_bytes_, numa_node_)),
      version_(std::make_shared<const Version>(comparator, std::move(levels),
                                               TombstonesOf(comparator, manifest))),
      views_([this]() NO_THREAD_SAFETY_ANALYSIS {
        auto view = std::make_shared<ReadView>();
        view->active = active_;
        view->version = version_;
        port::SyncPoint("view: made");
        return view;
      }()) {
  assert(epochs->sequencer().Now().next > manifest.last_sequence);
  NoteTombstones(*version_);
  epochs->Join(&by_epoch_, active_.get());
}

std::shared_ptr<const RangeTombstones> Tree::TombstonesOf(const InternalKeyComparator& comparator,
                                                          const Manifest& manifest) {
  if (manifest.tombstones.empty()) return nullptr;
  return std::make_shared<const RangeTombstones>(comparator, manifest.tombstones);
}

Manifest Tree::WithoutTombstones(Manifest manifest) {
  manifest.tombstones.clear();
  return manifest;
}

// The snapshots are listed after the tombstones have settled: one that is taken later sees them
// all.
std::shared_ptr<const RangeTombstones> Tree::WithTombstones(
    const Version& version, std::vector<RangeTombstone> added) const {
  if (added.empty()) return nullptr;
  const std::vector<SequenceNumber> snapshots =
      snapshots_ == nullptr ? std::vector<SequenceNumber>() : snapshots_();
  return std::make_shared<const RangeTombstones>(
      comparator_, RangeTombstones::Fragments(comparator_, version.tombstones().get(),
                                              std::move(added), snapshots));
}

bool Tree::ReserveTombstones(uint64_t bytes) {
  const uint64_t unflushed =
      unflushed_tombstone_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (unflushed + tombstone_bytes_.load(std::memory_order_relaxed) <= kTombstoneBytesMax) {
    return true;
  }
  ReleaseTombstones(bytes);
  return false;
}

void Tree::NoteTombstones(const Version& version) {
  tombstone_bytes_.store(version.tombstones() == nullptr ? 0 : version.tombstones()->bytes(),
                         std::memory_order_relaxed);
}

void Tree::SetLog(WriteLog* log) {
  const port::MutexLock lock(mutex_);
  assert(active_->empty() && immutables_.empty());
  log_ = log;
}

Status Tree::RecordLog(LogRecord record) {
  const port::MutexLock installing(installing_);
  log_record_ = std::move(record);
  return Store(*Head());
}

// Frames that are complete have their entries in memtables. So if no memtable has an entry after
// the position was read, tables have everything before it.
LogPosition Tree::LogNeededFrom() {
  const LogPosition complete = CompleteInLog();
  const port::MutexLock lock(mutex_);
  if (!immutables_.empty()) return immutables_.front().memtable->log_from();
  if (active_->empty()) active_->set_log_from(complete);
  return active_->log_from();
}

SequenceNumber Tree::FlushedUpTo(SequenceNumber settled) const {
  const port::MutexLock lock(mutex_);
  if (immutables_.empty() && active_->empty()) return settled;
  return std::min(settled, unflushed_from_ - 1);
}

bool Tree::Shows(const ReadView& view, MemtableEpoch epoch) const {
  const Memtable* const owner = &by_epoch_.Of(epoch);
  return owner == view.active.get() ||
         std::any_of(view.immutables.begin(), view.immutables.end(),
                     [owner](const auto& immutable) { return immutable.get() == owner; });
}

Tree::SwitchResult Tree::Switch(size_t bytes, size_t immutables_max) {
  port::MutexLock lock(mutex_);
  const bool is_full = active_->MemoryUsage() >= bytes || active_->RangesFull();
  if (active_->empty() || !is_full) return SwitchResult::kNotNeeded;
  if (immutables_.size() >= immutables_max) return SwitchResult::kTooManyMemtables;
  std::shared_ptr<Memtable> fresh = NextMemtableLocked();
  if (fresh == nullptr) return SwitchResult::kNoMemory;
  // Before the switch: a write that gets its numbers afterwards may have taken its place in the log
  // long before, but is not complete yet.
  fresh->set_log_from(CompleteInLog());
  SwitchLocked(std::move(fresh), /*ingest_number=*/0, {});
  return SwitchResult::kSwitched;
}

// The memtable is switched though it may be empty: its end says where the tables belong.
Status Tree::SwitchForIngest(SequenceNumber number, std::vector<TableRef> tables,
                             uint64_t* memtable) {
  // Writers take numbers meanwhile, and this thread may be held up.
  constexpr SequenceNumber kNumbersLeft = SequenceNumber{1} << 24;
  port::MutexLock lock(mutex_);
  if (epochs_->sequencer().Now().next + kNumbersLeft > number) {
    return Status::Busy("there were too many writes beside the ingest",
                        "ingest it again, in smaller parts, or while less is written");
  }
  std::shared_ptr<Memtable> fresh = NextMemtableLocked();
  if (fresh == nullptr) return OutOfMemtableMemory("nothing was ingested");
  fresh->set_log_from(CompleteInLog());
  *memtable = active_->number();
  SwitchLocked(std::move(fresh), number, std::move(tables));
  return Status::OK();
}

bool Tree::WithdrawIngest(uint64_t memtable, std::vector<TableRef>* tables) {
  // An install that is under way has taken them, or will not.
  port::MutexLock installing(installing_);
  port::MutexLock lock(mutex_);
  const auto with = std::find_if(
      immutables_.begin(), immutables_.end(),
      [memtable](const Immutable& each) { return each.memtable->number() == memtable; });
  if (with == immutables_.end()) return false;
  *tables = std::exchange(with->ingested, {});
  with->ingest_number = 0;
  views_.Install(ViewLocked(active_, version_, /*flushed=*/0));
  return true;
}

// It begins with a block of its arena and a filter, which are large.
std::shared_ptr<Memtable> Tree::NextMemtableLocked() const {
  try {
    return std::make_shared<Memtable>(comparator_, next_memtable_number_, GuessPrefixLocked(),
                                      filtered_bytes_, numa_node_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// The order matters: the new memtable is in the readers' view and is found by its epoch, and then
// the sequencer hands the epoch out. A thread that completes a write in it can read it back.
void Tree::SwitchLocked(std::shared_ptr<Memtable> fresh, SequenceNumber ingest_number,
                        std::vector<TableRef> ingested) {
  const std::shared_ptr<ReadView> view = ViewLocked(fresh, version_, /*flushed=*/0);
  if (view->awaits == 0) view->awaits = ingest_number;
  views_.Install(view);
  ++next_memtable_number_;
  const std::shared_ptr<Memtable> full = std::exchange(active_, std::move(fresh));
  immutables_.push_back(Immutable{full, false, false, {}, ingest_number, std::move(ingested)});
  port::SyncPoint("switch: shown");
  full->set_cut(epochs_->Switch(&by_epoch_, active_.get(), ingest_number));
}

// What the keys of the memtable before had in common, the next ones are likely to have.
std::string Tree::GuessPrefixLocked() const {
  const std::unique_ptr<Iterator> keys = active_->NewIterator();
  keys->SeekToFirst();
  if (!keys->Valid()) return std::string();
  const std::string first = ExtractUserKey(keys->key()).ToString();
  port::SyncPoint("switch: first key read");
  keys->SeekToLast();
  if (!keys->Valid()) return std::string();  // All of it was a batch that has been withdrawn.
  const Slice last = ExtractUserKey(keys->key());
  const size_t limit = std::min(first.size(), last.size());
  size_t common = 0;
  while (common < limit && first[common] == last[common]) ++common;
  return first.substr(0, common);
}

void Tree::ShowLocked(std::shared_ptr<const Version> version, size_t flushed) {
  views_.Install(ViewLocked(active_, version, flushed));
  NoteTombstones(*version);
  version_ = std::move(version);
  if (flushed > 0) unflushed_from_ = immutables_[flushed - 1].memtable->cut();
  for (size_t i = 0; i < flushed; ++i) {
    ReleaseTombstones(immutables_[i].memtable->ranges().bytes());
  }
  immutables_.erase(immutables_.begin(), immutables_.begin() + static_cast<ptrdiff_t>(flushed));
}

std::shared_ptr<ReadView> Tree::ViewLocked(const std::shared_ptr<Memtable>& active,
                                           const std::shared_ptr<const Version>& version,
                                           size_t flushed) const {
  auto view = std::make_shared<ReadView>();
  view->active = active;
  if (active != active_) view->immutables.push_back(active_);
  for (size_t i = immutables_.size(); i > flushed; --i) {
    view->immutables.push_back(immutables_[i - 1].memtable);
    const SequenceNumber number = immutables_[i - 1].ingest_number;
    if (number != 0) view->awaits = number;  // The oldest comes last.
  }
  view->version = version;
  return view;
}

std::shared_ptr<Memtable> Tree::TakeForFlush(uint64_t number_max) {
  std::shared_ptr<Memtable> memtable;
  {
    port::MutexLock lock(mutex_);
    for (Immutable& immutable : immutables_) {
      if (immutable.taken || immutable.memtable->number() > number_max) continue;
      immutable.taken = true;
      memtable = immutable.memtable;
      break;
    }
  }
  if (memtable == nullptr) return nullptr;
  epochs_->sequencer().WaitSettled(memtable->cut() - 1);
  // All its writes had taken their places before they took their numbers.
  if (log_ != nullptr) memtable->set_log_end(log_->tail());
  return memtable;
}

bool Tree::HasMemtableToFlush(uint64_t number_max) const {
  port::MutexLock lock(mutex_);
  return std::any_of(immutables_.begin(), immutables_.end(), [&](const Immutable& immutable) {
    return !immutable.taken && immutable.memtable->number() <= number_max;
  });
}

Tree::Immutable* Tree::FindLocked(const Memtable& memtable) {
  for (Immutable& immutable : immutables_) {
    if (immutable.memtable.get() == &memtable) return &immutable;
  }
  return nullptr;
}

void Tree::ReturnUnflushed(const Memtable& memtable) {
  port::MutexLock lock(mutex_);
  Immutable* immutable = FindLocked(memtable);
  assert(immutable != nullptr);
  immutable->taken = false;
}

Status Tree::InstallFlush(const std::shared_ptr<Memtable>& memtable, std::vector<TableRef> tables) {
  if (log_ != nullptr) DLSM_RETURN_IF_ERROR(log_->AwaitSafeForManifest(memtable->log_end()));
  port::MutexLock installing(installing_);
  {
    port::MutexLock lock(mutex_);
    Immutable* immutable = FindLocked(*memtable);
    assert(immutable != nullptr);
    immutable->flushed = true;
    immutable->tables = std::move(tables);
  }
  const Status status = InstallFlushed();
  if (!status.ok()) ForgetFlushes(*memtable);
  return status;
}

// The caller gives its tables up: no later install may take them for flushed. So are the others of
// this attempt, for their tables may be what it failed for: on a memory node that has died, say.
void Tree::ForgetFlushes(const Memtable& failed) {
  size_t count = 0;  // Of the oldest ones; it is those as long as nothing is installed.
  {
    port::MutexLock lock(mutex_);
    while (count < immutables_.size() && immutables_[count].flushed) ++count;
  }
  for (size_t i = 0; i < count; ++i) {
    std::vector<TableRef> dropped;  // Let go after the lock.
    {
      port::MutexLock lock(mutex_);
      Immutable& each = immutables_[i];
      if (each.memtable.get() == &failed) continue;
      each.flushed = each.taken = false;
      dropped.swap(each.tables);
    }
    for (const TableRef& table : dropped) table->MarkObsolete();
  }
  std::vector<TableRef> own_tables;
  port::MutexLock lock(mutex_);
  Immutable* const own = FindLocked(failed);
  assert(own != nullptr);
  own->flushed = false;
  own_tables.swap(own->tables);
}

Status Tree::InstallFlushed() {
  size_t count = 0;
  SequenceNumber cut = 0;
  std::shared_ptr<const Version> version;
  VersionEdit edit(1);
  std::vector<std::shared_ptr<Memtable>> flushed;
  {
    port::MutexLock lock(mutex_);
    version = version_;
    for (; count < immutables_.size() && immutables_[count].flushed; ++count) {
      std::vector<TableRef>& added = edit.levels[0].added;
      const std::vector<TableRef>& tables = immutables_[count].tables;
      added.insert(added.begin(), tables.begin(), tables.end());
      const std::vector<TableRef>& ingested = immutables_[count].ingested;
      added.insert(added.begin(), ingested.begin(), ingested.end());
      cut = immutables_[count].memtable->cut();
      flushed.push_back(immutables_[count].memtable);
    }
  }
  if (count == 0) return Status::OK();
  std::vector<RangeTombstone> tombstones;
  for (const std::shared_ptr<Memtable>& memtable : flushed) {
    std::vector<RangeTombstone> own = memtable->ranges().List(kSequenceNumberMax);
    std::move(own.begin(), own.end(), std::back_inserter(tombstones));
  }
  edit.tombstones = WithTombstones(*version, std::move(tombstones));
  if (!edit.levels[0].added.empty() || edit.tombstones != nullptr) version = version->With(edit);
  assert(Holds(version->CheckInvariants()));
  // A put that fails may be in force all the same: with the tables that make this true.
  const SequenceNumber flushed_before = flushed_below_;
  if (log_ != nullptr || flushed_below_ > 0) flushed_below_ = cut;
  const Status stored = Store(*version);
  if (!stored.ok()) {
    flushed_below_ = flushed_before;
    return stored;
  }
  port::SyncPoint("flush: stored");
  port::MutexLock lock(mutex_);
  ShowLocked(std::move(version), count);
  return Status::OK();
}

Status Tree::InstallMerge(const VersionEdit& edit) {
  std::vector<TableRef> removed;  // Let go after the locks.
  port::MutexLock installing(installing_);
  const std::shared_ptr<const Version> before = Head();
  CollectObsolete(*before, edit, &removed);
  std::shared_ptr<const Version> version = before->With(WithPresentReaders(edit, &removed));
  assert(Holds(version->CheckInvariants()));
  DLSM_RETURN_IF_ERROR(Store(*version));
  port::SyncPoint("merge: stored");
  {
    port::MutexLock lock(mutex_);
    ShowLocked(std::move(version), /*flushed=*/0);
  }
  for (const TableRef& table : removed) table->MarkObsolete();
  return Status::OK();
}

bool Tree::TryReplaceReaders(
    const std::function<std::unordered_map<uint64_t, TableRef>()>& choose) {
  if (!installing_.TryLock()) return false;
  const port::AdoptedLock installing(installing_);
  const std::unordered_map<uint64_t, TableRef> chosen = choose();
  if (chosen.empty()) return true;
  std::shared_ptr<const Version> version = Head()->WithReaders(chosen);
  port::MutexLock lock(mutex_);
  ShowLocked(std::move(version), /*flushed=*/0);
  return true;
}

std::shared_ptr<const Version> Tree::Head() const {
  port::MutexLock lock(mutex_);
  return version_;
}

Status Tree::PutManifest() {
  port::MutexLock installing(installing_);
  return Store(*Head());
}

Status Tree::Store(const Version& version) {
  if (!ManifestCodec::Fits(version.levels())) {
    return Status::InvalidArgument("the keys between which the shard's tables lie are too long",
                                   "choose shorter keys, larger tables or more shards");
  }
  Manifest manifest = Identity(epochs_->sequencer().Now().next - 1, version);
  manifest.flushed_below = flushed_below_;
  manifest.log = log_record_;
  std::vector<RemoteSpan> live;
  if (log_record_.has_value()) live = log_record_->Spans();
  for (const Level& level : version.levels()) {
    for (const TableRef& table : level.AllTables()) {
      live.push_back(AllocatedSpan(table->meta().image));
    }
  }
  // Up to tens of megabytes.
  std::string encoded;
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {
    port::AllocationPoint("manifest: to be put");
    encoded = ManifestCodec::Encode(manifest, version.levels());
    return Status::OK();
  }));
  return store_->Put(encoded, std::move(live));
}

Tree::MemtableUsage Tree::Usage() {
  const ReadViews::Pin view(views_);
  MemtableUsage usage;
  // It begins with the prefix that it guesses, and with records that are on their way into it.
  if (!view->active->empty()) usage.active_bytes = view->active->MemoryUsage();
  for (const auto& immutable : view->immutables) usage.immutable_bytes += immutable->MemoryUsage();
  usage.immutables = view->immutables.size();
  return usage;
}

Tree::MemtableCounts Tree::Memtables() const {
  port::MutexLock lock(mutex_);
  MemtableCounts counts;
  counts.immutable = immutables_.size();
  counts.bytes = active_->MemoryUsage();
  counts.filter_bytes = active_->filter_bytes();
  for (const Immutable& immutable : immutables_) {
    counts.bytes += immutable.memtable->MemoryUsage();
    counts.filter_bytes += immutable.memtable->filter_bytes();
  }
  counts.newest_number = active_->number();
  counts.oldest_number =
      immutables_.empty() ? active_->number() : immutables_.front().memtable->number();
  return counts;
}

}  // namespace dlsm
