// Options of a database and of its calls. Names and meanings are LevelDB's where it has them; those
// that concern files are accepted and ignored. What is out of its bounds is an InvalidArgument of
// DB::Open that says what to use; times of more than a week count as a week.
//
// Lifetimes: what plain pointers point to stays the caller's.
//   - A policy from NewBloomFilterPolicy() and a cache from NewLRUCache() may be deleted once
//     Open() has returned: the database has its own copy, or a share. The built-in comparators are
//     never deleted.
//   - A comparator, filter policy or cache of a class of the application's own outlives every
//     database that was opened with it, up to the end of its Close() or, without that, of its
//     destructor. These call it only if something is left to be flushed, or a merge is under way.
//     A cache is not touched at all unless table_format is kBlockBased.
//   - No class of the application's needs run-time type information.
//
// Threads: a comparator or filter policy of the application's own is called by callers' threads,
// and by those of the database: for merges, for flushes of full memtables and of those that nobody
// waits for, for publications, and by a follower to catch up. But Flush(), CompactRange(), a write
// with `sync`, Close() and the destructor do what they wait for in the caller's thread. So their
// caller may hold a lock that the object takes, too, as the lock of an interpreter, if two things
// are so: one thread may take the lock twice; and no other thread is in a call, or does work for
// the database that it has begun before. Such work cannot be cancelled while it is in the object,
// and is waited for: a caller that holds the lock then waits for ever. Where merges may be under
// way, the lock is therefore to be released before Close(). So it is before
// WaitForBackgroundWork(), and before writes that may have to wait for flushes or merges.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/compaction_filter.h"
#include "dLSM/comparator.h"
#include "dLSM/slice.h"

namespace dlsm {

class Cache;
class EventListener;
class FaultInjector;
class NodeConnector;
class FilterPolicy;
class SliceTransform;
class Snapshot;
class Statistics;

enum CompressionType : unsigned char { kNoCompression = 0, kSnappyCompression = 1 };

enum class TableFormat : unsigned char {
  kByteAddressable = 0,  // No blocks: a point lookup fetches exactly one record.
  kBlockBased = 1,       // Blocks of block_size bytes; needed for compression.
};

// The shape of the tree, and what is merged when. A database may be opened with another style than
// before where its tree allows that; where it does not, DB::Open is an InvalidArgument that says
// what to do first.
enum class CompactionStyle : unsigned char {
  kLeveled = 0,  // Partitioned leveling (LevelDB): below level 0, tables of a level are disjoint.
  // A fragmented LSM-tree (FLSM, PebblesDB): a level is divided by key into guards, within which
  // tables overlap, and merges append to the next level's.
  kGuards = 1,
  kLeveledChooseBest = 2,  // kLeveled; the table with the least overlap is merged first.
  kFullLeveling = 3,       // Each level is one sorted run, merged as a whole.
  kTiered = 4,             // Each level collects sorted runs, which become one of the next.
  kSizeTiered = 5,         // HBase: all runs are in level 0; neighbours of like size are merged.
};

// Which merges go on when there are more than may run at a time (Luo & Carey).
enum class MergeSchedule : unsigned char {
  kSingle = 0,     // The oldest alone.
  kFair,           // Whoever has done least.
  kGreedy,         // Whoever has least left.
  kSpringAndGear,  // Whoever is least complete.
};

// What stops writers when merges fall behind.
enum class ComponentConstraint : unsigned char {
  // Tables in level 0: level0_stop_writes_trigger. Not for kSizeTiered, which has kGlobal always.
  kLocal = 0,
  kGlobal = 1,  // Sorted runs that a lookup may have to search, in all levels: max_components.
};

enum class CompactionPlace : unsigned char {
  kMemoryNode = 0,   // Next to the data; only requests and indexes cross the network.
  kComputeNode = 1,  // All data crosses the network, twice.
  // Where it is estimated to be done first, by the load of both sides; the memory node unless that
  // takes clearly longer.
  kAutomatic = 2,
};

// What outlives the process of a handle besides what has been flushed; see doc/durability.md.
enum class LogLevel : unsigned char {
  kNone = 0,  // Nothing.
  // Everything that was written is in a log in the memory of the first shard's memory node, from
  // which the next open brings it back.
  kMemory = 1,
  // The same, and what WriteOptions::sync asks for is in that memory node's files, too: then it
  // outlives a power failure there.
  kDisk = 2,
  // As much as there can be: kDisk where the first shard's memory node has files, kMemory on a
  // Server without, and kNone on an embedded memory node without.
  kDefault = 3,
};

// Which memory nodes a shard's tables are on. May differ from one open to the next: tables that
// there are stay where they are until they are merged, and all memory nodes that may hold some must
// be named.
enum class TablePlacement : unsigned char {
  kByShard = 0,  // On the shard's own memory node.
  // On all that are named, up to 1024, whose numbers (Server's NODEID) must differ then:
  kRoundRobin = 1,  // one after the other;
  kPowerOfD = 2,    // each on the one with the most room of power_of_d drawn at random.
};

struct Options {
  // -------- What the database is. Stored with it; must be the same at every open.
  const Comparator* comparator = BytewiseComparator();

  // How a new database is divided by key range; an existing one stays as it is: 1 and no boundaries
  // then mean what it has, anything else must be what it has. Each shard is a tree of its own; all
  // calls work across them. See doc/sharing.md, "Shards".
  int shards = 1;  // 1 to 256.
  // The keys at which shards 1, 2, ... begin, ascending: one less than shards. None: the first
  // eight bytes of keys are divided evenly, which leaves most shards empty where keys have
  // something in common, such as a prefix or digits only; dlsm_tool split-points finds better ones.
  std::vector<std::string> shard_boundaries;

  // Divides the database among compute nodes: the keys at which the ranges of compute nodes 1, 2,
  // ... begin, ascending, 4096 at most; one less than the config has compute nodes, if it is set.
  // The handle owns the range of compute_node_id, a tree (or `shards`) of its own: Put, Delete,
  // Write and Get of other keys are InvalidArgument naming the owner, iterators see the range. See
  // doc/sharing.md, "Ranges of compute nodes".
  std::vector<std::string> compute_boundaries;

  // -------- How to open.
  bool create_if_missing = false;
  bool error_if_exists = false;
  // How long Open() waits for memory nodes, and for the lease of a handle whose process died.
  uint64_t open_timeout_ms = 10000;

  // Opens a database that another process has open, without waiting for that process or its lease.
  // Its handle can write no more: within a heartbeat (1 s at most) its writes and flushes fail,
  // naming who took over; what it had not flushed is lost. See doc/sharing.md, "Ownership".
  bool take_over = false;

  // -------- Where the tables live.
  // "": embedded if neither `config` nor `memory_nodes` is set, otherwise "shm" where the memory
  // node is on this host and serves it, and this process may map its memory (its Server's user may,
  // and root), else "verbs" where it serves that and this machine has an RDMA device, else "tcp".
  // Or "local", "shm", "tcp", "verbs": that one or an error.
  std::string fabric;
  // For "verbs": a device ("mlx5_0"), a port of it ("mlx5_0:2"), a network interface or an address
  // of this machine; empty: the first active port. Then settings, as in "mlx5_0,mtu=1024,sl=3": see
  // doc/verbs.md.
  std::string rdma_device;
  // Over "tcp": how long a thread that waits for an answer may poll before it sleeps, giving up the
  // processor between looks, and only while answers come in that time; 0: never. A round trip on
  // one host then takes a fraction of the time, for a processor that is busy while it waits. A
  // second at most.
  uint32_t tcp_poll_us = 50;
  // Over "tcp": while more threads wait for answers than the processors can keep up with, small
  // reads go over a connection that the threads share, many in a message. They take turns in
  // serving it before they sleep, not if tcp_poll_us is 0; it has a thread of its own for when they
  // do.
  bool tcp_share_reads = true;
  // What carries calls to the memory node (grants, merges, manifests): "tcp" on any fabric; "verbs"
  // or "ring" where the memory node serves the fabric verbs; empty: tcp. See doc/verbs.md.
  std::string rpc_transport;
  // The path of a connection.conf (see doc/reference.md); empty: none.
  std::string config;
  // Instead of `config`: "host[:port]" of each memory node, separated by commas. Shard i of compute
  // node c is made on memory node (c + i) modulo their number, and found there ever after.
  std::string memory_nodes;
  TablePlacement placement = TablePlacement::kByShard;
  int power_of_d = 2;  // kPowerOfD: how many memory nodes are compared; 1 to 1024.
  // Other placements than kByShard: into how many pieces, each a table on a memory node of its own,
  // what a flush or a merge writes is cut by key range; 1 to 64. More than there are memory nodes
  // count as so many.
  int scatter_width = 1;
  // Which of the config's compute nodes this process is, from 0; a follower's is that of the owner.
  uint32_t compute_node_id = 0;
  // A file with the secret that all nodes of the cluster share, or with that of `access_name`, of
  // 16 characters at least; empty: no secret.
  std::string secret_file;
  // The name of this client in the memory nodes' access files (Server --access_file); empty: it has
  // the cluster's secret, and reaches all databases.
  std::string access_name;
  // TLS 1.3 for calls, and for data over the fabric tcp; data over shm and verbs goes as without.
  // Alone it needs `secret_file`, by which both sides know each other then, and no certificate.
  bool tls = false;
  // With Server --tls_certificate_file: PEM files. Each implies `tls`. The memory node's
  // certificate has to name the host by which it is reached here, and lead to tls_ca_file. The
  // other two are what this client shows where the memory node asks for it.
  std::string tls_ca_file;
  std::string tls_certificate_file;
  std::string tls_key_file;
  // Where the embedded memory node keeps its contents: a directory, which is made if its parent is
  // there. The database outlives the process then, as doc/durability.md says. Several databases, by
  // their names, may be in one directory, and one process at a time has it open: Open is Busy
  // meanwhile, and Corruption, which names the file and what to do, where a file is damaged. If
  // this is empty, the embedded memory node is in memory alone, and ends with the process.
  // InvalidArgument together with memory_nodes or config.
  std::string embedded_dir;
  // The size of the embedded memory node when this process first starts it; 0: three quarters of
  // the machine's memory, or of what control groups (a container's) allow where that is less; with
  // embedded_dir what the directory has, or, if it is new, the size of its disk. Taken only as it
  // is used.
  uint64_t embedded_memory_bytes = 0;
  // How long one operation waits for a memory node before it is TimedOut.
  uint64_t operation_timeout_ms = 10000;

  // The NUMA node on which memtables, transfer buffers and the threads of the handle's background
  // work are: a number from 0 on, kNoNumaNode or kNumaNodeOfDevice. InvalidArgument where this
  // process may not use the memory of such a node, NotSupported where the kernel has no NUMA.
  // Memory comes from other nodes where this one has no more. Not on the node: the application's
  // threads, which write, read and, in Flush(), Close() and the like, also flush; indexes, filters
  // and caches; an embedded memory node. Handles on one node share its threads; those that handles
  // on different nodes share, as for the heartbeats of handles that sleep, are on none. See
  // GetProperty("dlsm.numa").
  int numa_node = kNumaNodeOfDevice;
  static constexpr int kNoNumaNode = -1;  // Wherever the kernel puts them.
  // That of the RDMA device, where the fabric is "verbs" and this process may use that node's
  // memory; else none.
  static constexpr int kNumaNodeOfDevice = -2;

  // -------- The log.
  // InvalidArgument: kMemory and kDisk with an embedded memory node that has no files, for it ends
  // with this process; kDisk where the first shard's memory node has none (Server --data_dir).
  LogLevel log = LogLevel::kDefault;
  // How large the log may become before what it needs longest is flushed; a single write may be as
  // large. 0: twice what the memtables may have; else 256 KiB at least.
  uint64_t log_bytes_max = 0;
  // Where the log's memory node has files, what was written is in them within this time, whatever
  // the level, so a power failure takes no more than that of what was not synced. 0: only what
  // WriteOptions::sync and flushes wait for.
  uint64_t log_sync_interval_ms = 1000;
  // Opens a database whose log is damaged before its end: what lies behind the damage is lost, and
  // the log says how much that is. Otherwise such an open is Corruption.
  bool accept_log_loss = false;

  // -------- Memory and tables.
  // What the handle may use of the compute node's memory: memtables, block cache, value cache,
  // buffers of transfers, and indexes and filters of tables. Where it does not suffice for all of
  // the latter, those of tables that were not read lately are on their memory node only, and
  // reading such a table costs a round trip more. Beyond it: what iterators hold; up to 1 MB, or
  // the last record if that was larger, for each thread that gets and each memory node; and for a
  // moment what reads fetch. Followers do without. 0: as much as it takes; else 64 KiB at least
  // beyond what memtables, value cache and a block cache of the handle's own may take.
  uint64_t memory_budget = 0;
  // Of a cache of records that point reads fetched from byte-addressable tables, for all shards and
  // threads of the handle: what is read often is then answered without the memory node. Reads see
  // what they would see without it. Iterators neither use nor fill it, nor do followers. All of its
  // memory counts, what it takes for itself included; a record takes 16 bytes more than it has.
  // Records of up to a 64th of it are kept, or of 64 KB where that is less; larger ones may not be.
  // 0: none; else 64 KiB to 16 TiB.
  uint64_t value_cache_size = 0;

  size_t write_buffer_size = size_t{64} << 20;  // Of one memtable; 64 KiB to 1 TiB.
  // Memtables, the active one included; 2 to 128. Several shards share as many bytes as that makes,
  // at least 64 KiB for each.
  int max_write_buffer_number = 4;
  size_t max_file_size = size_t{64} << 20;  // Of one table made by a merge; 64 KiB to 2 GiB.
  TableFormat table_format = TableFormat::kByteAddressable;
  size_t block_size = 8192;  // Of block-based tables; 256 bytes to 4 MiB.
  // Of block-based tables: of how many entries one has its whole key; 1 to 1000000.
  int block_restart_interval = 16;
  CompressionType compression = kNoCompression;
  // Used with table_format kBlockBased only; null: one of 8 MB is made.
  Cache* block_cache = nullptr;
  // Null: 10 bits for each key by NewBloomFilterPolicy, or 14 for block-based tables and for
  // ReverseBytewiseComparator, where tables have nothing else to deny a key by. With a comparator
  // of the application's own: none, because the built-in policy goes by bytes, of which keys that
  // such an order finds equal may have different ones; where they never have, it may be set.
  // kNoFilter for none in any case. Stored with the database: one of the same name at every open,
  // or none at any.
  const FilterPolicy* filter_policy = nullptr;
  static const FilterPolicy* const kNoFilter;
  // Verify every checksum on every read, whatever ReadOptions say.
  bool paranoid_checks = false;
  // Tells the prefixes of keys for ReadOptions::prefix_same_as_start. The database shares it. It
  // may be null, and may differ from one open to the next: it is not stored.
  std::shared_ptr<const SliceTransform> prefix_extractor;

  // -------- Merges.
  CompactionStyle compaction_style = CompactionStyle::kGuards;
  // Decides which entries merges drop or change (compaction_filter.h). The database shares it. It
  // may be null, and may differ from one open to the next. CompactRange() then merges every table
  // of its range once.
  std::shared_ptr<const CompactionFilter> compaction_filter;
  CompactionPlace compaction_place = CompactionPlace::kMemoryNode;
  // Of merges on the compute node, and of an embedded memory node, as this process first starts it;
  // a Server has flags for its own. Both can be changed while the database is open, of either side:
  // see DB::SetOptions.
  MergeSchedule merge_scheduler = MergeSchedule::kGreedy;
  uint64_t compaction_bandwidth = 0;  // Bytes of input a second; 0: no limit.
  // At a time, for all shards together; 1 to 64. An embedded memory node merges as many parts at a
  // time as max_background_compactions times max_subcompactions when this process first starts it.
  int max_background_flushes = 2;
  int max_background_compactions = 2;
  int max_subcompactions = 2;  // Parts of one merge that run side by side; 1 to 64.
  // Tables in level 0, times scatter_width: from how many they are merged, 1 at least, and where
  // writers stop, more than those. Not for kSizeTiered.
  int level0_file_num_compaction_trigger = 4;
  int level0_stop_writes_trigger = 24;
  ComponentConstraint component_constraint = ComponentConstraint::kLocal;
  // kGlobal; 0: twice as many as the compaction style makes for where merges keep up. Never less
  // than those and one more.
  int max_components = 0;
  // Neither level 0 nor components stop writers or slow them down: for a database that is filled
  // before it is read. Merges go on beside that. Reads may become slow, and memory for what merges
  // would have dropped stays taken, so what is written in the end takes as long to merge.
  bool bulk_load = false;
  // When there are more runs (or tables in level 0) than expected, or most memtables wait to be
  // flushed, writers are slowed down in proportion to what is left, instead of being stopped.
  bool slow_down_writes = false;
  // Leveled styles: the size of level 1, above 0, and how many times that of the level before each
  // deeper one has, 1 at least. kTiered takes the second as the number of runs in a level that
  // become one of the next, 2 to 1000. kGuards takes the first: see max_tables_per_guard.
  uint64_t max_bytes_for_level_base = uint64_t{256} << 20;
  double max_bytes_for_level_multiplier = 10;
  int num_levels = 7;  // Level 0 included; 2 to 32.
  // kGuards: how many sorted runs a guard may have before it is merged; 2 to 1000. Level 0 is a
  // guard like any other: its own triggers, and max_bytes_for_level_base, count where they are
  // larger than what follows from this and from the size of memtables.
  int max_tables_per_guard = 16;
  // kGuards: trailing zero bits of the hash of a key that may start a guard, 48 at most; 0: as many
  // as make for eight such keys in a table.
  int guard_bits = 0;
  // kGuards: how many percent of the oldest run of a guard of the deepest level the newer ones may
  // have; 1 to 10000.
  int max_size_amplification_percent = 200;
  // kGuards: the same of any guard while nobody writes, for the sake of reads to come; a quarter of
  // the tables that start a merge out of level 0 do then, too. 0: only what reads ask for is merged
  // then. 10000 at most.
  int idle_size_amplification_percent = 4;
  // Writers that wait for memory this long without any progress of flushes get Busy, or the error
  // that is the cause where it does not pass by itself. Flush, WaitForBackgroundWork, CompactRange
  // and Close wait as long for room, and for the process to have memory for the next memtable,
  // whatever the number of shards; for a last publication two leases of followers at most.
  uint64_t write_stall_timeout_ms = 30000;

  // -------- Followers; see doc/sharing.md.
  // How often the owner publishes what was written, which flushes all memtables; so followers lag
  // behind by this and their follow_interval_ms, at least. 0: it does not publish.
  uint64_t publish_interval_ms = 0;
  // How often a follower looks for a new publication by itself; 0: only in DB::TryCatchUp().
  uint64_t follow_interval_ms = 100;

  // -------- Counters; null: the database makes its own, see DB::GetStatistics.
  std::shared_ptr<Statistics> statistics;
  // Told what happens in the background; see event_listener.h. None is null.
  std::vector<std::shared_ptr<EventListener>> listeners;

  // -------- For tests and measurements: a network that this machine does not have.
  uint64_t simulated_rtt_ns = 0;
  double simulated_gbit_per_second = 0;
  // Decides which transfers and calls fail, and which heartbeats of followers; see
  // util/fabric/decorators/fault_injector.h, which like the next one's header is not installed.
  // Without one nothing fails.
  std::shared_ptr<FaultInjector> fault_injector;
  // Makes the connections to the memory nodes, in place of the network: a simulation's; see
  // util/rpc/node_connection.h. Null: the network.
  std::shared_ptr<NodeConnector> node_connector;

  // -------- Accepted for source compatibility, without effect: there are no files.
  int max_open_files = 1000;
  bool reuse_logs = false;
};

// What a read may ask for its answer. (As in RocksDB, without the tiers that are not here.)
enum ReadTier : unsigned char {
  kReadAllTier = 0,
  // Nothing that has to be transferred: memtables, value cache, block cache, and what is known of
  // tables on this compute node; also records where they lie, if the memory node's memory is mapped
  // here (embedded, shm) and no checksum is to be verified.
  kBlockCacheTier = 1,
};

// No deadline, for those below; std::chrono::steady_clock::time_point::max() is none, either.
inline constexpr std::chrono::steady_clock::time_point kNoDeadline{};

struct ReadOptions {
  bool verify_checksums = false;
  // Whether what is read enters the block cache (block-based tables) or the value cache (others).
  bool fill_cache = true;
  // Read as of this snapshot, which must be live; null: as of the call.
  const Snapshot* snapshot = nullptr;
  // Bounds of an iterator: [lower, upper). The slices outlive the iterator.
  const Slice* iterate_lower_bound = nullptr;
  const Slice* iterate_upper_bound = nullptr;
  // An iterator stays within one prefix, as Options::prefix_extractor, which has to be there, tells
  // it: after Seek(target) or SeekForPrev(target) it is valid only at keys with the prefix of
  // `target`, after SeekToFirst() and SeekToLast() with that of the key found there. A target
  // without a prefix does not restrict it. Bounds count, too. In the bytewise order nothing beyond
  // the prefix is read of tables, nor of anything beyond the bounds.
  bool prefix_same_as_start = false;
  // With kBlockCacheTier a read makes no round trip: it is Incomplete where it would need one, and
  // so is the status of an iterator after a move that would. NotFound is as true as without: the
  // filters of all tables may say so.
  ReadTier read_tier = kReadAllTier;
  // When a read gives up: Get, a key of MultiGet, a get of a pipeline, and each move of an iterator
  // is TimedOut that has no answer by then; those from then on are TimedOut at once. A read that is
  // under way over the network is abandoned, which costs its thread the connection: the next read
  // makes another one. Options::operation_timeout_ms holds besides. (As in RocksDB, where it is in
  // microseconds.)
  std::chrono::steady_clock::time_point deadline = kNoDeadline;
};

struct WriteOptions {
  // The write returns once it, and whatever was written before, outlives this process, and with
  // LogLevel::kDisk a power failure. With Options::log it waits for the log. Without, it waits
  // until all of that has been flushed to the memory nodes: such writes cost flushes, which threads
  // that write at once share. An empty batch only waits. Where the write was refused the error is
  // as without `sync`. Where it could only not be flushed, or not be made durable, the error begins
  // "written, but not", and is never Busy: the write is visible, and may outlive this process or
  // not.
  bool sync = false;
  // Busy where the write would have to wait for flushes, merges or room in the log, or to be slowed
  // down. (As in RocksDB, where the code is Incomplete.) A flush that `sync` asks for is waited
  // for.
  bool no_slowdown = false;
  // When a write gives up waiting for flushes, merges, room in the log, or to be slowed down: it is
  // TimedOut then, and nothing of it was written. What `sync` waits for is not part of it.
  std::chrono::steady_clock::time_point deadline = kNoDeadline;
};

struct FlushOptions {
  // False: the flush only begins, or will as soon as fewer memtables from before wait for theirs.
  bool wait = true;
};

}  // namespace dlsm
