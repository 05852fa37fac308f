// The one implementation of IndexedDB. Writes are in index_writes.cc, queries in index_query.cc,
// Build(), Check() and Clean() in index_upkeep.cc, and opening in indexed_db.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/secondary_index.h"
#include "db/index/record_locks.h"

namespace dlsm {

// An index that is open.
struct OpenIndex {
  explicit OpenIndex(IndexDefinition given) : definition(std::move(given)) {}

  // The index keys of a record, in order, each once.
  std::vector<std::string> KeysOf(const Slice& key, const Slice& value) const;
  bool Has(const Slice& key, const Slice& value, const std::string& index_key) const;
  bool eager() const { return definition.upkeep == IndexUpkeep::kEager; }

  const IndexDefinition definition;
  std::string entries;  // The keys of its entries begin with it.
  // Released after the last entry of a Build() was written.
  std::atomic<bool> ready{false};
};

class IndexedDBImpl final : public IndexedDB {
 public:
  IndexedDBImpl(DB* db, IndexedDBOptions options)
      : db_(*db), options_(std::move(options)), locks_(options_.locks) {}

  Status Init(std::vector<IndexDefinition> definitions);

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Write(const WriteOptions& options, const WriteBatch& updates) override;
  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override;
  std::unique_ptr<IndexIterator> Query(const IndexQueryOptions& options, const std::string& index,
                                       const IndexRange& range) override;
  std::unique_ptr<IndexIterator> Lookup(const IndexQueryOptions& options, const std::string& index,
                                        const Slice& index_key) override;
  Status Build(const std::string& index) override;
  Status Check(const std::string& index, IndexReport* report) override;
  Status Clean(const std::string& index, uint64_t* cleaned) override;
  IndexCounters counters() const override;

  // -------- For iterators.

  // An entry that a query has found to be stale.
  struct Stale {
    std::string index_key;
    std::string key;
  };
  // Deletes those that their records do not have now either.
  Status DeleteStale(const OpenIndex& index, std::span<const Stale> stale);
  void CountFailedCleanup() { counts_.cleanups_failed.fetch_add(1, std::memory_order_relaxed); }
  void CountCandidates(uint64_t candidates, uint64_t stale) {
    counts_.candidates.fetch_add(candidates, std::memory_order_relaxed);
    counts_.stale_candidates.fetch_add(stale, std::memory_order_relaxed);
  }
  DB& db() { return db_; }

 private:
  // As IndexCounters; relaxed, because nothing follows from them.
  struct Counts {
    std::atomic<uint64_t> records_written{0};
    std::atomic<uint64_t> records_read{0};
    std::atomic<uint64_t> entries_written{0};
    std::atomic<uint64_t> entries_deleted{0};
    std::atomic<uint64_t> queries{0};
    std::atomic<uint64_t> candidates{0};
    std::atomic<uint64_t> stale_candidates{0};
    std::atomic<uint64_t> entries_cleaned{0};
    std::atomic<uint64_t> cleanups_failed{0};
  };
  class Updates;

  // Opening.
  Status CheckOptions(const std::vector<IndexDefinition>& definitions);
  Status CheckStates();
  Status OpenStates();
  Status OpenState(OpenIndex& index, bool has_records);
  Status WriteState(const OpenIndex& index, bool ready);

  Status CheckKey(const Slice& key) const;
  Status Apply(const WriteOptions& options, const Updates& updates);
  // A record that is null is not there.
  void AddEntries(const OpenIndex& index, const Slice& key, const std::string* before,
                  const Slice* after, WriteBatch* batch);
  // *present is false if there is no such record.
  Status ReadRecord(const Slice& key, std::string* value, bool* present);

  OpenIndex* Find(const std::string& name);
  Status FindReady(const std::string& name, OpenIndex** index);
  std::unique_ptr<IndexIterator> QueryEntries(const IndexQueryOptions& options,
                                              const std::string& name, const std::string* begin,
                                              const std::string* end);

  Status BuildPart(const OpenIndex& index, const std::vector<std::string>& keys);
  Status CheckEntries(const OpenIndex& index, const Snapshot* snapshot, IndexReport* report);
  Status CheckRecords(const OpenIndex& index, const Snapshot* snapshot, IndexReport* report);
  // Calls visit(key, value) for each record, until it returns an error.
  template <typename Visit>
  Status ForEachRecord(const Snapshot* snapshot, const Visit& visit);

  DB& db_;
  const IndexedDBOptions options_;
  bool any_eager_ = false;                           // Constant after Init().
  std::vector<std::unique_ptr<OpenIndex>> indexes_;  // Likewise.
  RecordLocks locks_;
  Counts counts_;
};

}  // namespace dlsm
