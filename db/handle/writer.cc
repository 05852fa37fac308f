#include "db/handle/writer.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dLSM/db.h"
#include "db/handle/entry_sizes.h"
#include "db/memtable/memtable.h"
#include "port/allocation_point.h"
#include "port/sync_point.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

// Writes of fewer bytes are covered by the reserve after they were made, larger ones before.
constexpr uint64_t kLargeWriteBytes = uint64_t{16} << 10;
// Reads go through all range tombstones of a memtable.
constexpr uint32_t kRangesOfBatchMax = 1024;

// A batch's tags are taken for value types as they are.
static_assert(static_cast<int>(UpdateType::kDelete) == static_cast<int>(ValueType::kDeletion));
static_assert(static_cast<int>(UpdateType::kPut) == static_cast<int>(ValueType::kValue));
static_assert(static_cast<int>(UpdateType::kDeleteRange) ==
              static_cast<int>(ValueType::kRangeTombstone));

Status CheckRange(const Comparator& comparator, const Slice& begin, const Slice& end) {
  for (const Slice& bound : {begin, end}) {
    if (bound.size() > kKeyBytesMax) {
      return Status::InvalidArgument("a bound of " + std::to_string(bound.size()) + " bytes",
                                     "keys have at most 1 MiB");
    }
  }
  if (comparator.Compare(begin, end) <= 0) return Status::OK();
  return Status::InvalidArgument("the range to be deleted ends before it begins",
                                 "the end, which is not part of the range, comes second");
}

Deadline::Clock::time_point EndOfWaits(const WriteOptions& options) {
  return options.deadline == kNoDeadline ? StallGate::kNoEnd : options.deadline;
}

Status NothingWritten() noexcept { return OutOfMemtableMemory("nothing was written"); }

}  // namespace

template <typename PassAgain>
Status Writer::ReserveInLog(uint64_t bytes, const WriteOptions& options,
                            const PassAgain& pass_again, WriteLog::Place* place) const {
  DLSM_RETURN_IF_ERROR(log_->Reserve(bytes, place));
  if (place->taken()) [[likely]]
    return Status::OK();
  const auto until = EndOfWaits(options);
  const Deadline deadline = Deadline::At(std::min(log_->RoomDeadline().time_point(), until));
  while (!place->taken()) {
    if (Deadline::Clock::now() >= until) {
      return Status::TimedOut("the deadline of the write has passed: nothing is written",
                              "it waited for room in the log, which flushes make");
    }
    DLSM_RETURN_IF_ERROR(log_->AwaitRoom(bytes, /*may_wait=*/!options.no_slowdown, deadline));
    DLSM_RETURN_IF_ERROR(pass_again());
    DLSM_RETURN_IF_ERROR(log_->Reserve(bytes, place));
  }
  return Status::OK();
}

Status Writer::WriteOne(const WriteOptions& options, ValueType type, const Slice& key,
                        const Slice& value) {
  DLSM_RETURN_IF_ERROR(CheckEntrySizes(key, value));
  DLSM_RETURN_IF_ERROR(parts_.range->Check(key));
  const Shard& shard = ShardOf(key);
  const uint64_t bytes = key.size() + value.size();
  if (bytes >= kLargeWriteBytes) [[unlikely]]
    parts_.calls.cover(NumberOf(shard), bytes, /*entries=*/1);
  const auto pass_gate = [&] {
    const Status passed = shard.gate->Pass(/*only_deletes=*/type == ValueType::kDeletion, bytes,
                                           /*may_wait=*/!options.no_slowdown, EndOfWaits(options));
    return passed.ok() ? Status::OK() : parts_.calls.named(NumberOf(shard), passed);
  };
  DLSM_RETURN_IF_ERROR(pass_gate());
  const Statistics::Mine counters = parts_.statistics->OfThisThread();
  InsertedOne inserted;
  LogPosition end = 0;
  if (log_ == nullptr) [[likely]] {
    inserted = InsertOne(shard, type, key, value);
  } else {
    WriteLog::Place place;
    DLSM_RETURN_IF_ERROR(
        ReserveInLog(LogFrameBytesOfOne(type, key, value), options, pass_gate, &place));
    inserted = InsertOne(shard, type, key, value);
    if (inserted.done) EncodeLogEntry(type, key, value, place.entries());
    end = place.end();
    place.Fill(inserted.number, inserted.done ? 1 : 0);
    if (inserted.done) counters.Add(Ticker::kLogWrites);
  }
  if (inserted.look_is_due || !inserted.done) [[unlikely]]
    parts_.calls.look(NumberOf(shard));
  if (!inserted.done) [[unlikely]]
    return NothingWritten();
  counters.Add(Ticker::kKeysWritten);
  counters.Add(Ticker::kBytesWritten, bytes);
  if (options.sync) [[unlikely]]
    return AwaitSafe(end);
  if (log_ != nullptr) log_->AwaitOutlives(end);
  return Status::OK();
}

Writer::InsertedOne Writer::InsertOne(const Shard& shard, ValueType type, const Slice& key,
                                      const Slice& value) const {
  const Sequencer::Write write(*sequencer_, 1);
  Memtable& memtable = shard.tree->MemtableOf(write.epoch());
  const bool done = memtable.Add(write.first(), type, key, value, /*batched=*/false);
  return {write.first(), done, shard.tree->LookIsDue(memtable)};
}

Status Writer::Write(const WriteOptions& options, const WriteBatch& updates) {
  Batch batch(updates);
  DLSM_RETURN_IF_ERROR(Check(&batch));
  if (batch.entries == 0) {
    const LogPosition end = log_ == nullptr ? 0 : log_->tail();
    return options.sync ? AwaitSafe(end) : Status::OK();
  }
  DLSM_RETURN_IF_ERROR(Divide(&batch));
  DLSM_RETURN_IF_ERROR(PassGates(options, batch));
  WriteLog::Place place;
  const Slice entries = WriteBatchReader::Entries(updates);
  if (log_ != nullptr) {
    DLSM_RETURN_IF_ERROR(ReserveInLog(
        LogFrameBytesOf(entries), options, [&] { return PassGates(options, batch); }, &place));
  }
  const Statistics::Mine counters = parts_.statistics->OfThisThread();
  SequenceNumber first;
  bool inserted;
  {
    const Sequencer::Write write(*sequencer_, batch.entries, batch.together);
    first = write.first();
    inserted = Insert(write, &batch);
  }
  if (log_ != nullptr) {
    if (inserted) std::memcpy(place.entries(), entries.data(), entries.size());
    place.Fill(first, inserted ? batch.entries : 0);
    if (inserted) counters.Add(Ticker::kLogWrites);
  }
  Look(batch);
  if (!inserted) return NothingWritten();
  counters.Add(Ticker::kKeysWritten, batch.entries);
  counters.Add(Ticker::kBytesWritten, batch.bytes);
  if (options.sync) return AwaitSafe(place.end());
  if (log_ != nullptr) log_->AwaitOutlives(place.end());
  return Status::OK();
}

Status Writer::Check(Batch* batch) const {
  UpdateType type;
  Slice key;
  Slice value;
  WriteBatchReader reader(batch->updates);
  for (; reader.Next(&type, &key, &value); ++batch->entries) {
    if (type == UpdateType::kDeleteRange) [[unlikely]] {
      DLSM_RETURN_IF_ERROR(CheckRange(*parts_.comparator, key, value));
      DLSM_RETURN_IF_ERROR(parts_.range->CheckRange(key, value));
      if (++batch->ranges > kRangesOfBatchMax) {
        return Status::InvalidArgument(
            "the write batch deletes more than " + std::to_string(kRangesOfBatchMax) + " ranges",
            "write it in several batches");
      }
    } else {
      DLSM_RETURN_IF_ERROR(CheckEntrySizes(key, value));
      DLSM_RETURN_IF_ERROR(parts_.range->Check(key));
    }
    batch->only.only_deletes &= type != UpdateType::kPut;
    batch->bytes += key.size() + value.size();
  }
  batch->together = batch->entries > 1;
  return reader.status();
}

// Where a shard has as many range tombstones as it may, another one waits for merges by being tried
// again: it is an error, and not a pause, because merges may take long.
Status Writer::DivideRange(const Slice& begin, const Slice& end, Batch* batch) const {
  size_t first = 0;
  size_t last = 0;
  if (only_ == nullptr) {
    first = parts_.map->ShardOf(*parts_.comparator, begin);
    last = std::max(first, parts_.map->ShardOf(*parts_.comparator, end));
    batch->shard_of.push_back(static_cast<uint16_t>(first));
    batch->shard_of.push_back(static_cast<uint16_t>(last));
    batch->together |= first != last;
  }
  for (size_t shard = first; shard <= last; ++shard) {
    Part& part = batch->parts[shard];
    const uint64_t cost = Tree::CostOfTombstone(begin, end);
    if (!parts_.shards[shard].tree->ReserveTombstones(cost)) {
      return parts_.calls.named(
          shard, Status::Busy("too many ranges are deleted whose entries are still in tables",
                              "try again later, call CompactRange(), or delete larger ranges"));
    }
    part.reserved.Add(parts_.shards[shard].tree, cost);
    if (only_ != nullptr) continue;
    part.bytes += begin.size() + end.size();
    ++part.entries;
  }
  return Status::OK();
}

// Says in `batch` what goes to which shard.
Status Writer::Divide(Batch* batch) const {
  if (only_ != nullptr) {
    batch->only.bytes = batch->bytes;
    batch->only.entries = batch->entries;
    batch->parts = {&batch->only, 1};
    if (batch->ranges == 0) [[likely]]
      return Status::OK();
    return DivideRanges(batch);
  }
  batch->several.resize(parts_.shards.size());
  batch->parts = batch->several;
  DLSM_RETURN_IF_ERROR(WithinMemory(
      [batch] {
        port::AllocationPoint("batch: divided");
        batch->shard_of.reserve(batch->entries * (batch->ranges > 0 ? 2 : 1));
        return Status::OK();
      },
      &NothingWritten));
  UpdateType type;
  Slice key;
  Slice value;
  WriteBatchReader reader(batch->updates);
  while (reader.Next(&type, &key, &value)) {
    if (type == UpdateType::kDeleteRange) {
      DLSM_RETURN_IF_ERROR(DivideRange(key, value, batch));
      continue;
    }
    const size_t shard = parts_.map->ShardOf(*parts_.comparator, key);
    batch->shard_of.push_back(static_cast<uint16_t>(shard));
    Part& part = batch->parts[shard];
    part.bytes += key.size() + value.size();
    ++part.entries;
    part.only_deletes &= type == UpdateType::kDelete;
  }
  return Status::OK();
}

// Of a batch for the only shard.
Status Writer::DivideRanges(Batch* batch) const {
  UpdateType type;
  Slice key;
  Slice value;
  WriteBatchReader reader(batch->updates);
  while (reader.Next(&type, &key, &value)) {
    if (type == UpdateType::kDeleteRange) DLSM_RETURN_IF_ERROR(DivideRange(key, value, batch));
  }
  return Status::OK();
}

// All gates before the numbers, for a writer must not wait while it is announced.
Status Writer::PassGates(const WriteOptions& options, const Batch& batch) const {
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const Part& part = batch.parts[i];
    if (part.bytes >= kLargeWriteBytes) parts_.calls.cover(i, part.bytes, part.entries);
  }
  const bool may_wait = !options.no_slowdown;
  const auto until = EndOfWaits(options);
  if (only_ != nullptr) {
    return only_->gate->Pass(batch.only.only_deletes, batch.bytes, may_wait, until);
  }
  std::vector<StallGate::Share> shares;
  std::vector<size_t> touched;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    const Part& part = batch.parts[i];
    if (part.entries == 0) continue;
    touched.push_back(i);
    shares.push_back({parts_.shards[i].gate, part.only_deletes, part.bytes});
  }
  size_t refused_by = 0;
  const Status passed = StallGate::PassAll(shares, may_wait, &refused_by, until);
  return passed.ok() ? passed : parts_.calls.named(touched[refused_by], passed);
}

bool Writer::Insert(const Sequencer::Write& write, Batch* batch) const {
  UpdateType type;
  Slice key;
  Slice value;
  WriteBatchReader reader(batch->updates);
  size_t next_shard = 0;  // Of shard_of.
  for (uint32_t i = 0; i < batch->entries && reader.Next(&type, &key, &value); ++i) {
    size_t shard = 0;
    if (only_ == nullptr) shard = batch->shard_of[next_shard++];
    size_t last = shard;
    if (type == UpdateType::kDeleteRange && only_ == nullptr) last = batch->shard_of[next_shard++];
    for (; shard <= last; ++shard) {
      if (!InsertInto(shard, write, i, static_cast<ValueType>(type), key, value, batch)) {
        if (batch->together) Withdraw(write, i + 1, *batch);
        // What the batch has taken goes with its memtables. Writes that have no memory, either, do
        // not come so far as to find them full.
        for (Part& part : batch->parts) part.look_is_due = part.entries > 0;
        return false;
      }
      port::SyncPoint("batch: entry inserted");
    }
  }
  return true;
}

bool Writer::InsertInto(size_t shard, const Sequencer::Write& write, uint32_t entry, ValueType type,
                        const Slice& key, const Slice& value, Batch* batch) const {
  Tree& tree = *parts_.shards[shard].tree;
  Memtable& memtable = tree.MemtableOf(write.epoch());
  const SequenceNumber sequence = write.first() + entry;
  bool added;
  if (type == ValueType::kRangeTombstone) {
    const uint64_t cost = Tree::CostOfTombstone(key, value);
    added = memtable.AddRange(sequence, key, value, cost, batch->together);
    if (added) tree.NoteTombstone(cost);
  } else {
    added = memtable.Add(sequence, type, key, value, batch->together);
  }
  if (added) batch->parts[shard].look_is_due = tree.LookIsDue(memtable);
  return added;
}

void Writer::Withdraw(const Sequencer::Write& write, uint32_t inserted, const Batch& batch) const {
  if (inserted == 0) return;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    if (batch.parts[i].entries == 0) continue;
    Memtable& memtable = parts_.shards[i].tree->MemtableOf(write.epoch());
    memtable.Withdraw(write.first(), write.first() + inserted - 1);
  }
}

void Writer::Look(const Batch& batch) const {
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    if (batch.parts[i].look_is_due) parts_.calls.look(i);
  }
}

// Busy would say that nothing was written.
Status Writer::AwaitSafe(LogPosition end) const {
  const Status safe = log_ != nullptr ? log_->AwaitSynced(end) : parts_.calls.flush();
  parts_.statistics->Add(Ticker::kSyncedWrites);
  if (safe.ok()) return safe;
  return Status::FromCode(
      safe.IsBusy() ? Status::Code::kTimedOut : safe.code(),
      (log_ != nullptr ? "written, but not durable: " : "written, but not flushed: ") +
          safe.ToString());
}

}  // namespace dlsm
