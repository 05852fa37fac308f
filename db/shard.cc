#include "db/shard.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "db/compute_range.h"
#include "db/level_shape.h"
#include "db/merge_policies.h"
#include "util/status_macros.h"

namespace dlsm {

Shard::Shard(const ShardContext& context, size_t number, size_t at_node, MemoryNodeLink* link,
             std::unique_ptr<MemoryNodeSession> session)
    : context_(context),
      number_(number),
      at_node_(at_node),
      link_(link),
      session_(std::move(session)),
      memory_(RemoteMemoryConfig(), &link->rpc(), context.statistics),
      tables_(TableStoreConfig(), &queue_pairs_, &memory_, context.statistics),
      gate_(std::chrono::milliseconds(context.options->write_stall_timeout_ms),
            context.statistics) {
  context.fence->Join(&gate_);
  queue_pairs_.Add(link->peer().node, &link->queue_pairs());
}

Shard::~Shard() {
  // Views, and with them the tables, go before the memory they would be freed from.
  background_.reset();
  reader_.reset();
  tree_.reset();
  levels_.clear();
  if (!closed_) memory_.ReleaseAll();
}

TableStore::Config Shard::TableStoreConfig() const {
  const Options& options = *context_.options;
  TableStore::Config config;
  config.table.format = options.table_format;
  config.table.comparator = options.comparator;
  config.table.filter_policy = context_.filter_policy;
  config.table.block_bytes = options.block_size;
  config.table.restart_interval = options.block_restart_interval;
  config.table.compression = options.compression;
  config.comparator = context_.comparator;
  config.node = link_->peer().node;
  config.block_cache = context_.block_cache;
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  return config;
}

RemoteMemory::Config Shard::RemoteMemoryConfig() const {
  const Options& options = *context_.options;
  uint64_t capacity = 0;
  for (const RegionInfo& region : link_->peer().regions) capacity += region.bytes;
  if (session_->quota_bytes() > 0) capacity = std::min(capacity, session_->quota_bytes());
  // Of what the shards at this memory node have together, an equal part.
  capacity /= at_node_;
  RemoteMemory::Config config;
  config.session = session_->id();
  config.unnamed_from = context_.unnamed_from;
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  // A grant serves a few flushes; neither it nor the reserve is large beside the memory node.
  config.grant_bytes = std::min<uint64_t>(4 * options.write_buffer_size, capacity / 16);
  // Room for all memtables that may be waiting when the memory node becomes full, and for as many
  // with deletions after them.
  config.reserve_bytes = std::min<uint64_t>(static_cast<uint64_t>(options.max_write_buffer_number) *
                                                options.write_buffer_size * 2 / at_node_,
                                            capacity / 8);
  return config;
}

Background::Config Shard::BackgroundConfig() const {
  const Options& options = *context_.options;
  Background::Config config;
  // Where all runs are in level 0, its tables say nothing about merges that are due.
  config.constraint = options.compaction_style == CompactionStyle::kSizeTiered
                          ? ComponentConstraint::kGlobal
                          : options.component_constraint;
  config.level0_merge_trigger = Level0TriggersOf(options).merge;
  config.level0_stop_trigger = Level0TriggersOf(options).stop;
  config.components_max = static_cast<size_t>(options.max_components);
  config.slow_down_writes = options.slow_down_writes;
  config.merge.place = options.compaction_place;
  config.merge.table_bytes_max = options.max_file_size;
  config.merge.parts_max = static_cast<size_t>(options.max_subcompactions);
  config.merge.session = session_->id();
  // Nothing has been published yet.
  config.publications_from = context_.unnamed_from->load(std::memory_order_acquire);
  config.heartbeat_interval =
      std::clamp(session_->lease() / 4, std::chrono::milliseconds(20), kHeartbeatIntervalMax);
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  return config;
}

Status Shard::Load(const ShardMap& shards) {
  divided_ = shards.count() > 1;
  return Named(DecodeManifest(shards));
}

Status Shard::Start(MemtableEpochs* epochs) {
  const Options& options = *context_.options;
  tree_.emplace(options.write_buffer_size, context_.comparator, manifest_,
                std::exchange(levels_, {}), session_.get(), epochs);
  DLSM_RETURN_IF_ERROR(Named(tree_->PutManifest()));
  (void)memory_.RefillReserve();  // Where there is no room for it, flushes will say so.
  reader_.emplace(&epochs->sequencer(), &queue_pairs_, context_.statistics);
  Background::Parts parts{};
  parts.tree = &*tree_;
  parts.store = &tables_;
  parts.gate = &gate_;
  parts.rpc = &link_->rpc();
  parts.merge_load = &link_->merge_load();
  parts.snapshots = context_.snapshots;
  parts.scheduler = context_.scheduler;
  parts.budget = context_.budget;
  parts.signal = context_.signal;
  parts.fence = context_.fence;
  parts.statistics = context_.statistics;
  background_ = std::make_unique<Background>(BackgroundConfig(), parts, NewMergePolicy(options));
  return Status::OK();
}

Status Shard::DecodeManifest(const ShardMap& shards) {
  const Options& options = *context_.options;
  Manifest* const manifest = &manifest_;
  std::vector<Level>* const levels = &levels_;
  const std::string comparator_name = options.comparator->Name();
  const std::string filter_name =
      context_.filter_policy == nullptr ? "" : context_.filter_policy->Name();
  if (session_->manifest().empty()) {
    manifest->comparator_name = comparator_name;
    manifest->filter_policy_name = filter_name;
    manifest->shard = static_cast<uint32_t>(number_);
    if (number_ == 0 && divided_) manifest->shards = shards;
    if (number_ == 0) manifest->compute_boundaries = options.compute_boundaries;
    return ShapeLevels(context_.comparator, options.compaction_style,
                       static_cast<size_t>(options.num_levels), levels);
  }
  // The names come before the tables, which would look damaged to the wrong comparator.
  const auto open_table = [&](const TableMeta& meta, TableRef* table) {
    DLSM_RETURN_IF_ERROR(manifest->CheckNames(comparator_name, filter_name));
    return tables_.Open(meta, Purpose::kRead, table);
  };
  DLSM_RETURN_IF_ERROR(ManifestCodec::Decode(session_->manifest(), open_table, manifest, levels));
  DLSM_RETURN_IF_ERROR(manifest->CheckNames(comparator_name, filter_name));
  if (number_ == 0) {
    DLSM_RETURN_IF_ERROR(
        CheckSameBoundaries(manifest->compute_boundaries, options.compute_boundaries));
  }
  if (manifest->shard != number_ || manifest->divided() != divided_) {
    return Status::Corruption("malformed manifest", "it is another shard's");
  }
  DLSM_RETURN_IF_ERROR(Version(context_.comparator, *levels).CheckInvariants());
  DLSM_RETURN_IF_ERROR(ShapeLevels(context_.comparator, options.compaction_style,
                                   static_cast<size_t>(options.num_levels), levels));
  const Version version(context_.comparator, *levels);
  if (version.sequence_max() > manifest->last_sequence) {
    return Status::Corruption("malformed manifest", "a table is newer than the last write");
  }
  return version.CheckInvariants();
}

Status Shard::Close(bool put_manifest) {
  closed_ = true;
  Status status = put_manifest ? tree_->PutManifest() : Status::OK();
  background_.reset();
  reader_.reset();
  tree_.reset();
  levels_.clear();
  memory_.ReleaseAll();
  Status ended = session_->Close();
  if (status.ok()) status = std::move(ended);
  return Named(status);
}

Status Shard::Named(const Status& status) const {
  if (status.ok()) return status;
  // What the fabric says of access that was taken away is not the cause.
  if (status.IsIOError() && context_.fence->raised()) return context_.fence->status();
  if (!divided_) return status;
  return Status::FromCode(status.code(), "shard " + std::to_string(number_) + " on memory node " +
                                             link_->name() + ": " + status.message().ToString());
}

}  // namespace dlsm
