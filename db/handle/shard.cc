#include "db/handle/shard.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>
#include <vector>

#include "db/background/flush_job.h"
#include "db/merge/merge_policies.h"
#include "db/nodes/compute_range.h"
#include "db/tree/level_shape.h"
#include "port/clock.h"
#include "util/cluster_config.h"
#include "util/deadline.h"
#include "util/fabric/peer_spans.h"
#include "util/memory/memory_pages.h"
#include "util/run_jobs.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Where this process writes by itself it would otherwise be interrupted at every page of fresh
// memory, and flushes are what it writes most.
void MapForWrites(MemoryNodeLink* link, const RemoteSpan& span) {
  QueuePair* queue_pair = nullptr;
  if (!link->queue_pairs().ForThisThread(span.node, &queue_pair).ok()) return;
  char* const data = queue_pair->Direct(span);
  if (data != nullptr) TakePages(data, span.bytes);
}

// What `link`'s memory node says it has of a shard's tables: each has memory there to itself. What
// is given back would else be another table's, too, or of a request that no memory node takes.
Status CheckList(const MemoryNodeLink& link, std::vector<RemoteSpan> spans) {
  const auto refused = [&link](const char* what) {
    return Status::Corruption("malformed list of a shard's tables",
                              "memory node " + link.name() + " names memory in it " + what);
  };
  for (const RemoteSpan& span : spans) {
    if (!CheckSpanOf(link.peer(), span).ok()) return refused("that it does not have");
  }
  std::sort(spans.begin(), spans.end(), [](const RemoteSpan& a, const RemoteSpan& b) {
    return std::tie(a.region, a.offset) < std::tie(b.region, b.offset);
  });
  const auto overlap = [](const RemoteSpan& a, const RemoteSpan& b) {
    return a.region == b.region && b.offset < a.offset + a.bytes;
  };
  const bool twice = std::adjacent_find(spans.begin(), spans.end(), overlap) != spans.end();
  return twice ? refused("of two tables at once") : Status::OK();
}

}  // namespace

Shard::Shard(const ShardContext& context, size_t number, std::vector<ShardNode> nodes)
    : context_(context),
      number_(number),
      nodes_(std::move(nodes)),
      closed_(nodes_.size()),
      manifests_(nodes_[0].session.get()),
      memory_(std::make_shared<PlacedMemory>(PlacementConfig(), Accounts(), context.statistics)),
      tables_(StoreConfig(), &queue_pairs_, memory_, context.statistics),
      gate_(std::chrono::milliseconds(context.options->write_stall_timeout_ms),
            context.statistics) {
  context.fence->Join(&gate_);
  manifests_.SetUnreachable([this](NodeId node) { memory_->NoteSilence(memory_->NumberOf(node)); });
  if (context.memory_budget != nullptr) {
    queue_pairs_.CountBuffers(context.memory_budget->buffer_counter());
  }
  for (const ShardNode& node : nodes_) {
    queue_pairs_.Add(node.link->peer().node, &node.link->queue_pairs());
  }
}

Shard::~Shard() {
  // Views, and with them the tables, go before the memory they would be freed from.
  background_.reset();
  reader_.reset();
  tree_.reset();
  levels_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!closed_[i]) memory_->ReleaseAll(i);
  }
}

size_t Shard::NodeAt(const MemoryNodeLink& link) const {
  size_t i = 0;
  while (i < nodes_.size() && nodes_[i].link != &link) ++i;
  return i;
}

TableStore::Config Shard::StoreConfig() const {
  TableStore::Config config = TableStoreConfigOf(*context_.options, *context_.objects);
  config.value_cache = context_.value_cache;
  config.budget = context_.memory_budget;
  config.table_bytes_limit = TableBytesLimit();
  return config;
}

// Of what a memory node has, an eighth or more is kept for merges
// (memory_node/accounts/database_table.h).
uint64_t Shard::TableBytesLimit() const {
  constexpr uint64_t kPart = 32;
  constexpr uint64_t kLeast = uint64_t{64} << 10;
  uint64_t capacity = UINT64_MAX;
  for (const ShardNode& node : nodes_) capacity = std::min(capacity, CapacityAt(node));
  return std::max(kLeast, capacity / kPart);
}

// Of the database, all of its shards together.
uint64_t Shard::CapacityAt(const ShardNode& node) {
  uint64_t capacity = 0;
  for (const RegionInfo& region : node.link->peer().regions) capacity += region.bytes;
  const uint64_t quota = node.session->quota_bytes();
  return quota > 0 ? std::min(capacity, quota) : capacity;
}

PlacedMemory::Config Shard::PlacementConfig() const {
  PlacedMemory::Config config;
  config.placement = context_.options->placement;
  config.power_of_d = static_cast<size_t>(context_.options->power_of_d);
  config.scatter_width = static_cast<size_t>(context_.options->scatter_width);
  // Handles must not all draw the same nodes.
  config.seed = static_cast<uint64_t>(nodes_[0].session->id());
  return config;
}

std::vector<PlacedMemory::Node> Shard::Accounts() {
  std::vector<PlacedMemory::Node> accounts;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ShardNode& node = nodes_[i];
    PlacedMemory::Node& account = accounts.emplace_back();
    account.id = node.link->peer().node;
    account.rpc = &node.link->rpc();
    for (const RegionInfo& region : node.link->peer().regions) {
      account.capacity_bytes += region.bytes;
    }
    account.account = AccountConfig(node, i);
  }
  return accounts;
}

RemoteMemory::Config Shard::AccountConfig(const ShardNode& node, size_t number) {
  const Options& options = *context_.options;
  // Of what the shards at this memory node have together, an equal part.
  const uint64_t capacity = CapacityAt(node) / node.shards;
  RemoteMemory::Config config;
  config.session = node.session->id();
  config.check_extent = [link = node.link](const RemoteSpan& extent) {
    return CheckSpanOf(link->peer(), extent);
  };
  if (node.link->fabric().kind() == FabricKind::kShm) {
    config.allocated = [link = node.link](const RemoteSpan& span) { MapForWrites(link, span); };
  }
  config.unnamed_from = context_.unnamed_from;
  config.fabric = &node.link->fabric();
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  // A grant serves a few flushes; neither it nor the reserve is large beside the memory node. Both
  // are small for a database that is hardly written to.
  constexpr uint64_t kFirstGrantBytes = uint64_t{256} << 10;
  constexpr uint64_t kFirstReserveBytes = uint64_t{512} << 10;
  constexpr uint64_t kFirstReserveBytesMin = uint64_t{256} << 10;
  config.grant_bytes = std::min<uint64_t>(4 * options.write_buffer_size, capacity / 16);
  config.first_grant_bytes = std::min(kFirstGrantBytes, config.grant_bytes);
  if (number == 0 || options.placement != TablePlacement::kByShard) {
    const uint64_t reserve_wanted = ReserveWanted(node.shards);
    config.reserve_bytes = std::min(reserve_wanted, capacity / 8);
    config.reserve_is_limited = config.reserve_bytes < reserve_wanted;
    config.first_reserve_bytes = std::max(kFirstReserveBytes / node.shards, kFirstReserveBytesMin);
  }
  if (number > 0) {
    config.before_frees = [this, id = node.link->peer().node] {
      return manifests_.BeforeFrees(id);
    };
  }
  return config;
}

// At most, when its memtables are full: room for all memtables of the shard that may be waiting
// when the memory node becomes full, and for as many with deletions after them. One shard may hold
// most of what the handle has. But all shards at a memory node together have no more than four
// times the handle's memtables. Of several memory nodes each has a part of it, of no less than four
// memtables, because a table must fit into one piece.
uint64_t Shard::ReserveWanted(size_t shards_at_node) const {
  const Options& options = *context_.options;
  const size_t memtables_max = static_cast<size_t>(options.max_write_buffer_number);
  const uint64_t wanted = std::min(
      2 * MemtableBudget::MostOfOneShard(options.write_buffer_size, memtables_max, shards_at_node),
      4 * options.write_buffer_size * memtables_max / shards_at_node);
  if (options.placement == TablePlacement::kByShard) return wanted;
  return std::max<uint64_t>(wanted / nodes_.size(), 4 * options.write_buffer_size / shards_at_node);
}

Background::Config Shard::BackgroundConfig() const {
  const Options& options = *context_.options;
  Background::Config config;
  // Where all runs are in level 0, its tables say nothing about merges that are due.
  config.gate.constraint = options.compaction_style == CompactionStyle::kSizeTiered
                               ? ComponentConstraint::kGlobal
                               : options.component_constraint;
  config.gate.level0_merge_trigger = Level0TriggersOf(options).merge;
  config.gate.level0_stop_trigger = Level0TriggersOf(options).stop;
  config.gate.stops_for_components = !options.bulk_load;
  config.gate.components_max = static_cast<size_t>(options.max_components);
  config.gate.slow_down_writes = options.slow_down_writes;
  config.gate.flushes_at_once =
      std::max(config.gate.flushes_at_once, static_cast<size_t>(options.max_background_flushes));
  config.merge.place = options.compaction_place;
  config.merge.table_bytes_max = TableBytesMax(options);
  config.merge.parts_max = static_cast<size_t>(options.max_subcompactions);
  config.merge.filter = options.compaction_filter;
  // They have been taken over, and nothing has been published yet.
  config.publications_from = context_.unnamed_from->load(std::memory_order_acquire);
  std::chrono::milliseconds shortest_lease = nodes_[0].session->lease();
  for (const ShardNode& node : nodes_) {
    shortest_lease = std::min(shortest_lease, node.session->lease());
  }
  config.heartbeat_interval = HeartbeatIntervalFor(shortest_lease);
  config.sleeping_heartbeat_interval = SleepingHeartbeatIntervalFor(shortest_lease);
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  config.patience = std::chrono::milliseconds(options.write_stall_timeout_ms);
  config.read_only = context_.read_only;
  return config;
}

std::vector<MergeNode> Shard::MergeNodes() const {
  std::vector<MergeNode> merge_nodes;
  for (const ShardNode& node : nodes_) {
    MergeNode& made = merge_nodes.emplace_back();
    const FabricPeer& peer = node.link->peer();
    made.session = node.session->id();
    made.rpc = &node.link->rpc();
    made.load = &node.link->merge_load();
    made.as_peer.node = peer.node;
    made.as_peer.boot = peer.boot;
    HostPort address;
    // The embedded memory node has no address, and no others beside it.
    if (!ParseHostPort(node.link->node(), &address).ok()) continue;
    made.as_peer.host = address.host;
    made.as_peer.port = address.port;
  }
  return merge_nodes;
}

Status Shard::Load(const ShardMap& shards) {
  shards_ = shards.count();
  divided_ = shards_ > 1;
  DLSM_RETURN_IF_ERROR(Named(TakeLists()));
  const bool is_new = nodes_[0].session->manifest().empty();
  DLSM_RETURN_IF_ERROR(Named(is_new ? BeginManifest(shards) : DecodeManifest()));
  if (!context_.read_only) ReclaimUnused();
  manifest_.table_nodes.clear();
  if (nodes_.size() == 1) return Status::OK();
  for (const ShardNode& node : nodes_) {
    manifest_.table_nodes.push_back({node.link->peer().node, node.link->node()});
  }
  return Status::OK();
}

// What the manifest does not refer to is given back: so lists must be of its own tables. A memory
// node that it does not record yet has none of them.
Status Shard::TakeLists() {
  Manifest stored;
  const std::string& manifest = nodes_[0].session->manifest();
  if (!manifest.empty()) DLSM_RETURN_IF_ERROR(ManifestCodec::DecodeHeader(manifest, &stored));
  for (size_t i = 1; i < nodes_.size(); ++i) {
    LiveList list;
    const std::string& bytes = nodes_[i].session->manifest();
    if (!bytes.empty()) DLSM_RETURN_IF_ERROR(list.Decode(bytes));
    DLSM_RETURN_IF_ERROR(CheckList(*nodes_[i].link, list.spans));
    const bool recorded =
        std::any_of(stored.table_nodes.begin(), stored.table_nodes.end(),
                    [&](const TableNode& each) { return each.address == nodes_[i].link->node(); });
    if (!recorded && !list.spans.empty()) {
      return Status::InvalidArgument(
          "memory node " + nodes_[i].link->name() + " has tables of another database of this name",
          "name the memory nodes as when each was made, and give only one of them tables there");
    }
    manifests_.AddNode(nodes_[i].link->peer().node, nodes_[i].session.get(), list.spans);
  }
  return Status::OK();
}

// What a handle that was cut short has left on other memory nodes than the home is given back.
void Shard::ReclaimUnused() {
  std::vector<RemoteSpan> live;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) {
      live.push_back(AllocatedSpan(table->meta().image));
    }
  }
  for (const RemoteSpan& span : manifests_.NoteLoaded(live)) memory_->Free(span);
}

Status Shard::CheckTableNodes() const {
  for (const TableNode& recorded : manifest_.table_nodes) {
    for (const ShardNode& node : nodes_) {
      if (node.link->node() != recorded.address || node.link->peer().node == recorded.id) continue;
      return Status::InvalidArgument(
          "memory node " + node.link->name() + " has the number " +
              std::to_string(static_cast<uint32_t>(node.link->peer().node)) + ", tables are on " +
              std::to_string(static_cast<uint32_t>(recorded.id)),
          "name the memory node that has them; if it was restarted, they are lost");
    }
  }
  return Status::OK();
}

void Shard::TakeReplayed(std::unique_ptr<ReplayedEntries> entries, SequenceNumber flushed_below) {
  replayed_ = std::move(entries);
  manifest_.flushed_below = flushed_below;
}

Status Shard::FlushReplayed() {
  const std::unique_ptr<ReplayedEntries> entries = std::move(replayed_);
  if (entries == nullptr || entries->empty()) return Status::OK();
  constexpr uint64_t kPieceBytes = uint64_t{16} << 20;
  const std::vector<Slice> splits = entries->SplitKeys(kPieceBytes);
  std::atomic<uint64_t> next_number{manifest_.next_table_number};
  std::vector<FlushOutcome> outcomes(splits.size() + 1);
  // Nothing is visible yet, so no snapshot needs what is hidden.
  const RangeTombstones replayed(
      context_.comparator, RangeTombstones::Fragments(context_.comparator, /*older=*/nullptr,
                                                      entries->tombstones(), /*snapshots=*/{}));
  const auto flush = [&](size_t i) {
    ReplayedEntries::Piece piece(*entries, i == 0 ? nullptr : &splits[i - 1],
                                 i == splits.size() ? nullptr : &splits[i]);
    return InsistOnRoom([&] {
      piece.Rewind();
      return dlsm::FlushReplayed(
          &piece, &replayed, tables_, PlacedMemory::WhenFull::kRoomForMerges,
          [&next_number] { return next_number.fetch_add(1); }, &outcomes[i]);
    });
  };
  const Status flushed =
      RunJobs(outcomes.size(), ReplayedEntries::kPiecesMax, ReplayedEntries::kNoMemory, flush);
  manifest_.next_table_number = next_number.load();
  DLSM_RETURN_IF_ERROR(flushed);
  VersionEdit edit(1);
  for (FlushOutcome& outcome : outcomes) {
    for (TableRef& table : outcome.tables) edit.levels[0].added.push_back(std::move(table));
  }
  levels_ = Version(context_.comparator, std::move(levels_)).With(edit)->levels();
  const RangeTombstones older(context_.comparator, std::move(manifest_.tombstones));
  manifest_.tombstones = RangeTombstones::Fragments(context_.comparator, &older,
                                                    entries->tombstones(), /*snapshots=*/{});
  return Status::OK();
}

Status Shard::KeepReplayed() {
  const std::unique_ptr<ReplayedEntries> entries = std::move(replayed_);
  if (entries == nullptr || entries->empty()) return Status::OK();
  Memtable& memtable = *tree_->views().Current()->active;
  const auto added = [](bool done) {
    return done ? Status::OK() : Status::IOError(ReplayedEntries::kNoMemory);
  };
  ReplayedEntries::Piece piece(*entries, nullptr, nullptr);
  Slice key;
  Slice value;
  while (piece.Next(&key, &value)) {
    const uint64_t trailer = ExtractTrailer(key);
    DLSM_RETURN_IF_ERROR(added(memtable.Add(TrailerSequence(trailer), TrailerType(trailer),
                                            ExtractUserKey(key), value, /*batched=*/false)));
  }
  for (const RangeTombstone& range : entries->tombstones()) {
    DLSM_RETURN_IF_ERROR(added(memtable.AddRange(range.sequence, range.begin, range.end,
                                                 Tree::CostOfTombstone(range.begin, range.end),
                                                 /*batched=*/false)));
  }
  return Status::OK();
}

// While a database is opened, others' memory may be about to be free: that of a handle whose
// process has died, or of readers whose leases end.
Status Shard::InsistOnRoom(const std::function<Status()>& allocate) const {
  constexpr std::chrono::milliseconds kPause(50);
  const Deadline deadline =
      Deadline::In(std::chrono::milliseconds(context_.options->open_timeout_ms));
  Status status = allocate();
  while (status.IsBusy() && !deadline.Passed()) {
    port::SleepFor(kPause);
    status = allocate();
  }
  return status;
}

Status Shard::AllocateLog(uint64_t bytes, RemoteSpan* span) {
  return AllocateAtHome(bytes, PlacedMemory::WhenFull::kBusy, span);
}

Status Shard::AllocateFirstOfLog(uint64_t bytes, RemoteSpan* span) {
  return InsistOnRoom(
      [&] { return AllocateAtHome(bytes, PlacedMemory::WhenFull::kRoomForMerges, span); });
}

Status Shard::AllocateAtHome(uint64_t bytes, PlacedMemory::WhenFull when_full, RemoteSpan* span) {
  RemoteSpan allocated;
  DLSM_RETURN_IF_ERROR(Named(memory_->Allocate(bytes, when_full, /*order=*/{0}, &allocated)));
  memory_->Shrink(allocated, bytes);
  *span = allocated.Sub(0, bytes);
  return Status::OK();
}

Status Shard::Start(MemtableEpochs* epochs) {
  const Options& options = *context_.options;
  if (!context_.read_only) DLSM_RETURN_IF_ERROR(Named(FlushReplayed()));
  const std::optional<LogRecord> log_before = std::exchange(manifest_.log, own_log_);
  // All shards' memtables together have what one shard's would have (MemtableBudget).
  const size_t share = options.write_buffer_size / shards_;
  const size_t expected = std::min(options.write_buffer_size,
                                   share * static_cast<size_t>(options.max_write_buffer_number));
  tree_.emplace(options.write_buffer_size, context_.comparator, manifest_,
                std::exchange(levels_, {}), &manifests_, epochs, expected, context_.numa_node);
  tree_->SetSnapshots([snapshots = context_.snapshots] { return snapshots->List(); });
  if (log_ != nullptr) tree_->SetLog(log_);
  if (context_.read_only) {
    DLSM_RETURN_IF_ERROR(Named(KeepReplayed()));
  } else {
    DLSM_RETURN_IF_ERROR(Named(tree_->PutManifest()));
    if (log_before.has_value()) {
      for (const RemoteSpan& span : log_before->Spans()) memory_->Free(span);
    }
    // Where there is no room for it, flushes will say so.
    for (size_t i = 0; i < nodes_.size(); ++i) (void)memory_->RefillReserve(i);
  }
  reader_.emplace(&epochs->sequencer(), &queue_pairs_, context_.statistics);
  Background::Parts parts{};
  parts.tree = &*tree_;
  parts.store = &tables_;
  parts.manifests = &manifests_;
  parts.gate = &gate_;
  parts.nodes = MergeNodes();
  parts.snapshots = context_.snapshots;
  parts.scheduler = context_.scheduler;
  parts.budget = context_.budget;
  parts.signal = context_.signal;
  parts.read_merges = context_.read_merges;
  parts.fence = context_.fence;
  parts.callers = context_.callers;
  parts.statistics = context_.statistics;
  parts.writers_wait = context_.writers_wait;
  parts.listeners = context_.listeners;
  parts.number = number_;
  // The log is the session's there: its memory may be others' from now on.
  if (number_ == 0 && log_ != nullptr) {
    parts.home_lost = [log = log_](const Status& status) { log->Fail(status); };
  }
  background_ = std::make_unique<Background>(BackgroundConfig(), parts, NewMergePolicy(options));
  return Status::OK();
}

// What nobody has put a manifest of goes with its session, at the latest when this process dies.
// And with it all followers would: they follow the database at each of its memory nodes, whether or
// not there are tables yet.
Status Shard::BeginLists() {
  for (size_t i = 1; i < nodes_.size(); ++i) {
    MemoryNodeSession& part = *nodes_[i].session;
    if (!part.manifest().empty()) continue;
    const Status put = part.Put(LiveList().Encode(), {});
    if (put.ok()) continue;
    return Named(
        Status::FromCode(put.code(), "memory node " + nodes_[i].link->name() +
                                         ", which may get tables: " + put.message().ToString()));
  }
  return Status::OK();
}

std::string Shard::FilterName() const { return context_.objects->FilterName(); }

Status Shard::BeginManifest(const ShardMap& shards) {
  const Options& options = *context_.options;
  manifest_.comparator_name = options.comparator->Name();
  manifest_.filter_policy_name = FilterName();
  manifest_.shard = static_cast<uint32_t>(number_);
  if (number_ == 0 && divided_) manifest_.shards = shards;
  if (number_ == 0) manifest_.compute_boundaries = options.compute_boundaries;
  return ShapeLevels(context_.comparator, options.compaction_style,
                     static_cast<size_t>(options.num_levels), &levels_);
}

Status Shard::DecodeManifest() {
  const Options& options = *context_.options;
  const std::string comparator_name = options.comparator->Name();
  const std::string filter_name = FilterName();
  // The names come before the tables, which would look damaged to the wrong comparator.
  const auto open_table = [&](const TableMeta& meta, TableRef* table) {
    DLSM_RETURN_IF_ERROR(manifest_.CheckNames(comparator_name, filter_name));
    DLSM_RETURN_IF_ERROR(CheckTableNodes());
    DLSM_RETURN_IF_ERROR(manifests_.CheckTold(AllocatedSpan(meta.image)));
    return tables_.Open(meta, Purpose::kRead, table);
  };
  DLSM_RETURN_IF_ERROR(
      ManifestCodec::Decode(nodes_[0].session->manifest(), open_table, &manifest_, &levels_));
  DLSM_RETURN_IF_ERROR(manifest_.CheckNames(comparator_name, filter_name));
  DLSM_RETURN_IF_ERROR(RangeTombstones::CheckFragments(*options.comparator, manifest_.tombstones));
  if (number_ == 0) {
    DLSM_RETURN_IF_ERROR(
        CheckSameBoundaries(manifest_.compute_boundaries, options.compute_boundaries));
  }
  if (manifest_.shard != number_ || manifest_.divided() != divided_) {
    return Status::Corruption("malformed manifest", "it is another shard's");
  }
  DLSM_RETURN_IF_ERROR(Version(context_.comparator, levels_).CheckInvariants());
  DLSM_RETURN_IF_ERROR(ShapeLevels(context_.comparator, options.compaction_style,
                                   static_cast<size_t>(options.num_levels), &levels_));
  const Version version(context_.comparator, levels_);
  if (version.sequence_max() > manifest_.last_sequence) {
    return Status::Corruption("malformed manifest", "a table is newer than the last write");
  }
  return version.CheckInvariants();
}

Status Shard::PutManifest() { return Named(tree_->PutManifest()); }

Status Shard::CloseAt(const MemoryNodeLink& link) {
  const size_t node = NodeAt(link);
  tree_->views().Reclaim();
  closed_[node] = true;
  memory_->ReleaseAll(node);
  return Named(nodes_[node].session->Close(context_.unnamed_from->load(std::memory_order_acquire)));
}

void Shard::LeaveAt(const MemoryNodeLink& link) {
  const size_t node = NodeAt(link);
  closed_[node] = true;
  nodes_[node].session->Leave();
}

Status Shard::Named(const Status& status) const {
  if (status.ok()) return status;
  // What the fabric says of access that was taken away is not the cause.
  if (status.IsIOError() && context_.fence->raised()) return context_.fence->status();
  if (!divided_) return status;
  return Status::FromCode(status.code(), "shard " + std::to_string(number_) + " on memory node " +
                                             nodes_[0].link->name() + ": " +
                                             status.message().ToString());
}

}  // namespace dlsm
