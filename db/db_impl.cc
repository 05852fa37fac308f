#include "db/db_impl.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/db_iterator.h"
#include "db/level_iterator.h"
#include "db/properties.h"
#include "table/merging_iterator.h"
#include "util/log.h"
#include "util/status_macros.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

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
  if (!closed_.load(std::memory_order_acquire)) [[likely]]
    return Status::OK();
  return Status::InvalidArgument("the database handle is closed", "open it again");
}

// -------- Writes

Status DbImpl::Put(const WriteOptions&, const Slice& key, const Slice& value) {
  return WriteOne(ValueType::kValue, key, value);
}

Status DbImpl::Delete(const WriteOptions&, const Slice& key) {
  return WriteOne(ValueType::kDeletion, key, Slice());
}

Status DbImpl::WriteOne(ValueType type, const Slice& key, const Slice& value) {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckEntry(key, value));
  DLSM_RETURN_IF_ERROR(
      gate_.Pass(/*only_deletes=*/type == ValueType::kDeletion, key.size() + value.size()));
  bool full;
  {
    const Sequencer::Write write(tree_->sequencer(), 1);
    Memtable& memtable = tree_->MemtableOf(write.epoch());
    memtable.Add(write.first(), type, key, value, /*batched=*/false);
    full = tree_->IsFull(memtable);
  }
  if (full) [[unlikely]]
    background_->MemtableIsFull();
  statistics_->Add(Ticker::kKeysWritten);
  statistics_->Add(Ticker::kBytesWritten, key.size() + value.size());
  return Status::OK();
}

// A batch's tags are taken for value types as they are.
static_assert(static_cast<int>(UpdateType::kDelete) == static_cast<int>(ValueType::kDeletion));
static_assert(static_cast<int>(UpdateType::kPut) == static_cast<int>(ValueType::kValue));

Status DbImpl::Write(const WriteOptions&, WriteBatch* updates) {
  DLSM_RETURN_IF_ERROR(CheckOpen());
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
    only_deletes &= type == UpdateType::kDelete;
    bytes += key.size() + value.size();
  }
  DLSM_RETURN_IF_ERROR(checker.status());
  if (count == 0) return Status::OK();
  DLSM_RETURN_IF_ERROR(gate_.Pass(only_deletes, bytes));
  bool full;
  {
    const Sequencer::Write write(tree_->sequencer(), count);
    Memtable& memtable = tree_->MemtableOf(write.epoch());
    SequenceNumber sequence = write.first();
    WriteBatchReader reader(*updates);
    while (reader.Next(&type, &key, &value)) {
      memtable.Add(sequence++, static_cast<ValueType>(type), key, value, /*batched=*/count > 1);
    }
    full = tree_->IsFull(memtable);
  }
  if (full) [[unlikely]]
    background_->MemtableIsFull();
  statistics_->Add(Ticker::kKeysWritten, count);
  statistics_->Add(Ticker::kBytesWritten, bytes);
  return Status::OK();
}

// -------- Reads

TableReadOptions DbImpl::ReadOptionsFor(const ReadOptions& options) const {
  TableReadOptions read_options;
  read_options.verify_checksums = options.verify_checksums || options_.paranoid_checks;
  read_options.fill_cache = options.fill_cache;
  read_options.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  return read_options;
}

// The state of now: a sequence number, settled, and a view that has all of it. The view is taken
// first: what flushes and merges had dropped by then no later number needs. If memtables were
// switched in between, the view may lack the newest one, which the epoch tells.
DbImpl::ReadPoint DbImpl::TakeReadPoint(const ReadOptions& options) {
  ReadPoint point;
  if (options.snapshot != nullptr) {
    point.sequence = static_cast<const SnapshotImpl*>(options.snapshot)->sequence();
    point.view = tree_->views().Current();
    return point;
  }
  while (true) {
    point.view = tree_->views().Current();
    const Sequencer::Position now = tree_->sequencer().Now();
    // A view is published just before the epoch of its active memtable is handed out.
    const auto ahead = static_cast<uint8_t>(static_cast<uint8_t>(point.view->active_epoch) -
                                            static_cast<uint8_t>(now.epoch));
    if (ahead > 1) continue;
    point.sequence = now.next - 1;
    tree_->sequencer().WaitSettled(point.sequence);
    return point;
  }
}

Status DbImpl::GetInView(const ReadView& view, const ReadOptions& options, const Slice& key,
                         LookupResult* result, bool* fetched) {
  const SequenceNumber sequence =
      options.snapshot == nullptr ? kSequenceNumberMax
                                  : static_cast<const SnapshotImpl*>(options.snapshot)->sequence();
  const LookupKey lookup(key, sequence);
  statistics_->Add(Ticker::kKeysRead);
  DLSM_RETURN_IF_ERROR(point_reader_->Get(view, lookup, ReadOptionsFor(options), result, fetched));
  if (result->state != LookupState::kFound) return Status::NotFound(Slice());
  statistics_->Add(Ticker::kKeysFound);
  statistics_->Add(Ticker::kBytesRead, result->value.size());
  return Status::OK();
}

Status DbImpl::Get(const ReadOptions& options, const Slice& key, std::string* value) {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  const ReadViews::Pin view(tree_->views());
  LookupResult result;
  bool fetched;
  DLSM_RETURN_IF_ERROR(GetInView(*view, options, key, &result, &fetched));
  value->assign(result.value.data(), result.value.size());
  return Status::OK();
}

Status DbImpl::Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) {
  value->Reset();
  DLSM_RETURN_IF_ERROR(CheckOpen());
  const ReadViews::Pin view(tree_->views());
  LookupResult result;
  bool fetched;
  DLSM_RETURN_IF_ERROR(GetInView(*view, options, key, &result, &fetched));
  if (result.holder != nullptr) {
    value->PinSlice(result.value, std::move(result.holder));
  } else if (fetched) {
    value->PinSelf(result.value);
  } else {
    value->PinSlice(result.value, view->shared_from_this());
  }
  return Status::OK();
}

std::vector<Status> DbImpl::MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                                     std::vector<std::string>* values) {
  values->assign(keys.size(), std::string());
  const Status open = CheckOpen();
  if (!open.ok()) return std::vector<Status>(keys.size(), open);
  const ReadPoint point = TakeReadPoint(options);
  std::vector<std::unique_ptr<PointReader::Request>> requests;
  requests.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    requests.push_back(std::make_unique<PointReader::Request>(keys[i], point.sequence));
    requests.back()->value = &(*values)[i];
  }
  point_reader_->MultiGet(*point.view, requests, ReadOptionsFor(options));
  std::vector<Status> statuses;
  statuses.reserve(keys.size());
  statistics_->Add(Ticker::kKeysRead, keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    Status& status = requests[i]->status;
    if (status.ok() && requests[i]->state != LookupState::kFound)
      status = Status::NotFound(Slice());
    if (status.ok()) {
      statistics_->Add(Ticker::kKeysFound);
      statistics_->Add(Ticker::kBytesRead, (*values)[i].size());
    } else {
      (*values)[i].clear();
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

Iterator* DbImpl::NewIterator(const ReadOptions& options) {
  const Status open = CheckOpen();
  if (!open.ok()) return NewErrorIterator(open);
  statistics_->Add(Ticker::kIteratorsCreated);
  const ReadPoint point = TakeReadPoint(options);
  DbIteratorOptions iterator_options;
  iterator_options.sequence = point.sequence;
  if (options.iterate_lower_bound != nullptr) {
    iterator_options.lower_bound = *options.iterate_lower_bound;
  }
  if (options.iterate_upper_bound != nullptr) {
    iterator_options.upper_bound = *options.iterate_upper_bound;
  }
  iterator_options.counts_seeks = point.view->version->levels().front().sentinel().index->oldest();
  return NewDbIterator(comparator_, NewEntryIterator(*point.view, options), iterator_options,
                       point.view, statistics_)
      .release();
}

std::unique_ptr<Iterator> DbImpl::NewEntryIterator(const ReadView& view,
                                                   const ReadOptions& options) {
  const TableReadOptions read_options = ReadOptionsFor(options);
  std::vector<MergingSource> sources;
  sources.push_back(view.active->NewIterator());
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    sources.push_back(memtable->NewIterator());
  }
  const std::vector<Level>& levels = view.version->levels();
  AddGuardSources(comparator_, levels.front().sentinel(), read_options, queue_pairs_.get(),
                  &sources);
  for (const Level& level : std::span(levels).subspan(1)) {
    if (level.empty()) continue;
    AddLevelSources(comparator_, level, read_options, queue_pairs_.get(), &sources);
  }
  return NewMergingIterator(comparator_, std::move(sources));
}

const Snapshot* DbImpl::GetSnapshot() {
  return CheckOpen().ok() ? snapshots_.Take(&tree_->sequencer()) : nullptr;
}

void DbImpl::ReleaseSnapshot(const Snapshot* snapshot) {
  if (snapshot != nullptr) snapshots_.Release(static_cast<const SnapshotImpl*>(snapshot));
}

// -------- The rest

bool DbImpl::GetProperty(const Slice& property, std::string* value) {
  value->clear();
  return CheckOpen().ok() && Properties(*this).Get(property, value);
}

void DbImpl::GetApproximateSizes(const Range* range, int n, uint64_t* sizes) {
  std::fill_n(sizes, n, 0);
  if (!CheckOpen().ok()) return;
  const ReadViews::Pin view(tree_->views());
  for (int i = 0; i < n; ++i) {
    const LookupKey start(range[i].start, kSequenceNumberMax);
    const LookupKey limit(range[i].limit, kSequenceNumberMax);
    for (const Level& level : view->version->levels()) {
      for (const TableRef& table :
           level.Overlapping(comparator_, &range[i].start, &range[i].limit)) {
        const uint64_t from = table->reader().ApproximateOffsetOf(start.internal_key());
        const uint64_t to = table->reader().ApproximateOffsetOf(limit.internal_key());
        sizes[i] += to > from ? to - from : 0;
      }
    }
  }
}

void DbImpl::CompactRange(const Slice* begin, const Slice* end) {
  if (!CheckOpen().ok()) return;
  const Status status = background_->CompactRange(begin, end);
  if (!status.ok()) Log().warn("CompactRange ended early: {}", status.ToString());
}

Status DbImpl::Flush(const FlushOptions& options) {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return background_->Flush(options.wait);
}

Status DbImpl::WaitForBackgroundWork() {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return background_->WaitIdle();
}

}  // namespace dlsm
