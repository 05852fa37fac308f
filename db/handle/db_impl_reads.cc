// Reads of a database's owner: the views and the sequence number that each kind of read takes. What
// is read with them is reads.h, the same for followers.

#include <algorithm>
#include <new>
#include <utility>

#include "dLSM/pinnable_slice.h"
#include "db/handle/db_impl.h"
#include "db/read/db_iterator.h"
#include "db/read/get_pipeline_impl.h"
#include "db/read/multi_get_forms.h"
#include "port/spin_wait.h"
#include "util/call_timer.h"
#include "util/null_argument.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Of the snapshot, if it is one of `db`.
SequenceNumber SequenceOf(const ReadOptions& options, const DB* db) {
  return IsSnapshotOf(options.snapshot, db)
             ? static_cast<const SnapshotImpl*>(options.snapshot)->sequence()
             : kSequenceNumberMax;
}

// Whether the views have all up to this number: no ingest is about to install some of it.
bool AreComplete(std::span<std::shared_ptr<const ReadView>> views, SequenceNumber as_of) {
  return std::all_of(views.begin(), views.end(),
                     [as_of](const auto& view) { return view->Complete(as_of); });
}

}  // namespace

// The state of now: a sequence number, settled, and views that have all of it. The views are taken
// first: what flushes and merges had dropped by then no later number needs. If memtables were
// switched in between, a view may lack its shard's newest one, which the epoch tells.
SequenceNumber DbImpl::TakeReadPoint(const ReadOptions& options, std::span<const size_t> shards,
                                     std::span<std::shared_ptr<const ReadView>> views) {
  const auto take_views = [&] {
    for (size_t i = 0; i < shards.size(); ++i) {
      views[i] = shards_[shards[i]]->tree().views().Current();
    }
  };
  if (options.snapshot != nullptr) {
    take_views();
    return static_cast<const SnapshotImpl*>(options.snapshot)->sequence();
  }
  for (port::SpinWait wait;;) {
    take_views();
    const Sequencer::Position now = epochs_->sequencer().Now();
    bool shown = true;
    for (size_t i = 0; shown && i < shards.size(); ++i) {
      shown = shards_[shards[i]]->tree().Shows(*views[i], now.epoch);
    }
    if (!shown) continue;
    const SequenceNumber sequence = now.next - 1;
    if (!AreComplete(views, sequence)) {
      wait.Pause();
      continue;
    }
    epochs_->sequencer().WaitSettled(sequence);
    return sequence;
  }
}

template <typename Take>
Status DbImpl::GetAndTake(const ReadOptions& options, const Slice& key, bool pins,
                          const Take& take) {
  DLSM_RETURN_IF_ERROR(CheckRead(options));
  DLSM_RETURN_IF_ERROR(range_.Check(key));
  Shard& shard = ShardOf(key);
  const ReadViews::Pin view(shard.tree().views());
  // One key needs no settled number: the newest version that is found is right, and of open batches
  // Memtable::Get() passes over all entries.
  const SequenceNumber sequence = SequenceOf(options, this);
  LookupResult result;
  result.pins = pins;
  const Status got =
      shard.reader().Get(*view, key, sequence, TableReadOptionsFor(options_, options), &result);
  if (!got.ok()) return got.IsNotFound() ? got : shard.Named(got);
  take(*view, &result);
  return Status::OK();
}

Status DbImpl::Get(const ReadOptions& options, const Slice& key, std::string* value) try {
  const CallTimer timer(statistics_.get(), HistogramType::kGet);
  if (value == nullptr) [[unlikely]]
    return NullArgument("value");
  return GetAndTake(options, key, /*pins=*/false,
                    [value](const ReadView&, const LookupResult* result) {
                      value->assign(result->value.data(), result->value.size());
                    });
} catch (const std::bad_alloc&) {
  return OutOfTransferMemory();
}

// What *value was may be the key: it goes when the key has been looked up.
Status DbImpl::Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) try {
  const CallTimer timer(statistics_.get(), HistogramType::kGet);
  if (value == nullptr) [[unlikely]]
    return NullArgument("value");
  const Status got =
      GetAndTake(options, key, /*pins=*/true, [value](const ReadView& view, LookupResult* result) {
        const bool in_view = !result->in_scratch && result->holder == nullptr;
        Pin(result, in_view ? view.shared_from_this() : nullptr, value);
      });
  if (!got.ok()) value->Reset();
  return got;
} catch (const std::bad_alloc&) {
  value->Reset();
  return OutOfTransferMemory();
}

std::vector<Status> DbImpl::MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                                     std::vector<std::string>* values) try {
  const CallTimer timer(statistics_.get(), HistogramType::kMultiGet);
  return MultiGetStrings(keys, values,
                         [&](const auto&... of_all) { MultiGetInto(options, of_all...); });
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void DbImpl::MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                      PinnableSlice* values, Status* statuses) try {
  const CallTimer timer(statistics_.get(), HistogramType::kMultiGet);
  MultiGetPinned(count, keys, values, statuses,
                 [&](const auto&... of_all) { MultiGetInto(options, of_all...); });
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void DbImpl::MultiGetInto(const ReadOptions& options, std::span<const Slice> keys,
                          Reads::Values values, Status* statuses) {
  const Status open = CheckRead(options);
  if (!open.ok()) {
    std::fill_n(statuses, keys.size(), open);
    return;
  }
  std::vector<size_t> shard_of;  // By key.
  shard_of.reserve(keys.size());
  for (const Slice& key : keys) shard_of.push_back(ShardOf(key).number());
  std::vector<size_t> shards = {0};
  if (shards_.size() > 1) {
    shards = shard_of;
    std::sort(shards.begin(), shards.end());
    shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  }
  // What is pinned keeps them all: so no thread counts references where others do.
  const auto views = std::make_shared<Views>(shards.size());
  const SequenceNumber sequence = TakeReadPoint(options, shards, *views);
  std::vector<Reads::Source> sources;
  sources.reserve(keys.size());
  for (const size_t shard : shard_of) {
    const auto view = std::lower_bound(shards.begin(), shards.end(), shard) - shards.begin();
    sources.push_back({&shards_[shard]->reader(), (*views)[static_cast<size_t>(view)].get()});
  }
  values.holder = views;
  const size_t failed = reads_.MultiGet(keys, sources, sequence, options, values, statuses);
  if (failed > 0) [[unlikely]] {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok() || statuses[i].IsNotFound()) continue;
      statuses[i] = shards_[shard_of[i]]->Named(statuses[i]);
    }
  }
  range_.ExplainMissing(keys, statuses);
}

// What a pipeline asks for each key that is submitted to it.
class DbImpl::Places final : public LookupPlaces {
 public:
  Places(DbImpl* db, const ReadOptions& options)
      : db_(db), sequence_(SequenceOf(options, db)), usable_(CheckSnapshot(options, db)) {
    usable_.PermitUncheckedError();  // Who submits a key is told.
  }

  Status CheckOpen() override { return db_->CheckOpen(); }
  Status Of(const Slice& key, LookupPlace* place) override {
    DLSM_RETURN_IF_ERROR(db_->CheckOpen());
    DLSM_RETURN_IF_ERROR(usable_);
    DLSM_RETURN_IF_ERROR(db_->range_.Check(key));
    Shard& shard = db_->ShardOf(key);
    std::shared_ptr<const ReadView> view = shard.tree().views().Current();
    const ReadView* const shown = view.get();
    *place = {&shard.reader(), shown, std::move(view), {}, sequence_};
    return Status::OK();
  }
  Status Explain(const Slice& key, Status status) override {
    return db_->ShardOf(key).Named(status);
  }

 private:
  DbImpl* const db_;
  const SequenceNumber sequence_;
  const Status usable_;  // Whether the snapshot is the database's.
};

std::unique_ptr<GetPipeline> DbImpl::NewGetPipeline(const ReadOptions& options, size_t depth) try {
  return std::make_unique<GetPipelineImpl>(
      std::make_unique<Places>(this, options), TableReadOptionsFor(options_, options),
      std::clamp<size_t>(depth, 1, kGetPipelineDepthMax), statistics_);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Iterator* DbImpl::NewIterator(const ReadOptions& options) try {
  const Status open = CheckRead(options);
  if (!open.ok()) return NewErrorIterator(open);
  if (shards_.size() == 1) {  // As below, without anything to allocate.
    constexpr size_t kOnly = 0;
    std::shared_ptr<const ReadView> view;
    const SequenceNumber sequence = TakeReadPoint(options, {&kOnly, 1}, {&view, 1});
    return reads_.NewIterator(ShardView{std::move(view), &shards_.front()->queue_pairs()}, sequence,
                              options, /*holder=*/nullptr);
  }
  const std::vector<size_t> shards = reads_.ShardsOf(options);
  Views views(shards.size());
  const SequenceNumber sequence = TakeReadPoint(options, shards, views);
  std::vector<ShardView> shown;
  shown.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    shown.push_back({std::move(views[i]), &shards_[shards[i]]->queue_pairs()});
  }
  return reads_.NewIterator(shards.front(), std::move(shown), sequence, options,
                            /*holder=*/nullptr);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

const Snapshot* DbImpl::GetSnapshot() try {
  if (!CheckOpen().ok()) return nullptr;
  const SnapshotImpl* const snapshot = snapshots_.Take(&epochs_->sequencer());
  // Whoever reads with it takes a later view, which has an ingest below its number from then on.
  for (const auto& shard : shards_) {
    port::SpinWait wait;
    while (!shard->tree().views().Current()->Complete(snapshot->sequence())) wait.Pause();
  }
  return snapshot;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void DbImpl::ReleaseSnapshot(const Snapshot* snapshot) try {
  // A child of the process that opened the handle leaves it behind.
  if (!opened_by_.IsHere() || !IsSnapshotOf(snapshot, this)) return;
  snapshots_.Release(static_cast<const SnapshotImpl*>(snapshot));
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

}  // namespace dlsm
