#include "db/handle/db_impl.h"

#include <algorithm>
#include <new>
#include <utility>

#include "db/handle/properties.h"
#include "util/call_timer.h"
#include "util/null_argument.h"
#include "util/other_process.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
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

Status DbImpl::Put(const WriteOptions& options, const Slice& key, const Slice& value) try {
  const CallTimer timer(statistics_.get(), HistogramType::kPut);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return writer_->WriteOne(options, ValueType::kValue, key, value);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Status DbImpl::Delete(const WriteOptions& options, const Slice& key) try {
  const CallTimer timer(statistics_.get(), HistogramType::kDelete);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return writer_->WriteOne(options, ValueType::kDeletion, key, Slice());
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Status DbImpl::DeleteRange(const WriteOptions& options, const Slice& begin, const Slice& end) try {
  const CallTimer timer(statistics_.get(), HistogramType::kDelete);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  WriteBatch range;
  range.DeleteRange(begin, end);
  return writer_->Write(options, range);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Status DbImpl::Write(const WriteOptions& options, WriteBatch* updates) try {
  const CallTimer timer(statistics_.get(), HistogramType::kWrite);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  if (updates == nullptr) return NullArgument("updates");
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  return writer_->Write(options, *updates);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// -------- The rest

bool DbImpl::GetProperty(const Slice& property, std::string* value) try {
  if (value == nullptr) return false;
  value->clear();
  // A handle that sleeps goes on sleeping: properties may be asked for regularly.
  if (!opened_by_.IsHere() || state_.closed()) return false;
  return Properties(*this).Get(property, value);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void DbImpl::GetApproximateSizes(const Range* range, int n, uint64_t* sizes) try {
  if (n <= 0 || sizes == nullptr) return;
  std::fill_n(sizes, n, 0);
  if (range == nullptr || !CheckOpen().ok()) return;
  for (int i = 0; i < n; ++i) {
    for (const size_t shard : reads_.ShardsOf(&range[i].start, &range[i].limit)) {
      const ReadViews::Pin view(shards_[shard]->tree().views());
      sizes[i] += reads_.ApproximateBytes(*view->version, range[i]);
    }
  }
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// A shard that fails keeps no other from being merged.
Status DbImpl::CompactRange(const Slice* begin, const Slice* end) try {
  const CallTimer timer(statistics_.get(), HistogramType::kCompactRange);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  const CallerWork::Turn turn(&callers_, CallerWork::Turn::Kind::kMerge);
  const std::vector<size_t> shards = reads_.ShardsOf(begin, end);
  const auto began = Background::Clock::now();
  if (shards.size() > 1 && !callers_.own_code()) {
    for (const size_t i : shards) shards_[i]->background().BeginFlush();
  }
  Status first_error;
  for (const size_t i : shards) {
    Shard& shard = *shards_[i];
    KeepFirstError(shard.Named(shard.background().CompactRange(began, begin, end)), &first_error);
  }
  return first_error;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Status DbImpl::Flush(const FlushOptions& options) try {
  const CallTimer timer(statistics_.get(), HistogramType::kFlush);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  return FlushShards(options.wait);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
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
    for (const auto& shard : shards_) shard->background().BeginFlush();
  }
  Status first_error;
  for (const auto& shard : shards_) {
    Status status = shard->Named(shard->background().AwaitFlush(began));
    (*flushed)[shard->number()] = status.ok();
    KeepFirstError(std::move(status), &first_error);
  }
  return first_error;
}

Status DbImpl::WaitForBackgroundWork() try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  if (read_only()) return Status::OK();
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
  EndForLackOfMemory();
}

}  // namespace dlsm
