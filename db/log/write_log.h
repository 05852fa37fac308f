// The log of a handle, as its writers see it: what makes a write outlive this process.
// (Talos section 3.2, Nova-LSM section 5)
//
//   1. reserve   A write takes a place in the log (Reserve()) before it takes its numbers. A place
//                is only reserved where memory has been granted, so nothing waits behind this step.
//                Whoever has seen a write has a place behind it: a prefix of the log is causally
//                closed.
//   2. fill      When its entries are in their memtables, it writes its frame into its place. A
//                write that was given up leaves a void frame.
//   3. post      Where the log node's memory is mapped into this process, the frame was written
//                there, and nothing is left to do. Elsewhere it was written into a copy of the
//                segment in this process. A writer that waits posts all complete frames behind the
//                last posted one, as one chain of writes, for all: groups form by themselves.
//   4. durable   The log is durable as far as all chains have completed; where memory is mapped, as
//                far as all frames are complete and the database is still this handle's.
//   5. persist   If the log node has files, a call has them take what is durable and not on disk
//                yet (write_log_persist.cc). One call is under way at a time, for all writers that
//                wait. The next call takes what came meanwhile.
//
// The thread that looks after the log (LogKeeper) gives it memory ahead of the writers
// (AddSegment), and takes away what is no longer needed (Truncate). A segment is then used again,
// where there are files not before the disk knows that it is no longer needed: otherwise a reader
// would look for it after a power failure.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/log/log_frame.h"
#include "db/log/log_layout.h"
#include "port/clock.h"
#include "port/cpu.h"
#include "port/mutex.h"
#include "table/internal_key.h"
#include "table/table_reader.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe.
class WriteLog {
  struct Slot {
    // No frame of this thread that is incomplete lies before this position; 0: it has none, else
    // the position + 1.
    std::atomic<uint64_t> from{0};
  };

 public:
  struct Config {
    LogId id{};
    PersistenceId persistence{};  // Of the log node now.
    LogLevel level = LogLevel::kMemory;
    uint64_t segment_bytes = 0;
    // A frame has no more, and segments have no more together, but for one that is spare.
    uint64_t bytes_max = 0;
    RemoteSpan header;                    // kLogHeaderBytes.
    std::string node;                     // For people.
    std::chrono::nanoseconds timeout{};   // Of a chain.
    std::chrono::nanoseconds patience{};  // Of a writer that waits for room.
  };
  struct Parts {
    QueuePairs* queue_pairs = nullptr;  // To the log node.
    Statistics* statistics = nullptr;
    // Whether a write that was given up may still land, see FabricConnection.
    std::function<bool()> may_still_land;
    // Wakes the thread that looks after the log. Called without locks.
    std::function<void()> wake;
    // The word that says whose the database is, as the log's owner has it. It is compared before
    // anything is acknowledged, unless the log node takes the access of a former owner away.
    RemoteSpan word;
    uint64_t mine = 0;
    bool revocable = false;
    // Returns when the log node's files have these spans. Aborted: the files have failed for good.
    // What other errors say may be repeated. Is null where the log node has no files.
    std::function<Status(const std::vector<RemoteSpan>& spans, Deadline deadline)> persist;
  };

  // A place in the log. It is filled, or left void when it is destroyed. Its thread must not block
  // meanwhile: others wait for it.
  class Place {
   public:
    Place() = default;
    ~Place() {
      if (log_ != nullptr) Fill(/*first=*/0, /*count=*/0);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    bool taken() const { return log_ != nullptr; }
    // Where the entries go, see LogFrame.
    char* entries() const { return frame_ + kLogFrameHeaderBytes; }
    // The entries are there.
    void Fill(SequenceNumber first, uint32_t count);
    // Where the frame ends.
    LogPosition end() const { return at_ + bytes_; }

   private:
    friend class WriteLog;
    WriteLog* log_ = nullptr;  // Is null before Reserve() and after Fill().
    Slot* slot_ = nullptr;
    LogPosition at_ = 0;
    uint32_t bytes_ = 0;
    char* frame_ = nullptr;
    std::unique_ptr<char[]> apart_;  // The frame, if it lies in several segments.
    size_t apart_bytes_ = 0;
  };

  // An error is that of the fabric.
  static Status New(const Config& config, Parts parts, std::unique_ptr<WriteLog>* log);
  WriteLog(const WriteLog&) = delete;
  WriteLog& operator=(const WriteLog&) = delete;

  // A place for a frame of `bytes`. It is not taken while the log has no room: then the caller lets
  // go of what it has, calls AwaitRoom(), and begins its write anew. Busy where this process has no
  // memory. InvalidArgument if the frame is too large for the log.
  Status Reserve(uint64_t bytes, Place* place) LOCKS_EXCLUDED(mutex_);
  // Returns when there may be room. Another writer may have taken it. Busy after the deadline, and
  // without `may_wait`.
  Status AwaitRoom(uint64_t bytes, bool may_wait, Deadline deadline) LOCKS_EXCLUDED(mutex_);
  // Of a write that finds no room now.
  Deadline RoomDeadline() const { return Deadline::In(config_.patience); }
  // These wait until the log is as safe as that up to `end`, which has been reserved. TimedOut if
  // it takes longer than Config::timeout.

  // In the log node's memory: it outlives this process.
  Status AwaitDurable(LogPosition end) LOCKS_EXCLUDED(mutex_);
  // In its files, which it has.
  Status AwaitPersisted(LogPosition end) LOCKS_EXCLUDED(mutex_);
  // By the level, as WriteOptions::sync asks for.
  Status AwaitSynced(LogPosition end) LOCKS_EXCLUDED(mutex_) {
    return config_.level == LogLevel::kDisk ? AwaitPersisted(end) : AwaitDurable(end);
  }
  // As a manifest needs it that names what lies before `end`. Tables outlive a power failure, so
  // the log has to as well: otherwise a part of a batch would be in a table and the rest nowhere.
  Status AwaitSafeForManifest(LogPosition end) LOCKS_EXCLUDED(mutex_) {
    return has_files() ? AwaitPersisted(end) : AwaitDurable(end);
  }
  // Everything that was reserved before this call lies before this.
  LogPosition tail() const { return tail_.load(std::memory_order_seq_cst); }
  // Returns when all frames before `end` are complete, if memory is mapped: then the death of this
  // process takes nothing of them. Elsewhere a frame is on its way, and the caller need not wait.
  void AwaitOutlives(LogPosition end) {
    if (mapped_) AwaitComplete(end);
  }
  // All frames before this position are complete.
  LogPosition CompleteUpTo();
  // As far as it is known; elsewhere than in mapped memory that is exact.
  LogPosition durable() const { return durable_.load(std::memory_order_acquire); }
  // The log node's files have everything before this that is still needed.
  LogPosition persisted() const { return persisted_.load(std::memory_order_acquire); }
  // What AwaitSynced() would not wait for.
  LogPosition SyncedUpTo();

  // For the thread that looks after the log.

  // Posts what is complete. OK if there is nothing to post.
  Status Post() LOCKS_EXCLUDED(mutex_);
  bool HasUnposted() { return !mapped_ && CompleteUpTo() > durable(); }
  // Has all that is complete persisted, by a call that begins after this one has begun. Blocks.
  Status Persist() LOCKS_EXCLUDED(mutex_);
  bool HasUnpersisted() { return has_files() && CompleteUpTo() > persisted(); }
  // Whether segments can be used again once the disk knows that they are not needed.
  bool AwaitsPersist() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return !leaving_.empty();
  }
  // Nobody looks after the log from now on: the next write wakes the thread that does.
  void BeginRest() { rests_.store(true, std::memory_order_seq_cst); }
  // Whether writers are about to need another segment.
  bool WantsSegment() const LOCKS_EXCLUDED(mutex_);
  // Whether writers wait for room.
  bool HasWaiters() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return wanted_ > 0;
  }
  // Whether it has segments that may become unnecessary before the next write.
  bool MayShrink() const LOCKS_EXCLUDED(mutex_);
  // Whether the log has as much as it may have: then what it needs longest must be flushed.
  bool full() const LOCKS_EXCLUDED(mutex_);
  // Puts a segment into use again that is no longer needed. False if there is none.
  bool ReuseSegment() LOCKS_EXCLUDED(mutex_);
  // Puts a segment into use. The record of the log must name it before a frame is durable there.
  Status AddSegment(const RemoteSpan& span) LOCKS_EXCLUDED(mutex_);
  // Nothing before `position`, where a frame begins, is needed any more.
  Status Truncate(LogPosition position) LOCKS_EXCLUDED(mutex_);
  // What the log consists of, with these segments besides.
  LogRecord Record(const std::vector<RemoteSpan>& more = {}) const LOCKS_EXCLUDED(mutex_);
  // From now on nobody gets room, and nothing is acknowledged, for this reason.
  void Fail(const Status& why) LOCKS_EXCLUDED(mutex_);

  // Whether frames are written where the log node has them.
  bool mapped() const { return mapped_; }
  // Whether the log node has files.
  bool has_files() const { return parts_.persist != nullptr; }
  uint64_t segment_bytes() const { return config_.segment_bytes; }
  // For people.
  std::string Describe() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Segment {
    uint64_t number = 0;
    RemoteSpan span;
    RegisteredBuffer mirror;  // Where memory is not mapped: header and all.
  };
  // A segment that is no longer needed, which the disk may not know before this persist is done.
  struct Leaving {
    RemoteSpan span;
    uint64_t persist = 0;
  };

  // One thread at a time does each of these, for all writers that wait.
  enum class Step : uint8_t { kPost = 0, kPersist };
  struct Turn {
    bool taken = false;
    uint64_t waiting = 0;  // Writers, now.
    uint64_t waits = 0;    // Of writers, so far.
    // How many waited when a turn was taken: of all turns together, and at most.
    uint64_t served = 0;
    uint64_t largest = 0;
  };

  WriteLog(const Config& config, Parts parts) : config_(config), parts_(std::move(parts)) {}

  bool LiesInOneSegment(LogPosition at, uint64_t bytes) const {
    return at % config_.segment_bytes + bytes <= config_.segment_bytes;
  }
  char* MemoryOf(LogPosition position) const {
    return memory_[position / config_.segment_bytes % kLogSegmentsMax].load(
               std::memory_order_acquire) +
           position % config_.segment_bytes;
  }
  void CopyApart(const Place& place) const;
  void AwaitComplete(LogPosition end);
  // Where memory is mapped; elsewhere that is not known here, and this returns true.
  bool IsMine() const {
    return word_ == nullptr || word_->load(std::memory_order_seq_cst) == parts_.mine;
  }
  static Status NotMine();
  Status AwaitMappedDurable(LogPosition end) LOCKS_EXCLUDED(mutex_);
  // Waits until reached() is true, and takes turns at `work` until it is.
  template <typename Reached, typename Work>
  Status AwaitStep(Step step, const Reached& reached, const Work& work) LOCKS_EXCLUDED(mutex_);
  // Returns true if the caller is to do it. Otherwise reached() is true, or *status tells why it is
  // not.
  template <typename Reached>
  bool TakeTurn(Step step, const Reached& reached, Deadline deadline, Status* status)
      LOCKS_EXCLUDED(mutex_);
  void EndTurn(Step step) LOCKS_EXCLUDED(mutex_);
  // One thread at a time posts: its turn is Step::kPost.
  Status PostChain() LOCKS_EXCLUDED(mutex_);
  // One thread at a time: its turn is Step::kPersist.
  Status PersistOnce(Deadline deadline) LOCKS_EXCLUDED(mutex_);
  std::vector<RemoteSpan> SpansLocked(LogPosition from, LogPosition to) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGoLocked(uint64_t persist) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Turn& TurnLocked(Step step) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return turns_[static_cast<size_t>(step)];
  }
  Status PostFrames(QueuePair* queue_pair, LogPosition from, LogPosition to, Ticket* last)
      LOCKS_EXCLUDED(mutex_);
  Status PutMark(QueuePair* queue_pair, LogMark mark, LogPosition value, Ticket* last);
  Status PutMarkAndWait(LogMark mark, LogPosition value);
  uint64_t HeldBytesLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (segments_.size() + leaving_.size() + spare_.size()) * config_.segment_bytes;
  }
  Status FailureLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status Named(const Status& status) const;

  const Config config_;
  const Parts parts_;
  bool mapped_ = false;
  char* header_ = nullptr;                 // Of the log, where memory is mapped.
  std::atomic<uint64_t>* word_ = nullptr;  // Likewise.
  RegisteredBuffer word_read_;             // Elsewhere, unless access is revocable.
  RegisteredBuffer marks_;                 // Elsewhere: what is being written there.
  // By mark: which of its two turns is next. A mark is written by one thread at a time: that which
  // posts, truncates or persists.
  std::array<size_t, kLogMarkCount> mark_turns_{};

  alignas(port::kCacheLineBytes) std::atomic<LogPosition> tail_{0};
  // There is memory for what lies before this.
  alignas(port::kCacheLineBytes) std::atomic<LogPosition> granted_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> rests_{false};
  std::atomic<LogPosition> durable_{0};
  std::atomic<LogPosition> persisted_{0};
  std::atomic<uint64_t> persists_done_{0};  // The latest that succeeded has this number.
  // Of segment n, behind its header, at n % kLogSegmentsMax.
  std::array<std::atomic<char*>, kLogSegmentsMax> memory_{};
  PerThread<Slot> slots_;

  mutable port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::deque<Segment> segments_ GUARDED_BY(mutex_);   // In use, by number.
  std::vector<Leaving> leaving_ GUARDED_BY(mutex_);   // Soon to be spare; without files none are.
  std::vector<RemoteSpan> spare_ GUARDED_BY(mutex_);  // To be used again.
  uint64_t wanted_ GUARDED_BY(mutex_) = 0;            // By a writer that waits for so much room.
  std::array<Turn, 2> turns_ GUARDED_BY(mutex_);      // By step.
  uint64_t persists_begun_ GUARDED_BY(mutex_) = 0;
  // Of the header that was persisted last: its start, and when.
  LogPosition header_start_ GUARDED_BY(mutex_) = 0;
  port::Clock::time_point header_at_ GUARDED_BY(mutex_);
  LogPosition start_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  uint64_t chains_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
