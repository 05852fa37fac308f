// Publishes a database for followers, every so often: see publication.h.
//
//   1. A sequence number is taken as a snapshot: what flushes and merges begin to drop from now on,
//      it does not need; and what those under way drop, it does not either.
//   2. All shards flush what was written up to it. So their tables have all of it, perhaps more.
//   3. Each shard's version is taken, and the snapshot released: versions are immutable.
//   4. The image is written into memory of this database; then the header names it.
//   5. The versions of the publication before are let go of. Until then, and until a later one is
//      published, the publisher's references keep every table that the newest publication names.
//
// What is let go of is freed as any table is; the number that is told with it (`unnamed_from`) has
// the memory node keep it while followers may read it.
//
// A publication that was not completed may be visible all the same. It is held like the newest one,
// and nothing else is published before it has been written once more, as it is.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/follow/publication.h"
#include "db/memtable/snapshot.h"
#include "db/nodes/placed_memory.h"
#include "db/tree/tree.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/node_queue_pairs.h"
#include "util/thread_pool.h"

namespace dlsm {

// Takes the publications in the header over when its database is opened, see
// PublicationBoard::TakeOver(), and gives the last one's image back, if it is still there; before
// the session has been granted anything, for the image's memory may not be its own any more. *first
// is the number of the first publication of this session. IOFenced if the session's ownership word
// is not there any more.
Status TakeOverPublications(const RemoteSpan& header, uint64_t ownership_word,
                            NodeQueuePairs* queue_pairs, RpcClient* rpc, SessionId session,
                            std::chrono::nanoseconds timeout, uint64_t* first);

// Thread-safe.
class Publisher {
 public:
  using Clock = port::Clock;

  struct Config {
    RemoteSpan header;
    uint64_t first = 1;  // See TakeOverPublications().
    std::chrono::milliseconds interval{0};
    std::chrono::nanoseconds timeout{};
    // How long Finish() waits for room; no longer than followers can be what it waits for.
    std::chrono::nanoseconds patience{};
    std::chrono::nanoseconds lease{};  // Of followers at the header's memory node.
  };
  // All outlive this.
  struct Parts {
    ThreadPool* pool;
    NodeQueuePairs* queue_pairs;  // To the header's memory node, too.
    PlacedMemory* memory;         // Whose home has the header.
    SnapshotList* snapshots;
    Sequencer* sequencer;
    std::vector<Tree*> trees;  // In the order of shards.
    std::vector<Publication::Place> places;
    std::function<Status()> flush;  // Returns when all that was written has been flushed.
    std::atomic<uint64_t>* unnamed_from;
    Statistics* statistics;
  };
  // Begins at once.
  Publisher(const Config& config, Parts parts);
  ~Publisher() { Stop(); }

  // No more publications on its own account; waits for one that is being made. Idempotent.
  void Stop() { task_.Stop(); }

  // After Stop(), when nothing flushes or merges any more: publishes the end, if everything has
  // been `flushed`, and lets go of all versions. *image is what is to outlive the session for its
  // sake; no bytes: nothing.
  Status Finish(bool flushed, RemoteSpan* image) LOCKS_EXCLUDED(mutex_);

  // For people.
  std::string Describe() const LOCKS_EXCLUDED(state_mutex_);

 private:
  using Versions = std::vector<std::shared_ptr<const Version>>;
  struct Held {
    PublicationSlot slot;
    Versions versions;
  };

  Clock::time_point Run();
  Status Publish(bool flush) LOCKS_EXCLUDED(mutex_);
  // Without a flush; again and again while there is no room.
  Status PublishPatiently() LOCKS_EXCLUDED(mutex_);
  Status PublishLocked(bool flush) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status CompleteLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status WriteImage(const std::string& image, const RemoteSpan& span);
  Status WriteSlot(const PublicationSlot& slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Versions CurrentVersions() const;

  const Config config_;
  const Parts parts_;

  // One publication at a time; held across calls to memory nodes.
  port::Mutex mutex_;
  Held newest_ GUARDED_BY(mutex_);                     // Without versions: not this handle's.
  std::optional<Held> incomplete_ GUARDED_BY(mutex_);  // Perhaps visible.

  mutable port::Mutex state_mutex_;  // What is told. Taken after mutex_.
  uint64_t number_ GUARDED_BY(state_mutex_) = 0;
  SequenceNumber sequence_ GUARDED_BY(state_mutex_) = 0;
  uint64_t image_bytes_ GUARDED_BY(state_mutex_) = 0;
  // Up to when everything that was written has been published.
  Clock::time_point complete_at_ GUARDED_BY(state_mutex_);
  Status last_error_ GUARDED_BY(state_mutex_);

  bool failing_ = false;   // The task's.
  ThreadPool::Task task_;  // Last.
};

}  // namespace dlsm
