// Opening, closing and destroying databases.

#include <algorithm>
#include <string>
#include <utility>

#include "db/db_impl.h"
#include "db/level_shape.h"
#include "db/merge_policies.h"
#include "util/bloom_filter.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kDefaultBlockCacheBytes = size_t{8} << 20;
// A miss then costs a round trip in less than one of a hundred tables that it asks, several of
// which overlap.
constexpr int kDefaultBloomBits = 14;

Status Refuse(const std::string& option, const std::string& remedy) {
  return Status::InvalidArgument("Options::" + option, remedy);
}

Status CheckOptions(const Options& options) {
  if (options.comparator == nullptr) return Refuse("comparator is null", "leave it as it is");
  if (options.write_buffer_size < (size_t{64} << 10)) {
    return Refuse("write_buffer_size is too small", "use at least 64 KiB");
  }
  if (options.max_write_buffer_number < 2 || options.max_write_buffer_number > 128) {
    return Refuse("max_write_buffer_number is out of range", "use 2 to 128");
  }
  if (options.max_file_size < (size_t{64} << 10) || options.max_file_size > (size_t{2} << 30)) {
    return Refuse("max_file_size is out of range", "use 64 KiB to 2 GiB");
  }
  if (options.block_size < 256 || options.block_size > (size_t{4} << 20)) {
    return Refuse("block_size is out of range", "use 256 bytes to 4 MiB");
  }
  if (options.block_restart_interval < 1) {
    return Refuse("block_restart_interval is less than 1", "use 16");
  }
  if (options.table_format != TableFormat::kByteAddressable &&
      options.table_format != TableFormat::kBlockBased) {
    return Refuse("table_format is unknown", "use kByteAddressable or kBlockBased");
  }
  if (options.compaction_style > CompactionStyle::kSizeTiered) {
    return Refuse("compaction_style is unknown", "use one of CompactionStyle");
  }
  if (options.max_tables_per_guard < 2 || options.max_tables_per_guard > 1000) {
    return Refuse("max_tables_per_guard is out of range", "use 2 to 1000");
  }
  if (options.guard_bits < 0 || options.guard_bits > 48) {
    return Refuse("guard_bits is out of range", "use 0 to 48");
  }
  if (options.max_size_amplification_percent < 1 ||
      options.max_size_amplification_percent > 10000) {
    return Refuse("max_size_amplification_percent is out of range", "use 1 to 10000");
  }
  if (options.compaction_place > CompactionPlace::kAutomatic) {
    return Refuse("compaction_place is unknown", "use kMemoryNode, kComputeNode or kAutomatic");
  }
  if (MergeScheduleName(options.merge_scheduler) == std::string("unknown")) {
    return Refuse("merge_scheduler is unknown", "use kSingle, kFair, kGreedy or kSpringAndGear");
  }
  if (options.compression != kNoCompression && options.compression != kSnappyCompression) {
    return Refuse("compression is unknown", "use kNoCompression or kSnappyCompression");
  }
  if (options.compression != kNoCompression &&
      options.table_format == TableFormat::kByteAddressable) {
    return Refuse("compression needs blocks", "set table_format to kBlockBased");
  }
  if (options.max_background_flushes < 1 || options.max_background_flushes > 64 ||
      options.max_background_compactions < 1 || options.max_background_compactions > 64 ||
      options.max_subcompactions < 1 || options.max_subcompactions > 64) {
    return Refuse("number of background threads is out of range", "use 1 to 64");
  }
  if (options.num_levels < 2 || options.num_levels > 32) {
    return Refuse("num_levels is out of range", "use 2 to 32");
  }
  if (options.level0_file_num_compaction_trigger < 1 ||
      options.level0_stop_writes_trigger <= options.level0_file_num_compaction_trigger) {
    return Refuse("level0_stop_writes_trigger is not above level0_file_num_compaction_trigger",
                  "raise it");
  }
  if (options.component_constraint > ComponentConstraint::kGlobal || options.max_components < 0) {
    return Refuse("component_constraint is unknown or max_components is negative",
                  "use kLocal or kGlobal, and 0 for twice the expected number");
  }
  if (options.max_bytes_for_level_base == 0 || !(options.max_bytes_for_level_multiplier >= 1)) {
    return Refuse("max_bytes_for_level_base or _multiplier is too small",
                  "use a size above 0 and a multiplier of at least 1");
  }
  return Status::OK();
}

// "For ever" is a week: any longer, and points in time no longer fit where they are calculated.
Options WithFiniteTimeouts(Options options) {
  constexpr uint64_t kTimeoutMsMax = uint64_t{7} * 24 * 3600 * 1000;
  for (uint64_t* timeout :
       {&options.open_timeout_ms, &options.operation_timeout_ms, &options.write_stall_timeout_ms}) {
    *timeout = std::min(*timeout, kTimeoutMsMax);
  }
  return options;
}

Status CheckName(const std::string& name) {
  if (name.empty()) return Status::InvalidArgument("the database has no name", "give it one");
  if (name.size() > 4096) return Status::InvalidArgument("the database's name exceeds 4096 bytes");
  return Status::OK();
}

}  // namespace

Status DB::Open(const Options& options, const std::string& name, std::unique_ptr<DB>* db) {
  return DbImpl::Open(options, name, db);
}

Status DB::Open(const Options& options, const std::string& name, DB** db) {
  *db = nullptr;
  std::unique_ptr<DB> opened;
  DLSM_RETURN_IF_ERROR(DbImpl::Open(options, name, &opened));
  *db = opened.release();
  return Status::OK();
}

Status DestroyDB(const std::string& name, const Options& requested) {
  DLSM_RETURN_IF_ERROR(CheckName(name));
  const Options options = WithFiniteTimeouts(requested);
  std::unique_ptr<NodeConnection> connection;
  DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, &connection));
  DestroyDatabaseRequest request;
  request.name = name;
  std::string reply;
  const Status status =
      connection->rpc().Call(Method::kDestroyDatabase, request.Encode(), &reply,
                             Deadline::In(std::chrono::milliseconds(options.operation_timeout_ms)));
  return status.IsNotFound() ? Status::OK() : status;
}

DbImpl::DbImpl(const Options& options, const std::string& name,
               std::unique_ptr<MemoryNodeSession> session)
    : options_(options),
      name_(name),
      comparator_(options.comparator),
      statistics_(options.statistics != nullptr ? options.statistics : CreateStatistics()),
      session_(std::move(session)),
      gate_(std::chrono::milliseconds(options.write_stall_timeout_ms), statistics_.get()) {
  if (options_.filter_policy == nullptr) {
    own_filter_policy_.reset(NewBloomFilterPolicy(kDefaultBloomBits));
    filter_policy_ = own_filter_policy_.get();
  } else if (options_.filter_policy != Options::kNoFilter) {
    filter_policy_ = options_.filter_policy;
  }
  if (options_.block_cache == nullptr && options_.table_format == TableFormat::kBlockBased) {
    own_block_cache_.reset(NewLRUCache(kDefaultBlockCacheBytes));
  }
}

Status DbImpl::Open(const Options& requested, const std::string& name, std::unique_ptr<DB>* db) {
  db->reset();
  const Options options = WithFiniteTimeouts(requested);
  DLSM_RETURN_IF_ERROR(CheckName(name));
  DLSM_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<MemoryNodeSession> session;
  DLSM_RETURN_IF_ERROR(MemoryNodeSession::Open(options, name, &session));
  std::unique_ptr<DbImpl> opened(new DbImpl(options, name, std::move(session)));
  DLSM_RETURN_IF_ERROR(opened->Start());
  *db = std::move(opened);
  return Status::OK();
}

TableStore::Config DbImpl::TableStoreConfig() const {
  TableStore::Config config;
  config.table.format = options_.table_format;
  config.table.comparator = options_.comparator;
  config.table.filter_policy = filter_policy_;
  config.table.block_bytes = options_.block_size;
  config.table.restart_interval = options_.block_restart_interval;
  config.table.compression = options_.compression;
  config.comparator = comparator_;
  config.node = session_->connection().peer().node;
  config.block_cache = own_block_cache_ != nullptr ? own_block_cache_.get() : options_.block_cache;
  config.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  return config;
}

RemoteMemory::Config DbImpl::RemoteMemoryConfig() const {
  uint64_t capacity = 0;
  for (const RegionInfo& region : session_->connection().peer().regions) capacity += region.bytes;
  RemoteMemory::Config config;
  config.session = session_->id();
  config.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  // A grant serves a few flushes; neither it nor the reserve is large beside the memory node.
  config.grant_bytes = std::min<uint64_t>(4 * options_.write_buffer_size, capacity / 16);
  // Room for all memtables that may be waiting when the memory node becomes full, and for as many
  // with deletions after them.
  config.reserve_bytes = std::min<uint64_t>(
      static_cast<uint64_t>(options_.max_write_buffer_number) * options_.write_buffer_size * 2,
      capacity / 8);
  return config;
}

Background::Config DbImpl::BackgroundConfig() const {
  Background::Config config;
  config.flush_threads = options_.max_background_flushes;
  config.merge_threads = options_.max_background_compactions;
  config.constraint = options_.component_constraint;
  config.level0_merge_trigger = Level0TriggersOf(options_).merge;
  config.level0_stop_trigger = Level0TriggersOf(options_).stop;
  config.components_max = static_cast<size_t>(options_.max_components);
  config.slow_down_writes = options_.slow_down_writes;
  config.memtable_bytes = options_.write_buffer_size;
  config.memtables_max = static_cast<size_t>(options_.max_write_buffer_number);
  config.merge.place = options_.compaction_place;
  config.schedule.schedule = options_.merge_scheduler;
  config.schedule.running_max = static_cast<size_t>(options_.max_background_compactions) *
                                static_cast<size_t>(options_.max_subcompactions);
  config.schedule.bytes_per_second = options_.compaction_bandwidth;
  config.merge.table_bytes_max = options_.max_file_size;
  config.merge.parts_max = static_cast<size_t>(options_.max_subcompactions);
  config.merge.session = session_->id();
  config.heartbeat_interval = std::clamp(session_->lease() / 4, std::chrono::milliseconds(20),
                                         std::chrono::milliseconds(1000));
  config.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  return config;
}

Status DbImpl::Start() {
  FabricConnection& fabric = session_->connection().fabric();
  const auto timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  queue_pairs_ =
      std::make_unique<ThreadQueuePairs>(&fabric, &session_->connection().rpc(), timeout);
  memory_ = std::make_unique<RemoteMemory>(RemoteMemoryConfig(), &session_->connection().rpc(),
                                           statistics_.get());
  tables_ = std::make_unique<TableStore>(TableStoreConfig(), queue_pairs_.get(), memory_.get(),
                                         statistics_.get());
  Manifest manifest;
  std::vector<Level> levels;
  DLSM_RETURN_IF_ERROR(DecodeManifest(&manifest, &levels));
  Tree::Config tree_config;
  tree_config.memtable_bytes = options_.write_buffer_size;
  tree_config.memtables_max = static_cast<size_t>(options_.max_write_buffer_number);
  tree_ =
      std::make_unique<Tree>(tree_config, comparator_, manifest, std::move(levels), session_.get());
  DLSM_RETURN_IF_ERROR(tree_->PutManifest());
  (void)memory_->RefillReserve();  // Where there is no room for it, flushes will say so.
  point_reader_ =
      std::make_unique<PointReader>(&tree_->sequencer(), queue_pairs_.get(), statistics_.get());
  background_ = std::make_unique<Background>(BackgroundConfig(), tree_.get(), tables_.get(),
                                             NewMergePolicy(options_), &snapshots_, &gate_,
                                             &session_->connection().rpc(), statistics_.get());
  return Status::OK();
}

Status DbImpl::DecodeManifest(Manifest* manifest, std::vector<Level>* levels) {
  const std::string comparator_name = options_.comparator->Name();
  const std::string filter_name = filter_policy_ == nullptr ? "" : filter_policy_->Name();
  if (session_->manifest().empty()) {
    manifest->comparator_name = comparator_name;
    manifest->filter_policy_name = filter_name;
    return ShapeLevels(comparator_, options_.compaction_style,
                       static_cast<size_t>(options_.num_levels), levels);
  }
  const auto check_names = [&]() {
    if (manifest->comparator_name != comparator_name) {
      return Status::InvalidArgument(
          "the database is ordered by comparator " + manifest->comparator_name,
          "the options name " + comparator_name + ": open it with its own");
    }
    if (manifest->filter_policy_name != filter_name) {
      return Status::InvalidArgument(
          "the database's tables have filter policy \"" + manifest->filter_policy_name + "\"",
          "the options name \"" + filter_name + "\": open it with its own");
    }
    return Status::OK();
  };
  // The names come before the tables, which would look damaged to the wrong comparator.
  const auto open_table = [&](const TableMeta& meta, TableRef* table) {
    DLSM_RETURN_IF_ERROR(check_names());
    return tables_->Open(meta, Purpose::kRead, table);
  };
  DLSM_RETURN_IF_ERROR(ManifestCodec::Decode(session_->manifest(), open_table, manifest, levels));
  DLSM_RETURN_IF_ERROR(check_names());
  DLSM_RETURN_IF_ERROR(Version(comparator_, *levels).CheckInvariants());
  DLSM_RETURN_IF_ERROR(ShapeLevels(comparator_, options_.compaction_style,
                                   static_cast<size_t>(options_.num_levels), levels));
  const Version version(comparator_, *levels);
  if (version.sequence_max() > manifest->last_sequence) {
    return Status::Corruption("malformed manifest", "a table is newer than the last write");
  }
  return version.CheckInvariants();
}

Status DbImpl::Close() {
  if (closed_.exchange(true, std::memory_order_acq_rel)) return Status::OK();
  Status status = background_ == nullptr ? Status::OK() : background_->Flush(/*wait=*/true);
  if (background_ != nullptr) {
    background_->Stop();
    if (status.ok()) status = tree_->PutManifest();
  }
  // Views, and with them the tables, go before the memory they would be freed from.
  background_.reset();
  point_reader_.reset();
  tree_.reset();
  if (memory_ != nullptr) memory_->ReleaseAll();
  queue_pairs_.reset();
  if (session_ != nullptr) {
    Status ended = session_->Close();
    if (status.ok()) status = std::move(ended);
  }
  return status;
}

DbImpl::~DbImpl() {
  const Status status = Close();
  if (!status.ok()) {
    Log().error("closing database \"{}\": what was not flushed is lost: {}", name_,
                status.ToString());
  }
}

}  // namespace dlsm
