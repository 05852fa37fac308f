#include "memory_node/memory_node.h"

#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <utility>

#include "port/allocation_point.h"
#include "port/clock.h"
#include "util/coding.h"
#include "util/cpu_meter.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/secret_proof.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Ends sessions so much late, at most.
constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(200);

// Long enough to even out what a processor does from moment to moment.
constexpr auto kCpuPeriod = std::chrono::seconds(1);

DatabaseTableOptions TableOptionsOf(const MemoryNodeOptions& options, const ExportedRegion& region,
                                    OwnMemory* memory, AccessRevoker* revoker, StoreKeeper* store) {
  DatabaseTableOptions made;
  made.node = options.node;
  made.region = region.info().id;
  made.capacity_bytes = region.info().bytes;
  made.memory = memory;
  made.merge_reserve_bytes =
      options.merge_reserve_bytes.value_or(DefaultMergeReserve(region.info().bytes));
  made.lease = options.lease;
  made.grace = options.grace;
  made.full_remedy = options.full_remedy;
  made.clock = options.clock;
  made.clients_map_memory = options.clients_map_memory;
  made.database_quota_bytes = options.database_quota_bytes;
  made.revoker = revoker;
  made.extent_owners = options.extent_owners;
  made.store = store;
  made.refuse_extent = options.refuse_extent;
  made.free_bytes_told_max = options.free_bytes_told_max;
  return made;
}

// At random: no two memory nodes, and no two of their boots, have one number.
Status DrawNumber(uint64_t* number) {
  std::string random;
  DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
  *number = DecodeFixed64(random.data());
  return Status::OK();
}

uint64_t Micros(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
}

}  // namespace

Status MemoryNode::Start(const MemoryNodeOptions& options, std::unique_ptr<ExportedRegion> region,
                         std::unique_ptr<MemoryNode>* node) {
  uint64_t drawn = 0;
  uint64_t boot = 0;
  DLSM_RETURN_IF_ERROR(DrawNumber(&drawn));
  DLSM_RETURN_IF_ERROR(DrawNumber(&boot));
  const ContentsId contents = options.contents.value_or(ContentsId{drawn});
  const PersistenceId persistence =
      options.persistence.value_or(PersistenceId{static_cast<uint64_t>(contents)});
  return StartingThreads([&] {
    node->reset(new MemoryNode(options, contents, BootId{boot}, persistence, NodeStore(),
                               std::move(region)));
    return Status::OK();
  });
}

Status MemoryNode::Start(const MemoryNodeOptions& options, NodeStore store,
                         std::unique_ptr<ExportedRegion> region,
                         std::unique_ptr<MemoryNode>* node) {
  MemoryNodeOptions with_files = options;
  with_files.has_files = true;
  return StartingThreads([&] {
    const StoredContents contents = store.contents;
    node->reset(new MemoryNode(with_files, contents.contents, contents.boot,
                               PersistenceId{contents.persistence}, std::move(store),
                               std::move(region)));
    return Status::OK();
  });
}

MergeSchedulerOptions MemoryNode::ScheduleOf(const MemoryNodeOptions& options) {
  MergeSchedulerOptions schedule;
  schedule.schedule = options.merge_schedule;
  schedule.running_max = static_cast<size_t>(std::max(options.merge_threads, 0));
  schedule.bytes_per_second = options.merge_bytes_per_second;
  return schedule;
}

MemoryNode::MemoryNode(const MemoryNodeOptions& options, ContentsId contents, BootId boot,
                       PersistenceId persistence, NodeStore store,
                       std::unique_ptr<ExportedRegion> region)
    : options_(options),
      contents_(contents),
      boot_(boot),
      persistence_(persistence),
      region_(std::move(region)),
      memory_(options.node, region_->info().id, region_->data(), region_->info().bytes),
      store_(store.files == nullptr ? nullptr
                                    : std::make_unique<StoreKeeper>(std::move(store.files))),
      persist_(store_ == nullptr
                   ? options.persist
                   : [keeper = store_.get()](
                         std::vector<RemoteSpan> spans,
                         std::function<void(const Status&)>
                             done) { keeper->Persist(std::move(spans), std::move(done)); }),
      databases_(TableOptionsOf(options, *region_, &memory_, &revoker_, store_.get())),
      peers_({.node = options.node,
              .credentials = options.credentials,
              .verbs = options.verbs,
              .connector = options.node_connector}),
      merges_(ScheduleOf(options), &databases_, &memory_, &peers_) {
  if (store_ != nullptr) {
    databases_.Restore(store.state, store.resumed);
    store_->Start(std::move(store.rows), store.contents.Encode(), &databases_);
  }
  housekeeper_ = port::Thread([this] { KeepHouse(); });
}

MemoryNode::~MemoryNode() {
  {
    const port::MutexLock lock(mutex_);
    stopping_ = true;
    stop_.SignalAll();
  }
  housekeeper_.join();
  revoker_.Stop();
  if (store_ != nullptr) store_->Stop();
}

void MemoryNode::KeepHouse() {
  CpuMeter cpu;
  auto cpu_at = port::Clock::now();
  const port::MutexLock lock(mutex_);
  while (!stopping_) {
    static_cast<void>(stop_.WaitUntil(port::Clock::now() + kHousekeepingPeriod));
    if (stopping_) return;
    // What there is no memory for is done in one of the next rounds.
    IfMemoryPermits([this] {
      port::AllocationPoint("memory node: house");
      RequireSpareMemory();
      databases_.EndExpiredSessions();
      databases_.KeepDisk();
      merges_.DropCancelled();
    });
    if (port::Clock::now() < cpu_at) continue;
    cpu_at += kCpuPeriod;
    IfMemoryPermits([this, &cpu] {
      if (const std::optional<double> idle = cpu.IdleShare(); idle.has_value()) {
        merges_.SetCpuIdle(idle);
      }
    });
  }
}

void MemoryNode::Disconnected(const RpcPeer& peer) {
  const Status told = WithinMemory(
      [&] {
        databases_.Disconnected(peer);
        return Status::OK();
      },
      &OutOfNodeMemory);
  // Its sessions end with their leases.
  if (!told.ok()) Log().Error("{} has gone: {}", peer.name, told.message().ToStringView());
}

NodeStatisticsReply MemoryNode::Statistics() const {
  NodeStatisticsReply statistics;
  databases_.Describe(&statistics);
  merges_.Describe(&statistics);
  statistics.peer_bytes_read = peers_.bytes_read();
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    statistics.cpu_micros = Micros(usage.ru_utime) + Micros(usage.ru_stime);
    statistics.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  }
  return statistics;
}

uint64_t MemoryNode::calls(Method method) const {
  return calls_[static_cast<size_t>(method)].load(std::memory_order_relaxed);
}

uint64_t MemoryNode::request_bytes(Method method) const {
  return request_bytes_[static_cast<size_t>(method)].load(std::memory_order_relaxed);
}

}  // namespace dlsm
