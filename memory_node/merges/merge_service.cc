#include "memory_node/merges/merge_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/merges/merge_sizes.h"
#include "port/allocation_point.h"
#include "port/clock.h"
#include "port/thread.h"
#include "port/thread_name.h"
#include "table/cached_blocks.h"
#include "table/fetch_resident.h"
#include "table/merge_tables.h"
#include "table/table_reader.h"
#include "table/table_sink.h"
#include "util/format_bytes.h"
#include "util/log.h"
#include "util/memory/extent_allocator.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each entry is a caller that sleeps; more than this cannot be served in any useful time.
constexpr size_t kQueuedMax = 256;

constexpr char kNobodyWaits[] = "nobody waits for the answer to this merge any more";

// Those that lie on this memory node; what lies on others is for them to hold.
std::vector<RemoteSpan> ImagesAt(NodeId node, const MergeRequest& request) {
  std::vector<RemoteSpan> images;
  for (const std::vector<TableMeta>& run : request.runs) {
    for (const TableMeta& table : run) {
      if (table.image.node == node) images.push_back(table.image);
    }
  }
  return images;
}

// What tells of one of a merge's outputs, with room for the same in the answer.
uint64_t BytesBeside(const TableMeta& output) {
  return 2 * (sizeof(output) + output.smallest.size() + output.largest.size());
}

// Merges may take a quarter of the memory's size, beside it. One whose outputs fit takes less: its
// inputs are half of the memory at most, what is copied of them a part of that, and its request
// next to nothing, as what tells of its outputs is unless they are crumbs.
constexpr uint64_t kBesidePart = 4;

// Workers for each merge that may run: one that runs, and one that is paused for it.
constexpr size_t kWorkersPerRunning = 2;

// No less than the outputs take, unless they are compressed worse than the inputs.
uint64_t OutputBytesBound(uint64_t table_bytes) {
  // A table that is being written has room for more than it is going to have.
  constexpr uint64_t kSlack = uint64_t{2} << 20;
  return table_bytes + table_bytes / 4 + kSlack;
}

// Puts outputs into memory of this node, in place: one behind the other into one allocation, as
// long as that lasts.
class OutputTables final : public MergeOutput {
 public:
  // `bytes_bound`: of all outputs, about. `take_beside`: asked before so many bytes are kept beside
  // the memory; an error ends the merge.
  OutputTables(MergeHold* hold, OwnMemory* memory, uint64_t bytes_bound,
               std::function<Status(uint64_t)> take_beside)
      : hold_(hold),
        memory_(memory),
        take_beside_(std::move(take_beside)),
        bytes_bound_(bytes_bound) {}

  Status NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) override {
    if (free_.bytes < bytes) DLSM_RETURN_IF_ERROR(Allocate(bytes));
    *sink = std::make_unique<MemorySink>(memory_->At(free_), bytes);
    return Status::OK();
  }

  Status TableDone(TableMeta meta, const Slice& /*resident*/) override {
    DLSM_RETURN_IF_ERROR(take_beside_(BytesBeside(meta)));
    const uint64_t taken = RoundUpToExtent(meta.image.bytes);
    meta.image = free_.Sub(0, meta.image.bytes);
    free_ = free_.Sub(taken, free_.bytes - taken);
    bytes_bound_ -= std::min(bytes_bound_, taken);
    tables_.push_back(std::move(meta));
    return Status::OK();
  }

  // Frees what no table has taken.
  void FreeRest() {
    if (free_.bytes > 0) hold_->ShrinkOutput(free_, 0);
    free_ = RemoteSpan{};
  }

  uint64_t allocations() const { return allocations_; }
  std::vector<TableMeta> TakeTables() { return std::move(tables_); }

 private:
  Status Allocate(uint64_t bytes) {
    // So that a huge merge does not ask for more in one piece than there may be, nor for what other
    // merges that make room need.
    constexpr uint64_t kPieceBytesMax = uint64_t{256} << 20;
    FreeRest();
    ++allocations_;
    const uint64_t piece_bytes_max = std::min(kPieceBytesMax, hold_->FreeBytes() / 4);
    const uint64_t wanted = std::max(bytes, std::min(bytes_bound_, piece_bytes_max));
    if (wanted > bytes && hold_->AllocateOutput(wanted, &free_).ok()) return Status::OK();
    return hold_->AllocateOutput(bytes, &free_);
  }

  MergeHold* const hold_;
  OwnMemory* const memory_;
  const std::function<Status(uint64_t)> take_beside_;
  uint64_t bytes_bound_;  // Of the outputs that are to come.
  RemoteSpan free_;       // Allocated, behind the last table.
  uint64_t allocations_ = 0;
  std::vector<TableMeta> tables_;
};

// The input tables of a merge, opened.
class InputTables {
 public:
  Status Open(const MergeRequest& request, const TableReadOptions& read_options, QueuePairs* ways,
              const std::atomic<bool>& cancelled) {
    for (const std::vector<TableMeta>& run : request.runs) {
      TableRun& opened = runs_.emplace_back();
      for (const TableMeta& meta : run) {
        if (cancelled.load(std::memory_order_relaxed)) {
          return Status::Aborted(kNobodyWaits);
        }
        DLSM_RETURN_IF_ERROR(OpenTable(request.options.table, meta, read_options, ways));
        opened.push_back(readers_.back().get());
      }
    }
    return Status::OK();
  }

  const std::vector<TableRun>& runs() const { return runs_; }

 private:
  Status OpenTable(const TableOptions& options, const TableMeta& meta,
                   const TableReadOptions& read_options, QueuePairs* ways) {
    // A copy: what has been checked must not change under the reader, and compute nodes can write
    // to the original.
    std::string fetched;
    DLSM_RETURN_IF_ERROR(FetchResident(meta, ways, read_options, &fetched));
    const auto resident = std::make_shared<const std::string>(std::move(fetched));
    return TableReader::Open(options, meta, *resident, resident, CachedBlocks(),
                             &readers_.emplace_back());
  }

  std::vector<std::unique_ptr<TableReader>> readers_;
  std::vector<TableRun> runs_;
};

}  // namespace

MergeService::MergeService(const MergeSchedulerOptions& schedule, DatabaseTable* databases,
                           OwnMemory* memory, PeerNodes* peers)
    : running_max_(schedule.running_max),
      beside_bytes_max_(databases->capacity_bytes() / kBesidePart),
      databases_(databases),
      memory_(memory),
      peers_(peers),
      scheduler_(schedule) {
  try {
    for (size_t i = 0; i < schedule.running_max * kWorkersPerRunning; ++i) {
      workers_.emplace_back([this] { WorkLoop(); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

MergeService::~MergeService() { Stop(); }

void MergeService::Stop() {
  {
    const port::MutexLock lock(mutex_);
    stopping_ = true;
    queued_.SignalAll();
  }
  databases_->CancelMerges();
  // One by one: another queue, be it empty, would take memory, and a destructor cannot do without.
  while (true) {
    std::unique_ptr<Job> job;
    {
      const port::MutexLock lock(mutex_);
      if (queue_.empty()) break;
      job = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= job->input_bytes;
    }
    job->done(Status::Aborted("the memory node is shutting down"), std::string());
  }
  for (port::Thread& worker : workers_) worker.join();
}

void MergeService::Submit(const RpcPeer& peer, const Slice& request, RpcDone done) {
  std::unique_ptr<Job> job;
  Status status = WithinMemory(
      [&] {
        port::AllocationPoint("memory node: merge");
        RequireSpareMemory();
        job = std::make_unique<Job>();
        return Prepare(peer, request, job.get());
      },
      &OutOfNodeMemory);
  if (status.ok()) {
    job->done = std::move(done);
    status = WithinMemory([&] { return Enqueue(&job); }, &OutOfNodeMemory);
    if (status.ok()) return;
    done = std::move(job->done);
  }
  job.reset();  // Before the answer, as in Run().
  done(status, std::string());
}

Status MergeService::Prepare(const RpcPeer& peer, const Slice& request, Job* job) {
  if (workers_.empty()) {
    return Status::NotSupported(
        "this memory node runs no merges; start Server with --merge_threads, or set "
        "Options::compaction_place to kComputeNode");
  }
  DLSM_RETURN_IF_ERROR(job->request.Decode(request));
  if (peer.rights != nullptr && !job->request.peers.empty()) {
    // This memory node reads from others as one of the cluster: they could not tell for whom.
    return Status::NotSupported(
        "tables on other memory nodes are not merged here for a client of the access list");
  }
  DLSM_RETURN_IF_ERROR(databases_->BeginMerge(peer, job->request.session, job->request.number,
                                              ImagesAt(memory_->node(), job->request), &job->hold));
  job->beside_bytes = BytesBeside(job->request);
  if (job->beside_bytes > beside_bytes_max_) {
    return Status::NotSupported(
        fmt::format("a merge's request and the indexes and filters of its tables have {}, more "
                    "than this memory node has room for",
                    FormatBytes(job->beside_bytes)));
  }
  job->table_bytes = TableBytes(job->request, memory_->node(), databases_->capacity_bytes());
  job->input_bytes = InputBytes(job->request, job->table_bytes);
  return Status::OK();
}

Status MergeService::Enqueue(std::unique_ptr<Job>* job) {
  const port::MutexLock lock(mutex_);
  if (stopping_) return Status::Aborted("the memory node is shutting down");
  if (queue_.size() >= kQueuedMax) {
    return Status::Busy("too many merges wait at this memory node; try again later");
  }
  const uint64_t beside_bytes = beside_bytes_ + (*job)->beside_bytes;
  if (beside_bytes > beside_bytes_max_) {
    return Status::Busy(
        "the merges at this memory node have too large requests, indexes and filters; try again "
        "later");
  }
  const uint64_t input_bytes = (*job)->input_bytes;
  queue_.push_back(std::move(*job));  // Nothing is counted, and nothing taken, if this fails.
  beside_bytes_ = beside_bytes;
  queued_bytes_ += input_bytes;
  queued_.Signal();
  return Status::OK();
}

// How small its outputs are is for the client to say, and so how many there are.
Status MergeService::TakeBeside(uint64_t bytes, Job* job) {
  const port::MutexLock lock(mutex_);
  if (bytes > beside_bytes_max_ - job->beside_bytes) {
    return Status::NotSupported(
        fmt::format("what tells of the tables that a merge makes, its request, and the indexes and "
                    "filters of its inputs have more than {}, all that this memory node has room "
                    "for",
                    FormatBytes(beside_bytes_max_)),
        "let tables be larger (Options::max_file_size)");
  }
  if (bytes > beside_bytes_max_ - beside_bytes_) {
    return Status::Busy(
        "what tells of the tables that merges at this memory node make is too "
        "large just now; try again later");
  }
  job->beside_bytes += bytes;
  beside_bytes_ += bytes;
  return Status::OK();
}

void MergeService::DropCancelled() {
  std::vector<std::unique_ptr<Job>> dropped;
  {
    const port::MutexLock lock(mutex_);
    const auto rest =
        std::stable_partition(queue_.begin(), queue_.end(), [](const std::unique_ptr<Job>& job) {
          return !job->hold->cancelled().load(std::memory_order_relaxed);
        });
    dropped.reserve(static_cast<size_t>(queue_.end() - rest));
    for (auto each = rest; each != queue_.end(); ++each) {
      queued_bytes_ -= (*each)->input_bytes;
      beside_bytes_ -= (*each)->beside_bytes;
      dropped.push_back(std::move(*each));
    }
    queue_.erase(rest, queue_.end());
  }
  for (const std::unique_ptr<Job>& job : dropped) {
    job->hold.reset();  // Before the answer, as in Run().
    job->done(Status::Aborted(kNobodyWaits), std::string());
  }
}

void MergeService::WorkLoop() {
  port::SetThreadName("dlsm-merge");
  while (std::unique_ptr<Job> job = NextJob()) Run(std::move(job));
}

std::unique_ptr<MergeService::Job> MergeService::NextJob() {
  const port::MutexLock lock(mutex_);
  while (queue_.empty() && !stopping_) queued_.Wait();
  if (stopping_) return nullptr;
  std::unique_ptr<Job> job = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= job->input_bytes;
  ++running_;
  return job;
}

void MergeService::Run(std::unique_ptr<Job> job) noexcept {
  MergeReply reply;
  const auto start = port::Clock::now();
  Status status = WithinMemory([&] { return MergeAndForget(job.get(), &reply); }, &OutOfNodeMemory);
  const uint64_t micros = port::MicrosecondsSince(start);
  if (!status.ok() && !status.IsAborted()) {
    Log().Warn("a merge failed: {}", status.message().ToStringView());
  }
  // Before the answer: who has it may give back the inputs and look for their memory.
  job->hold.reset();
  {
    const port::MutexLock lock(mutex_);
    --running_;
    beside_bytes_ -= job->beside_bytes;
    ++totals_.merges;
    totals_.bytes_read += reply.statistics.bytes_read;
    totals_.bytes_written += reply.statistics.bytes_written;
    totals_.micros += micros;
  }
  // What is kept for an answer that cannot be made goes when its client tells that none has come.
  std::string answer;
  if (status.ok()) {
    status = WithinMemory(
        [&] {
          port::AllocationPoint("memory node: merged");
          reply.load = Load();
          answer = reply.Encode();
          return Status::OK();
        },
        &OutOfNodeMemory);
  }
  job->done(status, std::move(answer));
}

Status MergeService::MergeAndForget(Job* job, MergeReply* reply) {
  PeerNodes::Ways ways(memory_);
  const Status status = Merge(job, &ways, reply);
  if (status.IsIOError() || status.IsTimedOut()) peers_->Forget(ways);
  return status;
}

MergeLoad MergeService::Load() const {
  MergeLoad load;
  const MergeSchedulerOptions options = scheduler_.options();
  load.workers = running_max_;
  load.bytes_per_second_max = options.bytes_per_second;
  const port::MutexLock lock(mutex_);
  const MergeScheduler::Load under_way = scheduler_.load();
  load.running = running_;
  load.queued = queue_.size();
  load.bytes_waiting = queued_bytes_ + under_way.bytes_left;
  load.bytes_merged = under_way.bytes_merged;
  load.bytes_per_second = under_way.bytes_per_second;
  load.cpu_idle = cpu_idle_;
  return load;
}

void MergeService::SetCpuIdle(std::optional<double> share) {
  const port::MutexLock lock(mutex_);
  cpu_idle_ = share;
}

Status MergeService::SetSchedule(const SetMergeScheduleRequest& request,
                                 SetMergeScheduleReply* reply) {
  if (!request.schedule.empty()) {
    const std::optional<MergeSchedule> schedule = MergeScheduleFromName(request.schedule);
    if (!schedule.has_value()) return UnknownMergeSchedule(request.schedule);
    scheduler_.SetSchedule(*schedule);
  }
  if (request.sets_budget) scheduler_.SetBudget(request.bytes_per_second);
  const MergeSchedulerOptions now = scheduler_.options();
  reply->schedule = MergeScheduleName(now.schedule);
  reply->bytes_per_second = now.bytes_per_second;
  return Status::OK();
}

void MergeService::Describe(NodeStatisticsReply* statistics) const {
  const MergeLoad load = Load();
  statistics->merges_queued = load.queued;
  statistics->merge_bytes_waiting = load.bytes_waiting;
  statistics->merge_bytes_per_second = load.bytes_per_second;
  const port::MutexLock lock(mutex_);
  statistics->merges_done = totals_.merges;
  statistics->merges_running = running_;
  statistics->merge_bytes_read = totals_.bytes_read;
  statistics->merge_bytes_written = totals_.bytes_written;
  statistics->merge_micros = totals_.micros;
  const MergeScheduler::Counters paused = scheduler_.counters();
  statistics->merge_pauses = paused.pauses;
  statistics->merge_paused_micros = paused.paused_micros;
}

Status MergeService::Merge(Job* job, PeerNodes::Ways* ways, MergeReply* reply) {
  port::AllocationPoint("memory node: merging");
  MergeScheduler::Turn turn(&scheduler_, job->input_bytes, job->hold->cancelled());
  // Before it takes memory for its outputs.
  DLSM_RETURN_IF_ERROR(turn.Proceed(0));
  DLSM_RETURN_IF_ERROR(peers_->Connect(job->request.peers, ways));
  TableReadOptions read_options;
  read_options.purpose = Purpose::kCompaction;
  read_options.fill_cache = false;
  read_options.prefetch_bytes = read_options.prefetch_bytes_max;
  InputTables inputs;
  DLSM_RETURN_IF_ERROR(inputs.Open(job->request, read_options, ways, job->hold->cancelled()));
  OutputTables outputs(job->hold.get(), memory_, OutputBytesBound(job->table_bytes),
                       [this, job](uint64_t bytes) { return TakeBeside(bytes, job); });
  DLSM_RETURN_IF_ERROR(MergeTables(job->request.options, inputs.runs(), read_options, ways, &turn,
                                   &outputs, &reply->statistics));
  turn.Finished(reply->statistics.bytes_read);
  outputs.FreeRest();
  reply->statistics.allocations = outputs.allocations();
  RequireSpareMemory();
  DLSM_RETURN_IF_ERROR(job->hold->KeepOutputs());
  reply->outputs = outputs.TakeTables();
  return Status::OK();
}

}  // namespace dlsm
