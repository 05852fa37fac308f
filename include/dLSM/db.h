// A database: an ordered map from keys to values, whose tables live in the memory of memory nodes.
// Keys and values are arbitrary bytes, empty ones included, of at most kKeyBytesMax and
// kValueBytesMax.
//
// All methods are thread-safe. A null pointer that has no meaning, or a snapshot of another DB, is
// an InvalidArgument; where there is no Status, nothing is done, and what there is to return is
// false or 0.
// A process may run out of memory. A call that lacks memory for something large returns an IOError,
// unless it says otherwise below: for a memtable's block, the index of a table, the buffers of
// reads, a value. Work in the background that lacks it is tried again. If a small allocation fails,
// in a call or in the background, the process ends: one line on standard error that begins with
// "dlsm: out of memory", then abort().
// Sources: dLSM (Wang et al., ICDE 2023) for the system, LevelDB and RocksDB for the interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/version.h"  // IWYU pragma: export

namespace dlsm {

// Values of up to 64 MiB work, with keys of up to 1 MiB.
inline constexpr size_t kValueBytesMax = size_t{64} << 20;
inline constexpr size_t kKeyBytesMax = size_t{1} << 20;

inline constexpr size_t kGetPipelineDepthMax = 4096;

class DB;
class GetPipeline;
class PinnableSlice;
class SortedSource;
class Statistics;
class WriteBatch;

// The state of a database at one moment. Made and released by a DB.
class Snapshot {
 protected:
  Snapshot() = default;
  explicit Snapshot(const DB* owner) : owner_(owner) {}
  virtual ~Snapshot() = default;

 private:
  friend bool IsSnapshotOf(const Snapshot* snapshot, const DB* db);
  const DB* const owner_ = nullptr;
};

// Keys in [start, limit).
struct Range {
  Range() = default;
  Range(const Slice& first, const Slice& end) : start(first), limit(end) {}
  Slice start;
  Slice limit;
};

// A handle, and what comes from it, belongs to the process that opened it. In a child that fork()
// makes every call is an InvalidArgument, or does nothing where it returns no Status, and what is
// deleted stays in memory until the child ends.
class DB {
 public:
  // Opens the database `name` on the memory nodes that `options` name, or on the memory node inside
  // this process if they name none. On success *db is the caller's to delete, else null. A name has
  // 1 to 960 bytes, and no '#': that is how memory nodes' names of its shards and ranges go on.
  // Memory nodes are named in the order in which they were when the database was made: what is
  // found on the first one decides whether it exists.
  //   InvalidArgument   an option or the name cannot be; there is no such database, without
  //                     create_if_missing; there is one, with error_if_exists; or it is not made
  //                     because another of the memory nodes has a database of that name, or parts
  //                     of one where it would have parts
  //   Busy              another handle has it open; not with take_over
  //   TimedOut          the process of that handle has died, and its lease does not end in time
  // And what may happen to any call: IOError where a memory node cannot be reached or used.
  static Status Open(const Options& options, const std::string& name, DB** db);
  static Status Open(const Options& options, const std::string& name, std::unique_ptr<DB>* db);

  // A handle that only reads a database which somebody else owns, has opened with
  // Options::publish_interval_ms, and may be writing. It shows the state that was published last,
  // as of one moment in all shards, and goes on to newer ones by itself, without any call to the
  // memory nodes; what would change the database is NotSupported. The options name the memory nodes
  // and compute_node_id as the owner's do. Waits for a publication up to options.open_timeout_ms;
  // NotFound at once if there is no such database. See doc/sharing.md, "Followers".
  static Status OpenFollower(const Options& options, const std::string& name, DB** db);
  static Status OpenFollower(const Options& options, const std::string& name,
                             std::unique_ptr<DB>* db);

  // A handle that only reads a database that no other handle has open, in the state that was
  // durable last: what is in its log only is in memory here, as what Open() brings back. Nothing of
  // the database changes: nothing is flushed, merged or published, no manifest is put, and the log
  // stays as it is for the next Open(). What would change it is NotSupported. The handle owns the
  // database meanwhile, as one of Open() would, and keeps its lease: that is how its tables stay.
  // So others' Open(), OpenForReadOnly() too, is Busy, and this is Busy while another has it open:
  // OpenFollower() reads beside an owner. The memory of this process has to suffice for the log.
  // InvalidArgument where there is no such database, and with take_over.
  static Status OpenForReadOnly(const Options& options, const std::string& name, DB** db);
  static Status OpenForReadOnly(const Options& options, const std::string& name,
                                std::unique_ptr<DB>* db);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  // Closes if Close() was not called; what fails then is only logged.
  virtual ~DB() = default;

  // Flushes all memtables and leaves the database at its memory nodes, to be opened again from any
  // process. Work under way in the background is waited for, or cancelled where it can be
  // (options.h: comparators that take locks). No other call may be under way; iterators, snapshots
  // and pinned values are released before. Every later call fails. The database is closed even if
  // an error is returned: Busy where the process has no memory for the flush.
  virtual Status Close() = 0;

  // A write that waits too long for flushes or merges is Busy, or has the code of the error that
  // keeps them from getting on where that does not pass by itself: IOError, Corruption,
  // InvalidArgument, NotSupported. One for which the process has no memory is Busy, too. A key or a
  // value that is too long is an InvalidArgument. In all these cases nothing of it was written; see
  // WriteOptions::sync for the one in which it was.
  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // Not an error if the key does not exist.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  // Deletes all keys in [begin, end), at the price of one write, however many there are. Nothing is
  // an error about keys that do not exist; InvalidArgument if `end` comes before `begin`. Merges
  // drop what is deleted, and tables with nothing else as a whole. Until then iterators pass over
  // it, and each such range is kept in the memory of this process and in the manifest: Busy where
  // there are too many of them whose entries are still in tables (8 MiB of bounds in a shard).
  virtual Status DeleteRange(const WriteOptions& options, const Slice& begin, const Slice& end) = 0;
  // All of the batch becomes visible at once, or none. While it is being inserted NewIterator(),
  // MultiGet() and GetSnapshot() of all threads wait, a quarter of a microsecond for each entry;
  // who has millions of them writes several batches.
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;
  // Loads a sorted stream: its entries become tables without passing memtables and log. They may
  // overlap what is there. In each shard all of them have one place among the writes, a moment
  // during the call: what was written before is older, what is written after is newer. Snapshots
  // and iterators from before do not change. Those made later, and MultiGet(), see all of the
  // entries in the shard or none; Get() may not see them before the call returns. Then they are as
  // safe as what was flushed. Streams that are ingested at the same time become visible in the
  // order in which the calls began. Readers and writers go on meanwhile; in the end making an
  // iterator or a snapshot, and MultiGet(), wait for a flush of what was written last, or, if that
  // fails, for the end of the call. Followers see the entries with the
  // next publication. The source may use the database, but ingest nothing. *entries, which may be
  // null, gets their number.
  //   InvalidArgument   a key is not behind the one before; a key or a value is too long; a key is
  //                     another compute node's. The error names the entry.
  //   Busy              the memory nodes have no room, flushes and merges do not get on, or there
  //                     were more than a thousand million writes beside it
  // And the error of the source. Nothing is visible after an error, but where it says which shards
  // have their entries.
  virtual Status IngestSorted(SortedSource* source, uint64_t* entries) = 0;

  // NotFound if the key does not exist. What *value was before may be the key.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;
  // Without a copy where the fabric allows it: the bytes stay where they are until *value is reset.
  virtual Status Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) = 0;
  // As of one moment; the reads of all keys are on the wire together. (*values)[i] and the i-th
  // Status belong to keys[i]. No key lies in what is in *values before.
  virtual std::vector<Status> MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                                       std::vector<std::string>* values) = 0;
  // The same without a copy where the fabric allows it. values[i] and statuses[i] belong to
  // keys[i], `count` of each; what they were before is lost, and no key lies there.
  virtual void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                        PinnableSlice* values, Status* statuses) = 0;

  // For gets that overlap, up to `depth` at a time (1 to kGetPipelineDepthMax; what is beyond
  // counts as that). A snapshot in `options` is released after the pipeline. See get_pipeline.h.
  virtual std::unique_ptr<GetPipeline> NewGetPipeline(const ReadOptions& options, size_t depth) = 0;

  // As of this call, or of options.snapshot. Not positioned; the caller deletes it before the
  // database. After a move that lacks memory for what it reads the iterator is not Valid(), its
  // status() is an IOError, and the caller makes another one.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  // The database as of this call, for ReadOptions::snapshot; null after Close(). Merges keep what
  // it sees until it is released, which is to be before Close() and may be by any thread.
  virtual const Snapshot* GetSnapshot() = 0;
  // Null is allowed; what another DB has made stays that one's.
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // False, and *value is empty, if there is no such property. doc/reference.md lists them:
  // "dlsm.stats", ... Those that memory nodes know wait up to five seconds for one that hangs.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // The same of a property whose value is one number; false for any other.
  bool GetIntProperty(const Slice& property, uint64_t* value);

  // sizes[i], for each i < n, gets about how many bytes of remote memory the keys of range[i] take;
  // what is still in memtables is not counted. For each sorted run of tables that may be one key
  // too few or too many, or one block of a block-based table; it is 0 only where no table has a key
  // of the range. With Options::memory_budget the indexes that this needs are fetched, which takes
  // a while.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;

  // Merges all tables that overlap [*begin, *end] down to one level, dropping what no one can see
  // any more, as what was kept for snapshots that have been released. Null: before the first, after
  // the last key. What is written meanwhile is not part of it. A shard in which the flush that it
  // begins with or one of its merges fails is left as far as it has come, the others are merged all
  // the same, and the first error is returned. A merge that finds no room is Busy. The first time
  // after an open, what has been merged before may be written anew, for it may hold what snapshots
  // of the handle before had kept.
  virtual Status CompactRange(const Slice* begin, const Slice* end) = 0;

  // Writes the memtables out to tables. Busy if the process has no memory for the next ones.
  virtual Status Flush(const FlushOptions& options) = 0;

  // Durability: of what was written without WriteOptions::sync, by any thread. A write is as safe
  // as Options::log says when these return OK. TimedOut where that takes longer than
  // Options::operation_timeout_ms: what was written is there all the same, and may be safe. IOError
  // where the log's memory node is lost or cannot write its files. NotSupported by a follower.

  // Has all that was written before the call outlive this process, over any fabric. With `sync` it
  // waits until all of that is as safe as a synced write. Without a log that is a Flush(); without
  // `sync` nothing is done then.
  virtual Status FlushLog(bool sync) = 0;
  // Waits until all writes with numbers up to this one are as safe as a synced write.
  // InvalidArgument if there is no such number yet.
  virtual Status WaitDurable(uint64_t sequence) = 0;
  // Numbers of writes: each entry of a batch has one, and later writes have larger ones.

  // That of the last entry so far. So WaitDurable() with it waits for everything that this thread
  // has written. 0 after Close(), and of a follower.
  virtual uint64_t LatestSequence() = 0;
  // The largest number of which this handle knows that all writes up to it are as safe as a synced
  // write. It grows from call to call, and lags behind what is safe by a call at most as long as
  // somebody asks as often as Options::log_sync_interval_ms. 0 after Close(), and of a follower.
  virtual uint64_t DurableSequence() = 0;

  // Returns when no flush and no merge is running or due, nor one for reads to come that takes
  // place while nobody writes (Options::idle_size_amplification_percent); or the error that keeps
  // those that are due from it.
  virtual Status WaitForBackgroundWork() = 0;

  // Changes options while the database is open, until it is closed; names and values as text. All
  // of them or, with an InvalidArgument for one that is unknown or out of range, none. None if a
  // memory node fails, either, unless one that may have taken them cannot be told to go back: the
  // error names those, and the same call may be made again.
  //   merge_scheduler, compaction_bandwidth    as in Options, of merges on this compute node
  //   memory_node_merge_scheduler,             of the memory node: for the merges of all databases
  //   memory_node_compaction_bandwidth         on it, and until they are changed again
  //   max_level0_tables_per_merge              leveled styles and guards: the oldest so many tables
  //                                            at a time; 0: all. For measuring what is sustained:
  //                                            CompactRange takes all the same
  // Schedules are single, fair, greedy and spring_and_gear. Merges under way follow at once.
  virtual Status SetOptions(const std::unordered_map<std::string, std::string>& options) = 0;

  // Of a follower: goes on to the newest publication. If it was cut off from a memory node for
  // longer than the lease that it has there, it begins anew; iterators and snapshots from before
  // return TimedOut. OK, and nothing is done, for an owner.
  virtual Status TryCatchUp() { return Status::OK(); }

  // Those of the options, or the database's own where they had none; never null.
  virtual std::shared_ptr<Statistics> GetStatistics() const = 0;
};

// Deletes the database and gives its memory back. OK if there is none. Busy while it is open, or
// made; TimedOut for some seconds after the process that had it open has died: unlike Open(), this
// does not wait for the end of its lease. The options name its memory nodes, in the order in which
// they were named when it was made: if its first shard, without which it does not exist, is on
// another of them, InvalidArgument says so. If that is on none of them, it was lost with its memory
// node, and what the others still have of the database is removed; but not what somebody who makes
// it meanwhile has come to use, which is an InvalidArgument or Busy. The same is returned, and the
// new one is left whole, if others have destroyed the database and made it anew meanwhile.
Status DestroyDB(const std::string& name, const Options& options);

}  // namespace dlsm
