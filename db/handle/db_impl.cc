#include "db/handle/db_impl.h"

#include <algorithm>
#include <new>
#include <utility>

#include "dLSM/write_batch.h"
#include "db/handle/properties.h"
#include "port/sync_point.h"
#include "util/null_argument.h"
#include "util/other_process.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

// What smaller writes need of the reserve is looked after when they have been made.
constexpr uint64_t kLargeWriteBytes = uint64_t{16} << 10;

Status CheckEntry(const Slice& key, const Slice& value) {
  if (key.size() > kKeyBytesMax) {
    return Status::InvalidArgument("key of " + std::to_string(key.size()) + " bytes",
                                   "keys have at most 1 MiB");
  }
  if (value.size() > kValueBytesMax) {
    return Status::InvalidArgument("value of " + std::to_string(value.size()) + " bytes",
                                   "values have at most 64 MiB");
  }
  return Status::OK();
}

}  // namespace

Status DbImpl::CheckOpen() const {
  if (opened_by_.IsHere() && state_.awake()) [[likely]]
    return Status::OK();
  return CheckOpenAsleep();
}

Status DbImpl::CheckOpenAsleep() const {
  if (!opened_by_.IsHere()) return OpenedByOtherProcess(opened_by_);
  if (state_.closed()) {
    return Status::InvalidArgument("the database handle is closed", "open it again");
  }
  if (state_.WakeUp()) workers_->WakeUp();
  return Status::OK();
}

// -------- Writes

Status DbImpl::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return WriteOne(options, ValueType::kValue, key, value);
}

Status DbImpl::Delete(const WriteOptions& options, const Slice& key) {
  return WriteOne(options, ValueType::kDeletion, key, Slice());
}

// What may fail for want of memory comes before the entry is there, or is the entry itself. What
// has been taken by then stays in the memtable until that is flushed. Others that have no memory do
// not come so far as to find it full: so who is refused looks.
Status DbImpl::WriteOne(const WriteOptions& options, ValueType type, const Slice& key,
                        const Slice& value) try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckEntry(key, value));
  DLSM_RETURN_IF_ERROR(range_.Check(key));
  Shard& shard = ShardOf(key);
  if (key.size() + value.size() >= kLargeWriteBytes) [[unlikely]]
    shard.background().CoverWrite(key.size() + value.size(), /*entries=*/1);
  const Status passed =
      shard.gate().Pass(/*only_deletes=*/type == ValueType::kDeletion, key.size() + value.size(),
                        /*may_wait=*/!options.no_slowdown);
  if (!passed.ok()) [[unlikely]]
    return shard.Named(passed);
  const Statistics::Mine counters = statistics_->OfThisThread();
  bool look_is_due;
  {
    const Sequencer::Write write(epochs_->sequencer(), 1);
    Memtable& memtable = shard.tree().MemtableOf(write.epoch());
    memtable.Add(write.first(), type, key, value, /*batched=*/false);
    look_is_due = shard.tree().LookIsDue(memtable);
  }
  if (look_is_due) [[unlikely]]
    workers_->LookAtMemtable(shard.number());
  counters.Add(Ticker::kKeysWritten);
  counters.Add(Ticker::kBytesWritten, key.size() + value.size());
  if (options.sync) [[unlikely]]
    return FlushWritten();
  return Status::OK();
} catch (const std::bad_alloc&) {
  // A comparator that has no memory cannot say which shard it is, either.
  IfMemoryPermits([&] { workers_->LookAtMemtable(ShardOf(key).number()); });
  return OutOfMemtableMemory("nothing was written");
}

// A batch's tags are taken for value types as they are.
static_assert(static_cast<int>(UpdateType::kDelete) == static_cast<int>(ValueType::kDeletion));
static_assert(static_cast<int>(UpdateType::kPut) == static_cast<int>(ValueType::kValue));

Status DbImpl::Write(const WriteOptions& options, WriteBatch* updates) try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  if (updates == nullptr) return NullArgument("updates");
  // The whole batch is checked before the first entry becomes anybody's business.
  UpdateType type;
  Slice key;
  Slice value;
  uint32_t count = 0;
  uint64_t bytes = 0;
  bool only_deletes = true;
  WriteBatchReader checker(*updates);
  for (; checker.Next(&type, &key, &value); ++count) {
    DLSM_RETURN_IF_ERROR(CheckEntry(key, value));
    DLSM_RETURN_IF_ERROR(range_.Check(key));
    only_deletes &= type == UpdateType::kDelete;
    bytes += key.size() + value.size();
  }
  DLSM_RETURN_IF_ERROR(checker.status());
  if (count == 0) return options.sync ? FlushWritten() : Status::OK();
  const Statistics::Mine counters = statistics_->OfThisThread();
  if (only_ == nullptr) {
    DLSM_RETURN_IF_ERROR(WriteDivided(options, *updates, count));
  } else {
    if (bytes >= kLargeWriteBytes) only_->background().CoverWrite(bytes, count);
    DLSM_RETURN_IF_ERROR(
        only_->gate().Pass(only_deletes, bytes, /*may_wait=*/!options.no_slowdown));
    WriteUndivided(*updates, count);
  }
  counters.Add(Ticker::kKeysWritten, count);
  counters.Add(Ticker::kBytesWritten, bytes);
  return options.sync ? FlushWritten() : Status::OK();
} catch (const std::bad_alloc&) {
  return OutOfMemtableMemory("nothing was written");
}

// Where memory ends within a batch, what is there already is withdrawn while the batch is still
// open: nobody has seen it. Its memory goes with the memtable, see WriteOne().
void DbImpl::WriteUndivided(const WriteBatch& updates, uint32_t count) try {
  UpdateType type;
  Slice key;
  Slice value;
  bool look_is_due;
  {
    const Sequencer::Write write(epochs_->sequencer(), count);
    Memtable& memtable = only_->tree().MemtableOf(write.epoch());
    SequenceNumber sequence = write.first();
    WriteBatchReader reader(updates);
    try {
      for (; reader.Next(&type, &key, &value); ++sequence) {
        memtable.Add(sequence, static_cast<ValueType>(type), key, value, /*batched=*/count > 1);
        port::SyncPoint("batch: entry inserted");
      }
    } catch (const std::bad_alloc&) {
      if (sequence > write.first()) memtable.Withdraw(write.first(), sequence - 1);
      throw;
    }
    look_is_due = only_->tree().LookIsDue(memtable);
  }
  if (look_is_due) [[unlikely]]
    workers_->LookAtMemtable(0);
} catch (const std::bad_alloc&) {
  workers_->LookAtMemtable(0);
  throw;
}

// The batch's numbers are taken together, so it becomes visible in all shards at once. All gates
// are passed before, for a writer must not wait while it is announced.
Status DbImpl::WriteDivided(const WriteOptions& options, const WriteBatch& updates,
                            uint32_t count) try {
  struct Part {
    uint64_t bytes = 0;
    uint32_t entries = 0;
    bool only_deletes = true;
    bool look_is_due = false;
  };
  std::vector<Part> parts(shards_.size());
  std::vector<size_t> shard_of;
  shard_of.reserve(count);
  UpdateType type;
  Slice key;
  Slice value;
  WriteBatchReader measure(updates);
  while (measure.Next(&type, &key, &value)) {
    const size_t shard = map_.ShardOf(*options_.comparator, key);
    shard_of.push_back(shard);
    // What it says of the key counts too: an empty entry has none, and touches the shard still.
    parts[shard].bytes += key.size() + value.size() + 1;
    ++parts[shard].entries;
    parts[shard].only_deletes &= type == UpdateType::kDelete;
  }
  std::vector<size_t> touched;
  std::vector<StallGate::Share> shares;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].bytes == 0) continue;
    touched.push_back(i);
    if (parts[i].bytes >= kLargeWriteBytes) {
      shards_[i]->background().CoverWrite(parts[i].bytes, parts[i].entries);
    }
    shares.push_back({&shards_[i]->gate(), parts[i].only_deletes, parts[i].bytes});
  }
  size_t refused_by = 0;
  const Status passed = StallGate::PassAll(shares, /*may_wait=*/!options.no_slowdown, &refused_by);
  if (!passed.ok()) return shards_[touched[refused_by]]->Named(passed);
  {
    const Sequencer::Write write(epochs_->sequencer(), count);
    SequenceNumber sequence = write.first();
    WriteBatchReader reader(updates);
    try {
      for (const size_t shard : shard_of) {
        if (!reader.Next(&type, &key, &value)) break;
        Tree& tree = shards_[shard]->tree();
        Memtable& memtable = tree.MemtableOf(write.epoch());
        memtable.Add(sequence, static_cast<ValueType>(type), key, value, /*batched=*/count > 1);
        ++sequence;
        parts[shard].look_is_due = tree.LookIsDue(memtable);
        port::SyncPoint("batch: entry inserted");
      }
    } catch (const std::bad_alloc&) {
      for (const size_t shard : touched) {
        if (sequence == write.first()) break;
        shards_[shard]->tree().MemtableOf(write.epoch()).Withdraw(write.first(), sequence - 1);
      }
      throw;
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].look_is_due) workers_->LookAtMemtable(i);
  }
  return Status::OK();
} catch (const std::bad_alloc&) {
  for (const auto& shard : shards_) workers_->LookAtMemtable(shard->number());
  throw;
}

// All shards: what was written before is safe, too, as where there is one log. Busy would say that
// nothing was written.
Status DbImpl::FlushWritten() noexcept {
  Status flushed = WithinMemory([this] { return FlushShards(/*wait=*/true); });
  IfMemoryPermits([this] { statistics_->Add(Ticker::kSyncedWrites); });
  if (flushed.ok()) return flushed;
  constexpr const char* kWhat = "written, but not flushed";
  std::string what;
  IfMemoryPermits([&] { what = std::string(kWhat) + ": " + flushed.ToString(); });
  return Status::FromCode(flushed.IsBusy() ? Status::Code::kTimedOut : flushed.code(),
                          what.empty() ? Slice(kWhat) : Slice(what));
}

// -------- The rest

bool DbImpl::GetProperty(const Slice& property, std::string* value) {
  if (value == nullptr) return false;
  value->clear();
  return CheckOpen().ok() && Properties(*this).Get(property, value);
}

void DbImpl::GetApproximateSizes(const Range* range, int n, uint64_t* sizes) {
  if (n <= 0 || sizes == nullptr) return;
  std::fill_n(sizes, n, 0);
  if (range == nullptr || !CheckOpen().ok()) return;
  for (int i = 0; i < n; ++i) {
    for (const size_t shard : reads_.ShardsOf(&range[i].start, &range[i].limit)) {
      const ReadViews::Pin view(shards_[shard]->tree().views());
      sizes[i] += reads_.ApproximateBytes(*view->version, range[i]);
    }
  }
}

// A shard that fails keeps no other from being merged.
Status DbImpl::CompactRange(const Slice* begin, const Slice* end) try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  const CallerWork::Turn turn(&callers_, CallerWork::Turn::Kind::kMerge);
  const std::vector<size_t> shards = reads_.ShardsOf(begin, end);
  const auto began = Background::Clock::now();
  if (shards.size() > 1 && !callers_.own_code()) {
    for (const size_t i : shards) {
      IfMemoryPermits([&] { shards_[i]->background().BeginFlush(); });  // Else at its turn.
    }
  }
  Status first_error;
  for (const size_t i : shards) {
    Shard& shard = *shards_[i];
    const Status status =
        WithinMemory([&] { return shard.background().CompactRange(began, begin, end); });
    KeepFirstError(shard.Named(status), &first_error);
  }
  return first_error;
} catch (const std::bad_alloc&) {
  return OutOfWorkMemory();
}

Status DbImpl::Flush(const FlushOptions& options) try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return FlushShards(options.wait);
} catch (const std::bad_alloc&) {
  return OutOfMemtableMemory("not all was flushed");
}

Status DbImpl::FlushShards(bool wait) {
  std::vector<bool> flushed;
  if (wait) return AwaitFlushes(&flushed);
  Status first_error;
  for (const auto& shard : shards_) {
    KeepFirstError(shard->Named(shard->background().RequestFlush()), &first_error);
  }
  return first_error;
}

// All begin before the first is waited for, unless the caller does the work itself. *flushed: by
// shard.
Status DbImpl::AwaitFlushes(std::vector<bool>* flushed) {
  flushed->assign(shards_.size(), false);
  const CallerWork::Turn turn(&callers_, CallerWork::Turn::Kind::kFlush);
  const auto began = Background::Clock::now();
  if (only_ == nullptr && !callers_.own_code()) {
    for (const auto& shard : shards_) {
      IfMemoryPermits([&shard] { shard->background().BeginFlush(); });
    }
  }
  Status first_error;
  for (const auto& shard : shards_) {
    Status status =
        WithinMemory([&] { return shard->Named(shard->background().AwaitFlush(began)); });
    (*flushed)[shard->number()] = status.ok();
    KeepFirstError(std::move(status), &first_error);
  }
  return first_error;
}

Status DbImpl::WaitForBackgroundWork() try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  const auto began = Background::Clock::now();
  if (only_ == nullptr) {
    for (const auto& shard : shards_) shard->background().BeginIdle();
  }
  Status first_error;
  for (const auto& shard : shards_) {
    KeepFirstError(shard->Named(shard->background().AwaitIdle(began)), &first_error);
  }
  return first_error;
} catch (const std::bad_alloc&) {
  return OutOfWorkMemory();
}

}  // namespace dlsm
