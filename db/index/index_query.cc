// Queries: a walk over the entries of a range, and reads of the records behind them, many at a
// time.
//
//   1. Take the next entries, up to a batch. The first batch is small, for a caller that wants one
//      result, and each is twice as large as the one before.
//   2. Unless the index is eager and nobody wants values, read all their records by one MultiGet.
//   3. Leave out the entries that their record does not have. Of an eager index there are none.
//   4. Of a lazy index, delete these when there are enough of them, and at the end.
#include <algorithm>
#include <optional>
#include <utility>

#include "dLSM/iterator.h"
#include "db/index/index_keys.h"
#include "db/index/indexed_db.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

constexpr size_t kFirstBatch = 8;
constexpr size_t kBatchMax = 64;
// What a query remembers of stale entries before it deletes them.
constexpr size_t kStaleMax = 32;

class QueryIterator final : public IndexIterator {
 public:
  // Entries in [begin, end); null: without that bound.
  QueryIterator(IndexedDBImpl* owner, const OpenIndex* index, const IndexQueryOptions& options,
                std::string begin, std::optional<std::string> end)
      : owner_(*owner),
        index_(*index),
        options_(options),
        own_snapshot_(options.snapshot == nullptr ? owner->db().GetSnapshot() : nullptr),
        begin_bytes_(std::move(begin)),
        end_bytes_(std::move(end)),
        begin_(begin_bytes_),
        end_(end_bytes_ ? Slice(*end_bytes_) : Slice()) {
    read_.verify_checksums = options.verify_checksums;
    read_.snapshot = options.snapshot == nullptr ? own_snapshot_ : options.snapshot;
    read_.iterate_lower_bound = &begin_;
    if (end_bytes_) read_.iterate_upper_bound = &end_;
    entries_.reset(owner_.db().NewIterator(read_));
    entries_->SeekToFirst();
    read_.iterate_lower_bound = nullptr;
    read_.iterate_upper_bound = nullptr;
    FillAgain();
  }
  ~QueryIterator() override {
    OrEndForLackOfMemory([this] { CleanUp(); });
    entries_.reset();
    owner_.db().ReleaseSnapshot(own_snapshot_);
  }

  bool Valid() const override { return at_ < results_.size(); }
  void Next() override {
    if (++at_ == results_.size()) FillAgain();
  }
  Slice index_key() const override { return results_[at_].index_key; }
  Slice key() const override { return results_[at_].key; }
  Slice value() const override { return results_[at_].value; }
  Status status() const override { return status_; }

 private:
  struct Result {
    std::string index_key;
    std::string key;
    std::string value;
  };

  void FillAgain() {
    Status status = WithinMemory([this] { return Fill(); });
    if (status.ok()) return;
    results_.clear();
    at_ = 0;
    status_ = std::move(status);
  }

  // The next results: none at the end.
  Status Fill() {
    results_.clear();
    at_ = 0;
    while (results_.empty() && entries_->Valid()) {
      DLSM_RETURN_IF_ERROR(TakeEntries());
      if (options_.values || !index_.eager()) DLSM_RETURN_IF_ERROR(ReadRecords());
    }
    return entries_->status();
  }

  Status TakeEntries() {
    for (; entries_->Valid() && results_.size() < batch_; entries_->Next()) {
      Result result;
      Slice key;
      if (!DecodeIndexEntry(index_.entries, entries_->key(), &result.index_key, &key)) {
        return Status::Corruption("an entry of index " + index_.definition.name + " is damaged",
                                  "delete the index with IndexedDB::Drop, and build it");
      }
      result.key = key.ToString();
      results_.push_back(std::move(result));
    }
    batch_ = std::min(2 * batch_, kBatchMax);
    return Status::OK();
  }

  Status ReadRecords() {
    std::vector<Slice> keys;
    for (const Result& result : results_) keys.emplace_back(result.key);
    std::vector<std::string> values;
    const std::vector<Status> statuses = owner_.db().MultiGet(read_, keys, &values);
    size_t kept = 0;
    Status first;
    for (size_t i = 0; i < results_.size(); ++i) {
      Result& result = results_[i];
      if (!statuses[i].ok() && !statuses[i].IsNotFound()) {
        KeepFirstError(statuses[i], &first);
      } else if (statuses[i].ok() && index_.Has(result.key, values[i], result.index_key)) {
        if (options_.values) result.value = std::move(values[i]);
        if (kept != i) results_[kept] = std::move(result);
        ++kept;
      } else if (index_.eager()) {
        KeepFirstError(Status::Corruption(
                           "index " + index_.definition.name + " has an entry without its record",
                           "delete the index with IndexedDB::Drop, and build it"),
                       &first);
      } else {
        stale_.push_back({std::move(result.index_key), std::move(result.key)});
      }
    }
    owner_.CountCandidates(results_.size(), results_.size() - kept);
    results_.resize(kept);
    if (stale_.size() >= kStaleMax) CleanUp();
    return first;
  }

  // An error leaves the entries, which the next query meets again.
  void CleanUp() {
    if (options_.clean_up && !stale_.empty() && !owner_.DeleteStale(index_, stale_).ok()) {
      owner_.CountFailedCleanup();
    }
    stale_.clear();
  }

  IndexedDBImpl& owner_;
  const OpenIndex& index_;
  const IndexQueryOptions options_;
  const Snapshot* const own_snapshot_;
  const std::string begin_bytes_;
  const std::optional<std::string> end_bytes_;
  const Slice begin_;
  const Slice end_;
  ReadOptions read_;
  std::unique_ptr<Iterator> entries_;
  size_t batch_ = kFirstBatch;
  std::vector<Result> results_;
  size_t at_ = 0;
  std::vector<IndexedDBImpl::Stale> stale_;
  Status status_;
};

class FailedQuery final : public IndexIterator {
 public:
  explicit FailedQuery(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void Next() override {}
  Slice index_key() const override { return {}; }
  Slice key() const override { return {}; }
  Slice value() const override { return {}; }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<IndexIterator> IndexedDBImpl::QueryEntries(const IndexQueryOptions& options,
                                                           const std::string& name,
                                                           const std::string* begin,
                                                           const std::string* end) {
  OpenIndex* index = nullptr;
  Status status = FindReady(name, &index);
  if (!status.ok()) return std::make_unique<FailedQuery>(std::move(status));
  counts_.queries.fetch_add(1, std::memory_order_relaxed);
  std::optional<std::string> bound;
  if (end != nullptr) {
    bound = *end;
  } else if (std::string behind = KeyBehind(index->entries); !behind.empty()) {
    bound = std::move(behind);
  }
  return std::make_unique<QueryIterator>(
      this, index, options, begin == nullptr ? index->entries : *begin, std::move(bound));
}

std::unique_ptr<IndexIterator> IndexedDBImpl::Query(const IndexQueryOptions& options,
                                                    const std::string& index,
                                                    const IndexRange& range) {
  const std::string entries = IndexEntriesPrefix(options_.prefix, index);
  std::string begin;
  std::string end;
  if (range.begin != nullptr) begin = IndexEntryKey(entries, *range.begin, Slice());
  if (range.end != nullptr) end = IndexEntryKey(entries, *range.end, Slice());
  return QueryEntries(options, index, range.begin == nullptr ? nullptr : &begin,
                      range.end == nullptr ? nullptr : &end);
}

std::unique_ptr<IndexIterator> IndexedDBImpl::Lookup(const IndexQueryOptions& options,
                                                     const std::string& index,
                                                     const Slice& index_key) {
  const std::string entries = IndexEntriesPrefix(options_.prefix, index);
  const std::string begin = IndexEntryKey(entries, index_key, Slice());
  const std::string end = KeyBehind(begin);  // Entries end with 01, which has a next byte.
  return QueryEntries(options, index, &begin, &end);
}

}  // namespace dlsm
