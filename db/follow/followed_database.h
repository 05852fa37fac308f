// What a follower reads: one publication of a database, and the readers at the memory nodes thanks
// to which it stays where it is.
//
//   FollowedDatabase     connections and readers, until the lease at one of the memory nodes ends;
//                        then another one takes its place.
//   FollowedPublication  one publication, opened: what reads, iterators and snapshots hold. While
//                        it lives, its number is told to the memory nodes as one in use.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/follow/followed_node.h"
#include "db/follow/publication.h"
#include "db/read/point_reader.h"
#include "db/read/reads.h"
#include "db/tree/manifest.h"
#include "db/tree/read_view.h"
#include "db/tree/table_defaults.h"
#include "db/tree/table_store.h"
#include "port/mutex.h"
#include "table/node_queue_pairs.h"
#include "util/fabric/decorators/guarded_fabric.h"

namespace dlsm {

class FollowedDatabase;

struct FollowedPublication : std::enable_shared_from_this<FollowedPublication> {
  explicit FollowedPublication(std::shared_ptr<FollowedDatabase> of) : database(std::move(of)) {}
  ~FollowedPublication();
  FollowedPublication(const FollowedPublication&) = delete;
  FollowedPublication& operator=(const FollowedPublication&) = delete;

  Reads::Source SourceOf(size_t shard) const;
  std::vector<ShardView> ViewsOf(const std::vector<size_t>& shards) const;

  const std::shared_ptr<FollowedDatabase> database;
  uint64_t number = 0;
  SequenceNumber sequence = 0;
  ShardMap map;
  std::vector<std::shared_ptr<const ReadView>> views;  // By shard; without memtables.
};

using FollowedPublicationRef = std::shared_ptr<const FollowedPublication>;

// What a follower's handle has for it. All outlives it.
struct FollowerContext {
  const Options* options;
  std::string name;
  InternalKeyComparator comparator;
  const TableObjects* objects;
  Statistics* statistics;
  const MergeScheduler* idle;  // Without merges.
};

// One thread at a time opens and catches up; the rest is thread-safe.
class FollowedDatabase : public std::enable_shared_from_this<FollowedDatabase>,
                         public TransferGuard {
 public:
  // Waits until `deadline` for a publication.
  static Status Open(const FollowerContext& context, Deadline deadline,
                     FollowedPublicationRef* publication);
  ~FollowedDatabase() override;

  // Sets *newest to the newest publication, unless that is `current`. Busy if it cannot be read.
  // *elsewhere: it needs memory nodes or databases that are not followed yet, so the database is to
  // be opened once more.
  Status CatchUp(const FollowedPublication& current, FollowedPublicationRef* newest,
                 bool* elsewhere);

  // Nothing of it is used any more.
  void Close();

  // TimedOut once the lease at a memory node has ended. Also to be asked where nothing was
  // transferred: what a filter or a cache says is of a state that may be long gone.
  Status Check() const override;
  std::chrono::nanoseconds lease_left() const;
  uint64_t OldestInUse() const LOCKS_EXCLUDED(mutex_);
  size_t publications_in_use() const LOCKS_EXCLUDED(mutex_);
  std::vector<MemoryNodeLink*> links() const;
  const PointReader& reader() const { return reader_; }
  NodeQueuePairs& queue_pairs() { return queue_pairs_; }

 private:
  friend struct FollowedPublication;

  explicit FollowedDatabase(const FollowerContext& context);
  Status OpenHome();
  Status AddNode(std::unique_ptr<FollowedNode> node);
  Status TryOpen(FollowedPublicationRef* publication);
  Status ReadNumber(uint64_t* number);
  // NotFound where that publication has no image, Busy where it is not whole (any more).
  Status ReadImage(uint64_t number, Publication* publication);
  bool Covers(const Publication& publication) const;
  Status Cover(const Publication& publication);
  FollowedNode* NodeOf(NodeId id) const;
  // `before` may be null.
  Status OpenPublication(const Publication& publication, const FollowedPublication* before,
                         FollowedPublicationRef* opened);
  Status CheckManifest(const Manifest& manifest, size_t shard, size_t shards) const;
  void BeginUse(uint64_t number) LOCKS_EXCLUDED(mutex_);
  void EndUse(uint64_t number) LOCKS_EXCLUDED(mutex_);

  const FollowerContext context_;
  std::vector<std::unique_ptr<FollowedNode>> nodes_;  // The first has the header.
  NodeQueuePairs queue_pairs_;
  Sequencer sequencer_{0};  // Of no writes.
  const TableStore tables_;
  const PointReader reader_;
  const std::shared_ptr<Memtable> no_memtable_;

  mutable port::Mutex mutex_;
  std::multiset<uint64_t> in_use_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
