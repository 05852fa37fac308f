// The database of one handle: wires its parts together and carries the public calls to them.
//
//   put    checks ──> gate ──> sequencer ──> memtable
//   get    view ──> memtables ──> version ──> level ──> table reader ──> queue pair
//   rest   background: flushes, merges, frees
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/statistics.h"
#include "db/background.h"
#include "db/memory_node_session.h"
#include "db/point_reader.h"
#include "db/remote_memory.h"
#include "db/snapshot.h"
#include "db/stall_gate.h"
#include "db/table_store.h"
#include "db/thread_queue_pairs.h"
#include "db/tree.h"

namespace dlsm {

class DbImpl final : public DB {
 public:
  static Status Open(const Options& options, const std::string& name, std::unique_ptr<DB>* db);
  ~DbImpl() override;

  Status Close() override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Write(const WriteOptions& options, WriteBatch* updates) override;
  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override;
  Status Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  Iterator* NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  bool GetProperty(const Slice& property, std::string* value) override;
  void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) override;
  void CompactRange(const Slice* begin, const Slice* end) override;
  Status Flush(const FlushOptions& options) override;
  Status WaitForBackgroundWork() override;
  Status SetOptions(const std::unordered_map<std::string, std::string>& options) override;
  std::shared_ptr<Statistics> GetStatistics() const override { return statistics_; }

 private:
  friend class Properties;

  // What a read at "now" or at a snapshot holds.
  struct ReadPoint {
    std::shared_ptr<const ReadView> view;
    SequenceNumber sequence = 0;
  };

  DbImpl(const Options& options, const std::string& name,
         std::unique_ptr<MemoryNodeSession> session);
  Status Start();
  Status DecodeManifest(Manifest* manifest, std::vector<Level>* levels);
  TableStore::Config TableStoreConfig() const;
  RemoteMemory::Config RemoteMemoryConfig() const;
  Background::Config BackgroundConfig() const;

  Status CheckOpen() const;
  Status SetMemoryNodeSchedule(const SetMergeScheduleRequest& request,
                               SetMergeScheduleReply* reply) const;
  Status WriteOne(ValueType type, const Slice& key, const Slice& value);
  Status GetInView(const ReadView& view, const ReadOptions& options, const Slice& key,
                   LookupResult* result, bool* fetched);
  ReadPoint TakeReadPoint(const ReadOptions& options);
  TableReadOptions ReadOptionsFor(const ReadOptions& options) const;
  std::unique_ptr<Iterator> NewEntryIterator(const ReadView& view, const ReadOptions& options);

  const Options options_;
  const std::string name_;
  const InternalKeyComparator comparator_;
  const std::shared_ptr<Statistics> statistics_;
  std::unique_ptr<const FilterPolicy> own_filter_policy_;
  const FilterPolicy* filter_policy_ = nullptr;  // Null: none.
  std::unique_ptr<Cache> own_block_cache_;
  std::atomic<bool> closed_{false};

  // In the order in which they depend on each other.
  std::unique_ptr<MemoryNodeSession> session_;
  std::unique_ptr<ThreadQueuePairs> queue_pairs_;
  std::unique_ptr<RemoteMemory> memory_;
  std::unique_ptr<TableStore> tables_;
  StallGate gate_;
  SnapshotList snapshots_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<PointReader> point_reader_;
  std::unique_ptr<Background> background_;
};

}  // namespace dlsm
