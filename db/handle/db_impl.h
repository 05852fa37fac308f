// The database of one handle: one or more shards, each an LSM-tree, and what they share. Carries
// the public calls to them.
//
//   put    checks ──> shard ──> gate ──> sequencer ──> memtable: writer.h
//   get    shard ──> view ──> memtables ──> version ──> level ──> table reader ──> queue pair
//   rest   background: flushes, merges, frees
//
// A get in the code: Get() and GetAndTake() (db_impl_reads.cc) ──> PointReader::Get() ──>
// Version::ForEachCandidate() ──> TableReader::Find() ──> PointReader::Fetch(), the one-sided
// read ──> TableReader::Decode().
//
// Opening is in open.cc, the log in db_log.cc, closing in close.cc, reads in db_impl_reads.cc,
// SetOptions() in set_options.cc, all else in db_impl.cc.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "db/background/background_workers.h"
#include "db/background/caller_work.h"
#include "db/background/event_listeners.h"
#include "db/background/fence.h"
#include "db/background/handle_state.h"
#include "db/background/memtable_budget.h"
#include "db/background/read_merge_pacer.h"
#include "db/background/work_signal.h"
#include "db/follow/publisher.h"
#include "db/handle/durable_marks.h"
#include "db/handle/ingest_turns.h"
#include "db/handle/log_keeper.h"
#include "db/handle/shard.h"
#include "db/handle/writer.h"
#include "db/log/log_reader.h"
#include "db/log/write_log.h"
#include "db/memtable/memtable_epochs.h"
#include "db/memtable/snapshot.h"
#include "db/nodes/compute_range.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/shard_map.h"
#include "db/read/reads.h"
#include "db/tree/memory_budget.h"
#include "db/tree/table_defaults.h"
#include "port/process_mark.h"
#include "table/merge_scheduler.h"
#include "util/deadline.h"
#include "util/fabric/remote_address.h"
#include "util/numa.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"
#include "util/thread_pool.h"

namespace dlsm {

class SessionKeeper;
class ValueCache;

class DbImpl final : public DB {
 public:
  enum class Access { kAll, kReadOnly };
  static Status Open(const Options& options, const std::string& name, Access access,
                     std::unique_ptr<DB>* db);
  // In a child of the process that opened the handle nothing is destroyed.
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(DbImpl* db, std::destroying_delete_t) {
    port::DestroyHere(db, db->opened_by_);
  }
  ~DbImpl() override;

  Status Close() override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status DeleteRange(const WriteOptions& options, const Slice& begin, const Slice& end) override;
  Status Write(const WriteOptions& options, WriteBatch* updates) override;
  Status IngestSorted(SortedSource* source, uint64_t* entries) override;
  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override;
  Status Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                               std::vector<std::string>* values) override;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override;
  std::unique_ptr<GetPipeline> NewGetPipeline(const ReadOptions& options, size_t depth) override;
  Iterator* NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  bool GetProperty(const Slice& property, std::string* value) override;
  void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) override;
  Status CompactRange(const Slice* begin, const Slice* end) override;
  Status Flush(const FlushOptions& options) override;
  Status FlushLog(bool sync) override;
  Status WaitDurable(uint64_t sequence) override;
  uint64_t LatestSequence() override;
  uint64_t DurableSequence() override;
  Status WaitForBackgroundWork() override;
  Status TryCatchUp() override { return CheckOpen(); }
  Status SetOptions(const std::unordered_map<std::string, std::string>& options) override;
  std::shared_ptr<Statistics> GetStatistics() const override { return statistics_; }

 private:
  friend class Properties;

  using Views = std::vector<std::shared_ptr<const ReadView>>;

  class Places;  // Of a GetPipeline: db_impl_reads.cc.

  DbImpl(const Options& options, const std::string& name, Access access);

  bool read_only() const { return access_ == Access::kReadOnly; }
  // NotSupported for a handle that only reads.
  Status CheckMayChange() const;
  // Opening: open.cc. `named`: the memory nodes that the options name. `is_new`: the first shard
  // has no manifest yet. `keeper` keeps the sessions that are open already.

  // Makes links_, map_ and shards_; the shards have their sessions then, and nothing is loaded.
  Status OpenShards(SessionKeeper* keeper);
  Status CheckNothingIsLost(const std::vector<std::string>& named);
  // The homes' sessions of all shards but the first, into *sessions.
  Status OpenOthers(bool is_new, SessionKeeper* keeper,
                    std::vector<std::unique_ptr<MemoryNodeSession>>* sessions);
  // The other sessions: (*nodes)[i] gets the home of shard i and the memory nodes that its tables
  // may be on.
  Status OpenTableNodes(const std::vector<std::string>& named, bool is_new,
                        std::vector<std::unique_ptr<MemoryNodeSession>> homes,
                        SessionKeeper* keeper, std::vector<std::vector<ShardNode>>* nodes);
  Status OpenTableNode(const std::string& node, size_t shard, bool is_new,
                       const MemoryNodeSession& first, SessionKeeper* keeper,
                       std::vector<ShardNode>* nodes);
  // Loads all shards and starts them, from the last sequence number of any; then the threads.
  Status StartShards();
  Status NoteMade();
  // Sets log_level_ to what is asked for, if the home's memory node can have such a log.
  Status ChooseLogLevel(const std::string& home, const MemoryNodeLink& link);
  // The log: db_log.cc. *last: the last number in use, of the log of the owner before, too.
  Status ReplayLog(SequenceNumber* last);
  Status CreateLog();
  void StartLogKeeper();
  Status PersistAtLogNode(const std::vector<RemoteSpan>& spans, Deadline deadline) const;
  Status BeginLists();
  // Connects to the memory node, if there is no link to it yet.
  Status LinkTo(const std::string& node, MemoryNodeLink** link);
  ShardContext Context();
  // Goes on with the publications of the owner before: from here on what is published, and what is
  // freed, is this handle's.
  Status TakePublications();
  Writer::Parts WriterParts();
  void StartPublisher();

  // Of an ingest: ingest.cc.
  class Ingest;

  Status FlushShards(bool wait);
  // The last number of which everything up to it is in memtables.
  SequenceNumber Settle() const;
  Status AwaitFlushes(std::vector<bool>* flushed);

  // Closing: close.cc. `flushed`: whether memtables were, by shard or of all of them.
  // *end_is_published: by this handle, and the newest publication names what the last manifest is
  // to name.
  Status FinishPublisher(bool flushed, bool* end_is_published);
  void StopLog(bool flushed);
  Status PutManifests(std::vector<bool>* flushed);
  Status CloseAll();
  Status CloseHouses(const std::vector<size_t>& houses);
  Status CloseShardsAt(const MemoryNodeLink& link);
  void AwaitTransfers(MemoryNodeLink& link) const;
  bool AllIsWellAt(const MemoryNodeLink& link, const std::vector<bool>& flushed) const;
  std::vector<size_t> HousesToClose(const std::vector<bool>& flushed) const;

  // What every public call begins with. Wakes a handle that sleeps.
  Status CheckOpen() const;
  Status CheckOpenAsleep() const;
  // Before a read with these options.
  Status CheckRead(const ReadOptions& options) const {
    DLSM_RETURN_IF_ERROR(CheckOpen());
    return CheckSnapshot(options, this);
  }
  Status SetMemoryNodeSchedule(MemoryNodeLink* link, const SetMergeScheduleRequest& request,
                               SetMergeScheduleReply* reply) const;
  Status SetMemoryNodeSchedules(const SetMergeScheduleRequest& request);
  std::vector<const MemoryNodeLink*> SetMemoryNodesBack(
      std::span<const SetMergeScheduleRequest> back) const;
  Shard& ShardOf(const Slice& key) const {
    if (only_ != nullptr) [[likely]]
      return *only_;
    return *shards_[map_.ShardOf(*options_.comparator, key)];
  }
  // Looks the key up, and if it is there, calls take(view, result) while the value stays where it
  // is. `pins`: as in LookupResult.
  template <typename Take>
  Status GetAndTake(const ReadOptions& options, const Slice& key, bool pins, const Take& take);
  // What a read at "now" or at a snapshot holds of some shards: (*views)[i] is that of shards[i].
  SequenceNumber TakeReadPoint(const ReadOptions& options, std::span<const size_t> shards,
                               std::span<std::shared_ptr<const ReadView>> views);
  void MultiGetInto(const ReadOptions& options, std::span<const Slice> keys, Reads::Values values,
                    Status* statuses);

  const port::ProcessMark opened_by_;
  const Options options_;
  const std::string name_;
  const Access access_;
  const InternalKeyComparator comparator_;
  const ComputeRange range_;
  const std::shared_ptr<Statistics> statistics_;
  const EventListeners listeners_;
  const TableObjects objects_;
  std::shared_ptr<ValueCache> value_cache_;      // Null: none.
  std::shared_ptr<MemoryBudget> memory_budget_;  // Null: none.
  mutable HandleState state_;
  std::shared_ptr<ThreadPool> pool_;  // Shared by all handles on this NUMA node.

  // In the order in which they depend on each other.
  MergeScheduler scheduler_;  // Of merges that run here.
  MemtableBudget budget_;
  WorkSignal signal_;
  CallerWork callers_;
  ReadMergePacer read_merges_;
  Fence fence_;
  SnapshotList snapshots_{this};
  IngestTurns ingest_turns_;
  std::vector<std::unique_ptr<MemoryNodeLink>> links_;
  // Of memtables and background work; the fabrics have their buffers there. Known when there are
  // links.
  int numa_node_ = kNoNumaNode;
  ShardMap map_;
  const Reads reads_;
  std::unique_ptr<MemtableEpochs> epochs_;
  // No publication from this one on names what is freed now. Until the publications are taken over
  // followers may read whatever is given back.
  std::atomic<uint64_t> unnamed_from_{FreeRequest::kPublicationsUnknown};
  LogLevel log_level_ = LogLevel::kNone;  // Is kDefault never.
  // Is null without a log. The shards use it.
  std::unique_ptr<LogReader> replayed_log_;  // Until its entries are in tables.
  std::unique_ptr<WriteLog> log_;
  DurableMarks durable_marks_;  // Of the log.
  std::vector<std::unique_ptr<Shard>> shards_;
  Shard* only_ = nullptr;  // If there is only one.
  std::unique_ptr<BackgroundWorkers> workers_;
  std::unique_ptr<LogKeeper> log_keeper_;
  std::optional<Writer> writer_;
  std::unique_ptr<Publisher> publisher_;  // Null: nothing is published.
};

}  // namespace dlsm
