// Opening databases.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "db/handle/check_options.h"
#include "db/handle/db_impl.h"
#include "db/handle/node_parts.h"
#include "db/handle/table_nodes.h"
#include "db/nodes/part_sessions.h"
#include "db/nodes/session_keeper.h"
#include "db/nodes/sleeping_sessions.h"
#include "port/allocation_point.h"
#include "table/merge_messages.h"
#include "util/cache/value_cache.h"
#include "util/null_argument.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

MergeSchedulerOptions ScheduleOf(const Options& options) {
  MergeSchedulerOptions schedule;
  schedule.schedule = options.merge_scheduler;
  schedule.running_max = static_cast<size_t>(options.max_background_compactions) *
                         static_cast<size_t>(options.max_subcompactions);
  schedule.bytes_per_second = options.compaction_bandwidth;
  return schedule;
}

// That of the first memory node whose fabric has one: all that have one have the same, for they go
// through one device, or by Options::numa_node.
int NumaNodeOf(const std::vector<std::unique_ptr<MemoryNodeLink>>& links) {
  for (const auto& link : links) {
    const int node = link->fabric().numa_node();
    if (node != kNoNumaNode) return node;
  }
  return kNoNumaNode;
}

}  // namespace

Status DB::Open(const Options& options, const std::string& name, std::unique_ptr<DB>* db) {
  if (db == nullptr) return NullArgument("db");
  return WithinMemory([&] {
    port::AllocationPoint("open");
    return DbImpl::Open(options, name, DbImpl::Access::kAll, db);
  });
}

Status DB::OpenForReadOnly(const Options& options, const std::string& name,
                           std::unique_ptr<DB>* db) {
  if (db == nullptr) return NullArgument("db");
  db->reset();
  if (options.take_over) {
    return Status::InvalidArgument("a handle that only reads takes nothing over",
                                   "leave take_over out, or read beside the owner: OpenFollower");
  }
  Options reading = options;
  reading.create_if_missing = false;
  reading.error_if_exists = false;
  const Status opened = WithinMemory([&] {
    port::AllocationPoint("open");
    return DbImpl::Open(reading, name, DbImpl::Access::kReadOnly, db);
  });
  if (!opened.IsBusy()) return opened;
  return Status::Busy(opened.message(),
                      "to read beside its owner, have it publish and use OpenFollower");
}

Status DB::OpenForReadOnly(const Options& options, const std::string& name, DB** db) {
  if (db == nullptr) return NullArgument("db");
  *db = nullptr;
  std::unique_ptr<DB> opened;
  DLSM_RETURN_IF_ERROR(DB::OpenForReadOnly(options, name, &opened));
  *db = opened.release();
  return Status::OK();
}

Status DB::Open(const Options& options, const std::string& name, DB** db) {
  if (db == nullptr) return NullArgument("db");
  *db = nullptr;
  std::unique_ptr<DB> opened;
  DLSM_RETURN_IF_ERROR(DB::Open(options, name, &opened));
  *db = opened.release();
  return Status::OK();
}

DbImpl::DbImpl(const Options& options, const std::string& name, Access access)
    : options_(options),
      name_(name),
      access_(access),
      comparator_(options.comparator),
      range_(options),
      statistics_(options.statistics != nullptr ? options.statistics : CreateStatistics()),
      listeners_(options.listeners, name_.substr(0, name_.find('#'))),
      objects_(TableObjects::For(options)),
      memory_budget_(MemoryBudget::For(options, objects_.block_cache.get())),
      scheduler_(ScheduleOf(options)),
      budget_(options.write_buffer_size, static_cast<size_t>(options.max_write_buffer_number)),
      callers_(!MergeRequest::CanShip(TableStoreConfigOf(options, objects_).table), &signal_),
      reads_(&options_, &comparator_, &map_, statistics_) {}

Status DbImpl::Open(const Options& requested, const std::string& name, Access access,
                    std::unique_ptr<DB>* db) {
  db->reset();
  Options options = WithFiniteTimeouts(requested);
  DLSM_RETURN_IF_ERROR(CheckName(name));
  DLSM_RETURN_IF_ERROR(CheckOptions(options));
  DLSM_RETURN_IF_ERROR(FitScatterWidth(&options));
  std::unique_ptr<DbImpl> opened(new DbImpl(options, NameAtMemoryNodes(options, name), access));
  if (options.value_cache_size > 0) {
    DLSM_RETURN_IF_ERROR(ValueCache::New(options.value_cache_size, &opened->value_cache_));
  }
  DLSM_RETURN_IF_ERROR(StartingThreads([&opened]() -> Status {
    // On which NUMA node the handle is may follow from its links.
    const std::shared_ptr<ThreadPool> while_opening = ThreadPool::OfThisProcess();
    SessionKeeper keeper(while_opening.get());
    const Status shards = opened->OpenShards(&keeper);
    if (!shards.ok()) return shards;
    opened->pool_ = ThreadPool::OfThisProcess(opened->numa_node_);
    return opened->StartShards();
  }));
  *db = std::move(opened);
  return Status::OK();
}

Status DbImpl::CheckMayChange() const {
  if (!read_only()) [[likely]]
    return Status::OK();
  return Status::NotSupported("this handle only reads the database",
                              "open the database with DB::Open() to change it");
}

ShardContext DbImpl::Context() {
  return {&options_,
          read_only(),
          comparator_,
          &objects_,
          value_cache_,
          memory_budget_,
          statistics_.get(),
          &snapshots_,
          &scheduler_,
          &budget_,
          &signal_,
          &read_merges_,
          &fence_,
          &callers_,
          &listeners_,
          numa_node_,
          &unnamed_from_,
          [this] {
            return std::any_of(shards_.begin(), shards_.end(),
                               [](const auto& shard) { return shard->gate().closed(); });
          }};
}

Status DbImpl::LinkTo(const std::string& node, MemoryNodeLink** link) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&node](const auto& each) { return each->node() == node; });
  if (found == links_.end()) {
    std::unique_ptr<MemoryNodeLink> made;
    DLSM_RETURN_IF_ERROR(MemoryNodeLink::Open(options_, node, &scheduler_, &made));
    links_.push_back(std::move(made));
    *link = links_.back().get();
  } else {
    *link = found->get();
  }
  return Status::OK();
}

// Opens the sessions of all shards, the first one first: its manifest has the map.
Status DbImpl::OpenShards(SessionKeeper* keeper) {
  std::vector<std::string> nodes;
  DLSM_RETURN_IF_ERROR(MemoryNodesOf(options_, &nodes));
  if (options_.placement != TablePlacement::kByShard && nodes.size() > Manifest::kNodesMax) {
    // Their list is in the manifest, of which the next open would make nothing.
    return Status::InvalidArgument(
        "tables cannot be placed on " + std::to_string(nodes.size()) + " memory nodes",
        "name at most " + std::to_string(Manifest::kNodesMax) + ", or set placement to kByShard");
  }
  const std::string& home = nodes[options_.compute_node_id % nodes.size()];
  MemoryNodeLink* link;
  DLSM_RETURN_IF_ERROR(LinkTo(home, &link));
  if (!read_only()) DLSM_RETURN_IF_ERROR(ChooseLogLevel(home, *link));
  std::vector<std::unique_ptr<MemoryNodeSession>> sessions(1);
  DLSM_RETURN_IF_ERROR(OpenFirstShard(options_, name_, link, keeper, &sessions[0]));
  const bool is_new = sessions[0]->manifest().empty();
  if (is_new) {
    DLSM_RETURN_IF_ERROR(ShardMap::FromOptions(options_, nodes, &map_));
  } else {
    std::vector<TableNode> table_nodes;  // Each shard's manifest has its own, see below.
    DLSM_RETURN_IF_ERROR(ReadMap(sessions[0]->manifest(), home, &map_, &table_nodes));
    DLSM_RETURN_IF_ERROR(map_.CheckAgainst(options_, nodes));
  }
  DLSM_RETURN_IF_ERROR(MemtableBudget::Check(options_.write_buffer_size,
                                             static_cast<size_t>(options_.max_write_buffer_number),
                                             map_.count()));
  if (is_new) DLSM_RETURN_IF_ERROR(CheckNothingIsLost(nodes));
  DLSM_RETURN_IF_ERROR(OpenOthers(is_new, keeper, &sessions));
  std::vector<std::vector<ShardNode>> shards;
  DLSM_RETURN_IF_ERROR(OpenTableNodes(nodes, is_new, std::move(sessions), keeper, &shards));
  numa_node_ = NumaNodeOf(links_);
  for (auto& shard : shards) {
    shards_.push_back(std::make_unique<Shard>(Context(), shards_.size(), std::move(shard)));
  }
  if (map_.count() == 1) only_ = shards_.front().get();
  return Status::OK();
}

// Where parts of a new database are destroyed before they are made. Memory nodes that are named in
// another order than when it was made would be those of another database, and what was written into
// that seem to be lost.
Status DbImpl::CheckNothingIsLost(const std::vector<std::string>& named) {
  std::vector<std::string> nodes = map_.nodes;
  if (options_.placement != TablePlacement::kByShard) {
    nodes.insert(nodes.end(), named.begin(), named.end());
  }
  std::vector<MemoryNodeLink*> used;
  for (const std::string& node : nodes) {
    MemoryNodeLink* link;
    DLSM_RETURN_IF_ERROR(LinkTo(node, &link));
    if (std::find(used.begin(), used.end(), link) == used.end()) used.push_back(link);
  }
  if (map_.count() == 1 && used.size() == 1) {
    return CheckNoNamesake(options_, name_, *used.front(), named);
  }
  return CheckNoOther(options_, name_, used, named);
}

// A new database exists as soon as its first shard has a manifest, which comes last. What others
// there are before was left behind by an attempt to make it, or to destroy it, that was cut short
// (CheckNothingIsLost).
Status DbImpl::OpenOthers(bool is_new, SessionKeeper* keeper,
                          std::vector<std::unique_ptr<MemoryNodeSession>>* sessions) {
  Options options = options_;
  options.create_if_missing = is_new;
  options.error_if_exists = is_new;
  const MemoryNodeSession& first = *sessions->front();
  for (size_t i = 1; i < map_.count(); ++i) {
    const std::string name = ShardName(name_, i);
    MemoryNodeLink* link;
    DLSM_RETURN_IF_ERROR(LinkTo(map_.nodes[i], &link));
    Status opened;
    if (is_new) opened = DestroyLeftover(options, {name, {}}, &link->rpc());
    std::unique_ptr<MemoryNodeSession>& session = sessions->emplace_back();
    if (opened.ok()) opened = OpenPart(options, name, link, first, keeper, &session);
    if (opened.ok()) continue;
    return Status::FromCode(opened.code(), "shard " + std::to_string(i) + " on memory node " +
                                               link->name() + ": " + opened.message().ToString());
  }
  return Status::OK();
}

// Each shard's home, and the other memory nodes that its tables are on or may go to.
Status DbImpl::OpenTableNodes(const std::vector<std::string>& named, bool is_new,
                              std::vector<std::unique_ptr<MemoryNodeSession>> homes,
                              SessionKeeper* keeper, std::vector<std::vector<ShardNode>>* shards) {
  const MemoryNodeSession& first = *homes.front();
  for (size_t i = 0; i < homes.size(); ++i) {
    std::vector<ShardNode>& nodes = shards->emplace_back();
    MemoryNodeLink* link;
    DLSM_RETURN_IF_ERROR(LinkTo(map_.nodes[i], &link));
    std::vector<std::string> others;
    DLSM_RETURN_IF_ERROR(
        OtherTableNodes(options_, named, map_.nodes[i], homes[i]->manifest(), &others));
    nodes.push_back(ShardNode{link, std::move(homes[i])});
    for (const std::string& other : others) {
      DLSM_RETURN_IF_ERROR(OpenTableNode(other, i, is_new, first, keeper, &nodes));
    }
    std::vector<const MemoryNodeLink*> links;
    links.reserve(nodes.size());
    for (const ShardNode& node : nodes) links.push_back(node.link);
    DLSM_RETURN_IF_ERROR(CheckDistinct(links));
  }
  for (const auto& link : links_) {
    size_t sessions = 0;
    const auto for_each = [&](const auto& visit) {
      for (std::vector<ShardNode>& nodes : *shards) {
        for (ShardNode& node : nodes) {
          if (node.link == link.get()) visit(&node);
        }
      }
    };
    for_each([&sessions](ShardNode*) { ++sessions; });
    for_each([&sessions](ShardNode* node) { node->shards = sessions; });
  }
  return Status::OK();
}

// What an attempt to make or to destroy the database has left there is nobody's if it is new; else
// the shard gives back what its manifest does not refer to.
Status DbImpl::OpenTableNode(const std::string& node, size_t shard, bool is_new,
                             const MemoryNodeSession& first, SessionKeeper* keeper,
                             std::vector<ShardNode>* nodes) {
  Options options = options_;
  options.create_if_missing = true;
  options.error_if_exists = false;
  const std::string name = ShardTablesName(name_, shard);
  MemoryNodeLink* link;
  DLSM_RETURN_IF_ERROR(LinkTo(node, &link));
  std::unique_ptr<MemoryNodeSession> session;
  Status opened;
  if (is_new) opened = DestroyLeftover(options, {name, {}}, &link->rpc());
  if (opened.ok()) opened = OpenPart(options, name, link, first, keeper, &session);
  if (!opened.ok()) {
    return Status::FromCode(
        opened.code(),
        "memory node " + link->name() + ", which may hold tables: " + opened.message().ToString());
  }
  nodes->push_back(ShardNode{link, std::move(session)});
  return Status::OK();
}

Status DbImpl::BeginLists() {
  for (const auto& shard : shards_) DLSM_RETURN_IF_ERROR(shard->BeginLists());
  return Status::OK();
}

Status DbImpl::StartShards() {
  SequenceNumber last = 0;
  for (const auto& shard : shards_) {
    DLSM_RETURN_IF_ERROR(shard->Load(map_));
    last = std::max(last, shard->last_sequence());
  }
  DLSM_RETURN_IF_ERROR(map_.CheckOrder(*options_.comparator));
  DLSM_RETURN_IF_ERROR(ReplayLog(&last));
  epochs_ = std::make_unique<MemtableEpochs>(last);
  if (!read_only()) {
    DLSM_RETURN_IF_ERROR(TakePublications());
    DLSM_RETURN_IF_ERROR(CreateLog());
  }
  // Lists at memory nodes that have none yet: of a database that exists, before its manifests name
  // those, lest it be tied to one that takes no list; of a new one, when its home has taken it.
  const bool is_new = shards_.front()->session().manifest().empty();
  if (!is_new && !read_only()) DLSM_RETURN_IF_ERROR(BeginLists());
  for (auto shard = shards_.rbegin(); shard != shards_.rend(); ++shard) {
    DLSM_RETURN_IF_ERROR((*shard)->Start(epochs_.get()));
  }
  replayed_log_.reset();
  if (is_new) {
    DLSM_RETURN_IF_ERROR(NoteMade());
    DLSM_RETURN_IF_ERROR(BeginLists());
  }
  std::vector<Tree*> trees;
  std::vector<Background*> backgrounds;
  for (const auto& shard : shards_) {
    trees.push_back(&shard->tree());
    backgrounds.push_back(&shard->background());
  }
  std::vector<BackgroundWorkers::House> houses;
  for (const auto& link : links_) {
    BackgroundWorkers::House& house = houses.emplace_back();
    house.node = link->node();
    house.rpc = &link->rpc();
    house.merge_load = &link->merge_load();
    for (const auto& shard : shards_) {
      const size_t node = shard->NodeAt(*link);
      if (node < shard->nodes()) house.shards.push_back({&shard->background(), node});
    }
    house.sleeping = SleepingSessions::Of(
        options_, link->node(), house.shards.front().shard->sleeping_heartbeat_interval());
  }
  budget_.Share(std::move(trees));
  for (const auto& shard : shards_) {
    if (read_only()) {
      shard->gate().Refuse(CheckMayChange());
      shard->background().EndThreads();
    } else {
      shard->background().LookAtMemtable();
    }
  }
  BackgroundWorkers::Config config;
  config.flush_threads = options_.max_background_flushes;
  config.merge_threads = options_.max_background_compactions;
  BackgroundWorkers::Parts parts{};
  parts.pool = pool_.get();
  parts.shards = std::move(backgrounds);
  parts.houses = std::move(houses);
  parts.budget = &budget_;
  parts.signal = &signal_;
  parts.state = &state_;
  workers_ = std::make_unique<BackgroundWorkers>(config, std::move(parts));
  StartLogKeeper();
  writer_.emplace(WriterParts());
  if (options_.publish_interval_ms > 0 && !read_only()) StartPublisher();
  return Status::OK();
}

// The first shard of a new database has its manifest, so the others are its, not left over from an
// attempt to make one: their second manifests say so (node_parts.h).
Status DbImpl::NoteMade() {
  for (size_t i = 1; i < shards_.size(); ++i) DLSM_RETURN_IF_ERROR(shards_[i]->PutManifest());
  return Status::OK();
}

Writer::Parts DbImpl::WriterParts() {
  Writer::Parts parts{};
  parts.comparator = options_.comparator;
  parts.range = &range_;
  parts.map = &map_;
  for (const auto& shard : shards_) parts.shards.push_back({&shard->gate(), &shard->tree()});
  parts.sequencer = &epochs_->sequencer();
  parts.log = log_.get();
  parts.statistics = statistics_.get();
  parts.calls.cover = [this](size_t shard, uint64_t bytes, uint64_t entries) {
    shards_[shard]->background().CoverWrite(bytes, entries);
  };
  parts.calls.look = [this](size_t shard) { workers_->LookAtMemtable(shard); };
  parts.calls.named = [this](size_t shard, const Status& status) {
    return shards_[shard]->Named(status);
  };
  parts.calls.flush = [this] { return FlushShards(/*wait=*/true); };
  return parts;
}

Status DbImpl::TakePublications() {
  Shard& home = *shards_.front();
  uint64_t first = 0;
  DLSM_RETURN_IF_ERROR(home.Named(
      TakeOverPublications(home.session().header(), home.session().ownership_word(),
                           &home.queue_pairs(), &home.link().rpc(), home.session().id(),
                           std::chrono::milliseconds(options_.operation_timeout_ms), &first)));
  unnamed_from_.store(first, std::memory_order_release);
  return Status::OK();
}

void DbImpl::StartPublisher() {
  Shard& home = *shards_.front();
  Publisher::Config config;
  config.header = home.session().header();
  config.first = unnamed_from_.load(std::memory_order_acquire);
  config.interval = std::chrono::milliseconds(options_.publish_interval_ms);
  config.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  config.patience = std::chrono::milliseconds(options_.write_stall_timeout_ms);
  config.lease = home.session().lease();
  Publisher::Parts parts{};
  parts.pool = pool_.get();
  parts.queue_pairs = &home.queue_pairs();
  parts.memory = &home.memory();
  parts.snapshots = &snapshots_;
  parts.sequencer = &epochs_->sequencer();
  for (const auto& link : links_) {
    Publication::Place& place = parts.places.emplace_back();
    place.node = link->node();
    place.id = link->peer().node;
    place.contents = link->peer().contents;
    for (const auto& shard : shards_) {
      if (&shard->link() == link.get()) {
        place.databases.push_back(ShardName(name_, shard->number()));
      } else if (shard->NodeAt(*link) < shard->nodes()) {
        place.databases.push_back(ShardTablesName(name_, shard->number()));
      }
    }
  }
  for (const auto& shard : shards_) parts.trees.push_back(&shard->tree());
  parts.flush = [this] { return FlushShards(/*wait=*/true); };
  parts.unnamed_from = &unnamed_from_;
  parts.statistics = statistics_.get();
  publisher_ = std::make_unique<Publisher>(config, std::move(parts));
}

}  // namespace dlsm
