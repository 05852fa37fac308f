// Reads: what they hold, and how they find their shards.

#include <algorithm>
#include <utility>

#include "dLSM/pinnable_slice.h"
#include "db/db_impl.h"
#include "db/db_iterator.h"
#include "db/shard_iterator.h"
#include "util/status_macros.h"

namespace dlsm {

TableReadOptions DbImpl::ReadOptionsFor(const ReadOptions& options) const {
  TableReadOptions read_options;
  read_options.verify_checksums = options.verify_checksums || options_.paranoid_checks;
  read_options.fill_cache = options.fill_cache;
  read_options.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  return read_options;
}

std::vector<size_t> DbImpl::ShardsOf(const Slice* begin, const Slice* end) const {
  const size_t first = begin == nullptr ? 0 : map_.ShardOf(*options_.comparator, *begin);
  const size_t last =
      end == nullptr ? shards_.size() - 1 : map_.ShardOf(*options_.comparator, *end);
  std::vector<size_t> shards;
  for (size_t i = first; i <= std::max(first, last); ++i) shards.push_back(i);
  return shards;
}

// The state of now: a sequence number, settled, and views that have all of it. The views are taken
// first: what flushes and merges had dropped by then no later number needs. If memtables were
// switched in between, a view may lack its shard's newest one, which the epoch tells.
DbImpl::ReadPoint DbImpl::TakeReadPoint(const ReadOptions& options,
                                        const std::vector<size_t>& shards) {
  ReadPoint point;
  const auto take_views = [&] {
    point.views.clear();
    for (const size_t i : shards) point.views.push_back(shards_[i]->tree().views().Current());
  };
  if (options.snapshot != nullptr) {
    point.sequence = static_cast<const SnapshotImpl*>(options.snapshot)->sequence();
    take_views();
    return point;
  }
  while (true) {
    take_views();
    const Sequencer::Position now = epochs_->sequencer().Now();
    bool shown = true;
    for (size_t i = 0; shown && i < shards.size(); ++i) {
      shown = shards_[shards[i]]->tree().Shows(*point.views[i], now.epoch);
    }
    if (!shown) continue;
    point.sequence = now.next - 1;
    epochs_->sequencer().WaitSettled(point.sequence);
    return point;
  }
}

Status DbImpl::GetInView(const Shard& shard, const ReadView& view, const ReadOptions& options,
                         const Slice& key, LookupResult* result, bool* fetched) {
  const SequenceNumber sequence =
      options.snapshot == nullptr ? kSequenceNumberMax
                                  : static_cast<const SnapshotImpl*>(options.snapshot)->sequence();
  const LookupKey lookup(key, sequence);
  statistics_->Add(Ticker::kKeysRead);
  const Status got = shard.reader().Get(view, lookup, ReadOptionsFor(options), result, fetched);
  if (!got.ok()) [[unlikely]]
    return shard.Named(got);
  if (result->state != LookupState::kFound) return Status::NotFound(Slice());
  statistics_->Add(Ticker::kKeysFound);
  statistics_->Add(Ticker::kBytesRead, result->value.size());
  return Status::OK();
}

template <typename Take>
Status DbImpl::GetAndTake(const ReadOptions& options, const Slice& key, const Take& take) {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(range_.Check(key));
  Shard& shard = ShardOf(key);
  const ReadViews::Pin view(shard.tree().views());
  LookupResult result;
  bool fetched;
  DLSM_RETURN_IF_ERROR(GetInView(shard, *view, options, key, &result, &fetched));
  take(*view, result, fetched);
  return Status::OK();
}

Status DbImpl::Get(const ReadOptions& options, const Slice& key, std::string* value) {
  return GetAndTake(options, key, [value](const ReadView&, const LookupResult& result, bool) {
    value->assign(result.value.data(), result.value.size());
  });
}

Status DbImpl::Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) {
  value->Reset();
  return GetAndTake(options, key,
                    [value](const ReadView& view, LookupResult& result, bool fetched) {
                      if (result.holder != nullptr) {
                        value->PinSlice(result.value, std::move(result.holder));
                      } else if (fetched) {
                        value->PinSelf(result.value);
                      } else {
                        value->PinSlice(result.value, view.shared_from_this());
                      }
                    });
}

std::vector<Status> DbImpl::MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                                     std::vector<std::string>* values) {
  values->assign(keys.size(), std::string());
  const Status open = CheckOpen();
  if (!open.ok()) return std::vector<Status>(keys.size(), open);
  std::vector<size_t> shard_of;  // By key.
  shard_of.reserve(keys.size());
  for (const Slice& key : keys) shard_of.push_back(ShardOf(key).number());
  std::vector<size_t> shards = shard_of;
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  const ReadPoint point = TakeReadPoint(options, shards);
  std::vector<std::unique_ptr<PointReader::Request>> requests;
  requests.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    auto& request =
        requests.emplace_back(std::make_unique<PointReader::Request>(keys[i], point.sequence));
    const auto view = std::lower_bound(shards.begin(), shards.end(), shard_of[i]);
    request->reader = &shards_[shard_of[i]]->reader();
    request->view = point.views[static_cast<size_t>(view - shards.begin())].get();
    request->value = &(*values)[i];
  }
  PointReader::MultiGet(requests, ReadOptionsFor(options));
  std::vector<Status> statuses;
  statuses.reserve(keys.size());
  statistics_->Add(Ticker::kKeysRead, keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    Status status = shards_[shard_of[i]]->Named(requests[i]->status);
    if (status.ok() && requests[i]->state != LookupState::kFound) {
      // Other compute nodes' keys are not found, for nobody can have written them here.
      status = range_.Check(keys[i]);
      if (status.ok()) status = Status::NotFound(Slice());
    }
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
  DbIteratorOptions iterator_options;
  if (options.iterate_lower_bound != nullptr) {
    iterator_options.lower_bound = *options.iterate_lower_bound;
  }
  if (options.iterate_upper_bound != nullptr) {
    iterator_options.upper_bound = *options.iterate_upper_bound;
  }
  std::vector<size_t> shards = ShardsOf(options.iterate_lower_bound, options.iterate_upper_bound);
  // The upper bound itself is not part of the range.
  if (shards.size() > 1 && options.iterate_upper_bound != nullptr &&
      options_.comparator->Compare(map_.boundaries[shards.back() - 1],
                                   *options.iterate_upper_bound) == 0) {
    shards.pop_back();
  }
  const ReadPoint point = TakeReadPoint(options, shards);
  iterator_options.sequence = point.sequence;
  const TableReadOptions read_options = ReadOptionsFor(options);
  if (only_ != nullptr) {
    const std::shared_ptr<const ReadView>& view = point.views.front();
    iterator_options.counts_seeks = view->version->levels().front().sentinel().index->oldest();
    return NewDbIterator(comparator_,
                         NewViewIterator(comparator_, *view, read_options, &only_->queue_pairs()),
                         iterator_options, view, statistics_)
        .release();
  }
  std::vector<ShardView> views;
  for (size_t i = 0; i < shards.size(); ++i) {
    views.push_back({point.views[i], &shards_[shards[i]]->queue_pairs()});
  }
  return NewDbIterator(
             comparator_,
             NewShardsIterator(comparator_, map_, shards.front(), std::move(views), read_options),
             iterator_options, /*holder=*/nullptr, statistics_)
      .release();
}

const Snapshot* DbImpl::GetSnapshot() {
  return CheckOpen().ok() ? snapshots_.Take(&epochs_->sequencer()) : nullptr;
}

void DbImpl::ReleaseSnapshot(const Snapshot* snapshot) {
  if (snapshot != nullptr) snapshots_.Release(static_cast<const SnapshotImpl*>(snapshot));
}

}  // namespace dlsm
