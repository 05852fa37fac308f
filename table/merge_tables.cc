#include "table/merge_tables.h"

#include <bit>
#include <string>

#include "port/clock.h"
#include "table/merge_input.h"
#include "table/merge_writer.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// How many records are merged between two questions to the pace.
constexpr uint64_t kRecordsPerBatch = 256;

// More than the outputs are going to have, unless they are compressed worse than the inputs.
uint64_t ExpectedImageBytes(const std::vector<TableRun>& runs) {
  uint64_t bytes = 0;
  for (const TableRun& run : runs) {
    for (const TableReader* table : run) bytes += table->meta().image.bytes;
  }
  return bytes + bytes / 4 + (uint64_t{64} << 10);
}

class Merge {
 public:
  Merge(const MergeOptions& options, const std::vector<TableRun>& runs,
        const TableReadOptions& read_options, QueuePairs* queue_pairs, MergePace* pace,
        MergeOutput* output, MergeStatistics* statistics)
      : options_(options),
        comparator_(options.table.comparator),
        pace_(pace),
        statistics_(statistics),
        input_(options, runs, read_options, queue_pairs),
        tombstones_(comparator_, options.tombstones),
        rule_(comparator_, options.snapshots, &options.older, &tombstones_),
        writer_(options, runs, ExpectedImageBytes(runs), output, statistics) {}

  Status Run() {
    uint64_t told = 0;
    while (input_.Valid()) {
      DLSM_RETURN_IF_ERROR(pace_->Proceed(statistics_->bytes_read - told));
      told = statistics_->bytes_read;
      bool ended = false;
      DLSM_RETURN_IF_ERROR(MergeBatch(&ended));
      if (ended) break;
    }
    DLSM_RETURN_IF_ERROR(input_.status());
    statistics_->hidden = rule_.hidden();
    return writer_.Finish();
  }

 private:
  Status MergeBatch(bool* ended) {
    for (uint64_t i = 0; i < kRecordsPerBatch && input_.Valid(); ++i) {
      const TableIterator& record = input_.record();
      // Records may lie in memory that their owner changes meanwhile: from here on, the key is
      // this.
      key_.assign(record.key().data(), record.key().size());
      if (!IsValidInternalKey(key_)) return Status::Corruption("a table holds a malformed key");
      const Slice user_key = ExtractUserKey(key_);
      if (options_.has_end && comparator_.CompareUserKeys(user_key, options_.end) >= 0) {
        *ended = true;
        return Status::OK();
      }
      bool same = false;
      DLSM_RETURN_IF_ERROR(CheckOrder(&same));
      ++statistics_->records_read;
      statistics_->bytes_read +=
          record.encoded().empty() ? key_.size() + record.value().size() : record.encoded().size();
      if (!same) kept_ = false;
      if (rule_.Keep(key_, same)) DLSM_RETURN_IF_ERROR(Take(record, same));
      last_key_.swap(key_);
      input_.Next();
    }
    return Status::OK();
  }

  // Hands the record on, unless the filter has it removed and there is nothing left to hide.
  Status Take(const TableIterator& record, bool same) {
    if (options_.filter != nullptr && !same && IsForFilter(key_)) [[unlikely]] {
      new_value_.clear();
      bool changed = false;
      const Slice user_key = ExtractUserKey(key_);
      const bool removed = options_.filter->Filter(static_cast<int>(options_.level), user_key,
                                                   record.value(), &new_value_, &changed);
      if (removed || changed) {
        ++statistics_->filtered;
        if (removed && !rule_.KeepsDeletion(user_key)) return Status::OK();
        const SequenceNumber sequence = TrailerSequence(ExtractTrailer(key_));
        changed_key_.assign(user_key.data(), user_key.size());
        PutFixed64(&changed_key_,
                   PackTrailer(sequence, removed ? ValueType::kDeletion : ValueType::kValue));
        kept_ = true;
        return writer_.AddChanged(changed_key_, removed ? Slice() : Slice(new_value_));
      }
    }
    DLSM_RETURN_IF_ERROR(writer_.Add(record, key_, kept_ && same));
    kept_ = true;
    return Status::OK();
  }

  bool IsForFilter(const Slice& internal_key) const {
    const uint64_t trailer = ExtractTrailer(internal_key);
    return TrailerType(trailer) == ValueType::kValue &&
           TrailerSequence(trailer) > options_.filter_above;
  }

  // Builders rely on the order, and the inputs are only bytes that someone wrote.
  Status CheckOrder(bool* same) const {
    if (statistics_->records_read == 0) return Status::OK();
    const int order = comparator_.CompareUserKeys(ExtractUserKey(last_key_), ExtractUserKey(key_));
    if (order > 0 || (order == 0 && ExtractTrailer(last_key_) < ExtractTrailer(key_))) {
      return Status::Corruption("the records of a table are out of order");
    }
    *same = order == 0;
    return Status::OK();
  }

  const MergeOptions& options_;
  const InternalKeyComparator comparator_;
  MergePace* const pace_;
  MergeStatistics* const statistics_;
  MergeInput input_;
  const RangeTombstones tombstones_;
  VersionRule rule_;
  MergeWriter writer_;
  std::string key_;       // Of the current record.
  std::string last_key_;  // Of the one before.
  bool kept_ = false;     // A version of the key was kept.
  // Of the filter.
  std::string new_value_;
  std::string changed_key_;
};

}  // namespace

uint32_t CutRank(const Slice& user_key) {
  return static_cast<uint32_t>(std::countr_zero(Hash64(user_key)));
}

Status MergeTables(const MergeOptions& options, const std::vector<TableRun>& runs,
                   const TableReadOptions& read_options, QueuePairs* queue_pairs, MergePace* pace,
                   MergeOutput* output, MergeStatistics* statistics) {
  const auto start = port::Clock::now();
  *statistics = MergeStatistics();
  TableReadOptions verified = read_options;
  verified.verify_checksums = true;
  verified.fill_cache = false;
  const Status status = Merge(options, runs, verified, queue_pairs, pace, output, statistics).Run();
  statistics->micros = port::MicrosecondsSince(start);
  return status;
}

}  // namespace dlsm
