// A handle that reads a database which another process, or another handle of this one, owns and
// writes. It shows the state at the owner's newest publication that it has caught up with.
//
//   get       publication ──> view ──> version ──> level ──> table reader ──> guarded queue pair
//   rest      a thread that looks for newer publications; one for each memory node's lease
//
// It reads only: no call to a memory node changes anything, and none is needed to catch up.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "db/follow/followed_database.h"
#include "db/nodes/compute_range.h"
#include "db/tree/succession.h"
#include "db/tree/table_defaults.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/merge_scheduler.h"
#include "util/thread_pool.h"

namespace dlsm {

class Follower final : public DB {
 public:
  static Status Open(const Options& options, const std::string& name, std::unique_ptr<DB>* db);
  // In a child of the process that opened the handle nothing is destroyed.
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(Follower* follower, std::destroying_delete_t) {
    port::DestroyHere(follower, follower->opened_by_);
  }
  ~Follower() override;

  Status Close() override;
  Status TryCatchUp() override LOCKS_EXCLUDED(mutex_);

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
  Status WaitForBackgroundWork() override { return CheckOpen(); }
  std::shared_ptr<Statistics> GetStatistics() const override { return statistics_; }

  // All NotSupported.
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status IngestSorted(SortedSource* source, uint64_t* entries) override;
  Status DeleteRange(const WriteOptions& options, const Slice& begin, const Slice& end) override;
  Status Write(const WriteOptions& options, WriteBatch* updates) override;
  Status CompactRange(const Slice* begin, const Slice* end) override;
  Status Flush(const FlushOptions& options) override;
  Status FlushLog(bool sync) override;
  Status WaitDurable(uint64_t sequence) override;
  uint64_t LatestSequence() override { return 0; }
  uint64_t DurableSequence() override { return 0; }
  Status SetOptions(const std::unordered_map<std::string, std::string>& options) override;

 private:
  using Clock = port::Clock;
  using Publications = Succession<FollowedPublication>;

  Follower(const Options& options, const std::string& name);
  FollowerContext Context(const Options& options);
  class Places;

  Status CheckOpen() const;
  // Before a read with these options.
  Status CheckRead(const ReadOptions& options) const;
  Reads ReadsOf(const FollowedPublication& publication) const {
    return Reads(&options_, &comparator_, &publication.map, statistics_);
  }
  // The snapshot's, which has been checked, or the current one.
  FollowedPublicationRef PublicationFor(const ReadOptions& options);
  template <typename Take>
  Status GetAndTake(const ReadOptions& options, const Slice& key, bool pins, const Take& take);
  void MultiGetInto(const ReadOptions& options, std::span<const Slice> keys,
                    const Reads::Values& values, Status* statuses);
  Status CatchUpLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FailsAgain(const Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::time_point Run();
  std::string Describe() LOCKS_EXCLUDED(mutex_);
  std::string Levels(const FollowedPublication& publication) const;

  const port::ProcessMark opened_by_;
  const Options options_;
  const Options reopen_options_;
  const std::string name_;
  const InternalKeyComparator comparator_;
  const ComputeRange range_;
  const std::shared_ptr<Statistics> statistics_;
  const TableObjects objects_;
  const MergeScheduler idle_;
  std::atomic<bool> closed_{false};
  std::unique_ptr<Publications> publications_;  // Null: never opened, or closed.

  // One catch-up at a time; held across calls and transfers.
  port::Mutex mutex_;
  int failures_ GUARDED_BY(mutex_) = 0;  // To catch up through the present connections, in a row.

  mutable port::Mutex state_mutex_;                       // What is told. Taken after mutex_.
  Clock::time_point looked_at_ GUARDED_BY(state_mutex_);  // Last, with success.
  uint64_t reopened_ GUARDED_BY(state_mutex_) = 0;
  Status last_error_ GUARDED_BY(state_mutex_);

  bool began_ = false;    // The task's: the first time is an interval later.
  bool failing_ = false;  // The task's.
  std::shared_ptr<ThreadPool> pool_;
  std::unique_ptr<ThreadPool::Task> catching_up_;  // Null: it is asked to.
};

}  // namespace dlsm
