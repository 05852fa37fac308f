#include "memory_node/memory_node.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <utility>

#include "memory_node/call_rights.h"
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
                                    OwnMemory* memory, AccessRevoker* revoker) {
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
  made.refuse_extent = options.refuse_extent;
  return made;
}

uint64_t Micros(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
}

// Nothing has begun where there is no memory for what is to come.
template <typename Request>
Status BeginCall(const Slice& bytes, Request* request) {
  DLSM_RETURN_IF_ERROR(request->Decode(bytes));
  port::AllocationPoint("memory node: call");
  RequireSpareMemory();
  return Status::OK();
}

// Decodes the request, calls `function(request, &reply_bytes)`, and answers. Where this process has
// no memory for it, nothing has begun.
template <typename Request, typename Function>
void Answer(const Slice& bytes, const RpcDone& done, Function function) {
  std::string reply;
  const Status status = WithinMemory(
      [&]() -> Status {
        Request request;
        DLSM_RETURN_IF_ERROR(BeginCall(bytes, &request));
        return function(request, &reply);
      },
      &OutOfNodeMemory);
  done(status, status.ok() ? std::move(reply) : std::string());
}

// The same of a call without a request.
template <typename Function>
void Answer(const RpcDone& done, Function function) {
  std::string reply;
  const Status status = WithinMemory(
      [&] {
        port::AllocationPoint("memory node: call");
        reply = function();
        return Status::OK();
      },
      &OutOfNodeMemory);
  done(status, status.ok() ? std::move(reply) : std::string());
}

}  // namespace

Status MemoryNode::Start(const MemoryNodeOptions& options, std::unique_ptr<ExportedRegion> region,
                         std::unique_ptr<MemoryNode>* node) {
  std::string epoch;
  DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &epoch));
  return StartingThreads([&] {
    node->reset(new MemoryNode(options, DecodeFixed64(epoch.data()), std::move(region)));
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

MemoryNode::MemoryNode(const MemoryNodeOptions& options, uint64_t epoch,
                       std::unique_ptr<ExportedRegion> region)
    : options_(options),
      epoch_(epoch),
      region_(std::move(region)),
      memory_(options.node, region_->info().id, region_->data(), region_->info().bytes),
      databases_(TableOptionsOf(options, *region_, &memory_, &revoker_)),
      peers_({.node = options.node,
              .credentials = options.credentials,
              .verbs = options.verbs,
              .connector = options.node_connector}),
      merges_(ScheduleOf(options), &databases_, &memory_, &peers_),
      housekeeper_([this] { KeepHouse(); }) {}

MemoryNode::~MemoryNode() {
  {
    const port::MutexLock lock(mutex_);
    stopping_ = true;
    stop_.SignalAll();
  }
  housekeeper_.join();
  revoker_.Stop();
}

Status MemoryNode::SetMergeSchedule(const RpcPeer& peer, const SetMergeScheduleRequest& request,
                                    SetMergeScheduleReply* reply) {
  DLSM_RETURN_IF_ERROR(merges_.SetSchedule(request, reply));
  if (request.schedule.empty() && !request.sets_budget) return Status::OK();
  // Others may wonder why their merges go differently.
  Log().Warn("{} sets the schedule of the merges of all databases: {}, {}", peer.name,
             reply->schedule,
             reply->bytes_per_second == 0
                 ? "no limit"
                 : fmt::format("{} bytes of input a second", reply->bytes_per_second));
  return Status::OK();
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

void MemoryNode::Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) {
  const auto number = static_cast<size_t>(method);
  if (number < kMethodCount) calls_[number].fetch_add(1, std::memory_order_relaxed);
  switch (method) {
    case Method::kOpenDatabase:
      return Answer<OpenDatabaseRequest>(request, done, [&](const auto& open, std::string* reply) {
        OpenDatabaseReply opened;
        DLSM_RETURN_IF_ERROR(CheckMayOwn(peer, open.name));
        DLSM_RETURN_IF_ERROR(databases_.Open(peer, open, &opened));
        *reply = opened.Encode();
        return Status::OK();
      });
    case Method::kHeartbeat:
      return Answer<HeartbeatRequest>(request, done, [&](const auto& beat, std::string* reply) {
        DLSM_RETURN_IF_ERROR(databases_.Heartbeat(peer, beat));
        HeartbeatReply beaten;
        beaten.merges = merges_.Load();
        beaten.free_bytes = databases_.FreeBytesFor(beat.session);
        beaten.grantable_bytes = databases_.GrantableBytesFor(beat.session);
        beaten.others_want_room = databases_.OthersWantRoom(beat.session);
        *reply = beaten.Encode();
        return Status::OK();
      });
    case Method::kGrant:
      return Answer<GrantRequest>(request, done, [&](const auto& grant, std::string* reply) {
        GrantReply granted;
        DLSM_RETURN_IF_ERROR(databases_.Grant(peer, grant, &granted));
        *reply = granted.Encode();
        return Status::OK();
      });
    case Method::kFree:
      return Answer<FreeRequest>(request, done, [&](const auto& free, std::string*) {
        return databases_.Free(peer, free);
      });
    case Method::kMerge:
      return merges_.Submit(peer, request, std::move(done));
    case Method::kPutManifest:
      return Answer<PutManifestRequest>(request, done, [&](const auto& put, std::string*) {
        return databases_.PutManifest(peer, put);
      });
    case Method::kCloseDatabase:
      return Close(peer, request, done);
    case Method::kDestroyDatabase:
      return Answer<DestroyDatabaseRequest>(request, done, [&](const auto& destroy, std::string*) {
        DLSM_RETURN_IF_ERROR(CheckMayOwn(peer, destroy.name));
        return databases_.Destroy(destroy);
      });
    case Method::kListDatabases:
      return Answer(done, [&] {
        ListDatabasesReply list = databases_.List();
        FilterFor(peer, &list);
        return list.Encode();
      });
    case Method::kNodeStatistics:
      return Answer(done, [&] { return Statistics().Encode(); });
    case Method::kOpenReader:
      return Answer<OpenReaderRequest>(request, done, [&](const auto& open, std::string* reply) {
        OpenReaderReply opened;
        for (const std::string& name : open.databases) {
          DLSM_RETURN_IF_ERROR(CheckMayRead(peer, name));
        }
        DLSM_RETURN_IF_ERROR(databases_.OpenReader(peer, open, &opened));
        *reply = opened.Encode();
        return Status::OK();
      });
    case Method::kReaderHeartbeat:
      return Answer<ReaderHeartbeatRequest>(
          request, done, [&](const auto& beat, std::string* reply) {
            ReaderHeartbeatReply beaten;
            DLSM_RETURN_IF_ERROR(databases_.RenewReader(beat, &beaten));
            *reply = beaten.Encode();
            return Status::OK();
          });
    case Method::kCloseReader:
      return Answer<CloseReaderRequest>(request, done, [&](const auto& close, std::string*) {
        return databases_.CloseReader(close);
      });
    case Method::kSetMergeSchedule:
      return Answer<SetMergeScheduleRequest>(
          request, done, [&](const auto& set, std::string* reply) {
            SetMergeScheduleReply now;
            const bool changes = !set.schedule.empty() || set.sets_budget;
            if (changes) DLSM_RETURN_IF_ERROR(CheckMayRule(peer));
            DLSM_RETURN_IF_ERROR(SetMergeSchedule(peer, set, &now));
            *reply = now.Encode();
            return Status::OK();
          });
    case Method::kSetQuota:
      return Answer<SetQuotaRequest>(request, done, [&](const auto& set, std::string*) {
        DLSM_RETURN_IF_ERROR(CheckMayRule(peer));
        return databases_.SetQuota(peer, set);
      });
  }
  done(Status::NotSupported(fmt::format("memory node {} knows no method {}",
                                        static_cast<uint32_t>(options_.node), number)),
       std::string());
}

// Answered when the memory is free: who opens the database next, or needs room, finds it so.
void MemoryNode::Close(const RpcPeer& peer, const Slice& request, const RpcDone& done) {
  // Who could be told when the memory is free, and that there was none to end all of it, is told of
  // what comes first.
  std::shared_ptr<std::atomic<bool>> told;
  const Status status = WithinMemory(
      [&]() -> Status {
        CloseDatabaseRequest close;
        DLSM_RETURN_IF_ERROR(BeginCall(request, &close));
        told = std::make_shared<std::atomic<bool>>(false);
        return databases_.Close(peer, close, [done, told] {
          if (!told->exchange(true)) done(Status::OK(), std::string());
        });
      },
      &OutOfNodeMemory);
  if (!status.ok() && (told == nullptr || !told->exchange(true))) done(status, std::string());
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

}  // namespace dlsm
