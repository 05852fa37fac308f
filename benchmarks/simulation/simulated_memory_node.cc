#include "benchmarks/simulation/simulated_memory_node.h"

#include <fmt/core.h>

#include <cassert>
#include <chrono>
#include <utility>

#include "memory_node/store/begin_contents.h"
#include "memory_node/store/stored_state.h"
#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(250);

// Memory that is not the region's own.
class BorrowedRegion final : public ExportedRegion {
 public:
  BorrowedRegion(char* data, uint64_t bytes) : data_(data) { info_.bytes = bytes; }

  char* data() const override { return data_; }
  const RegionInfo& info() const override { return info_; }
  const std::string& note() const override { return note_; }
  void TakeAllPages() override {}

 private:
  char* const data_;
  RegionInfo info_;
  const std::string note_ = "a simulated disk's";
};

}  // namespace

SimulatedMemoryNode::Process::Process(SimulatedMemoryNode* owner)
    : tokens(
          owner->config_.node.grace + std::chrono::seconds(1),
          [this](const std::string& token, const ClientRights& /*owner*/) { memory->Allow(token); },
          [this](const std::string& token) {
            node->revoker().Revoke({token},
                                   [](const Status& status) { status.PermitUncheckedError(); });
          }) {}

Status SimulatedMemoryNode::MakeMemory(std::unique_ptr<ExportedRegion>* region) const {
  RegionOptions options;
  options.bytes = config_.bytes;
  options.huge_pages = false;
  return CreateRegion(options, region);
}

// As Server does it with a directory.
Status SimulatedMemoryNode::OpenDisk(NodeStore* store, ForgetfulFiles** files) {
  auto opened = std::make_unique<ForgetfulFiles>(disk_.get());
  store->rows = disk_->rows();
  const StoredKey key{StoredKind::kContents, 0};
  BeginOptions begin;
  begin.capacity_bytes = config_.bytes;
  begin.machine_boot = fmt::format("boot {}", disk_->power_failures());
  const auto contents = store->rows.find(key);
  begin.made = contents == store->rows.end();
  if (!begin.made) {
    DLSM_RETURN_IF_ERROR(StoredContents::Decode(contents->second, &store->contents));
    DLSM_RETURN_IF_ERROR(StoredState::Decode(store->rows, config_.bytes, &store->state));
  }
  DLSM_RETURN_IF_ERROR(BeginContents(begin, &store->contents, &store->resumed));
  *files = opened.get();
  store->files = std::move(opened);
  return Status::OK();
}

Status SimulatedMemoryNode::Start() {
  auto process = std::make_unique<Process>(this);
  std::unique_ptr<ExportedRegion> region;
  NodeStore store;
  if (has_disk()) {
    DLSM_RETURN_IF_ERROR(OpenDisk(&store, &process->files));
    region = std::make_unique<BorrowedRegion>(disk_->data(), disk_->bytes());
  } else {
    DLSM_RETURN_IF_ERROR(MakeMemory(&region));
  }
  char* const data = region->data();
  FabricPeer peer;
  peer.node = config_.node.node;
  peer.regions = {region->info()};
  DLSM_RETURN_IF_ERROR(
      has_disk()
          ? MemoryNode::Start(config_.node, std::move(store), std::move(region), &process->node)
          : MemoryNode::Start(config_.node, std::move(region), &process->node));
  peer.contents = process->node->contents();
  peer.boot = process->node->boot();
  peer.persistence = process->node->persistence();
  peer.has_files = process->node->has_files();
  process->memory = std::make_shared<ServedMemory>(peer, data);
  const auto until = port::Clock::now() + config_.node.lease;
  for (const std::string& token : process->node->databases().DataTokens()) {
    process->tokens.Restore(token, /*owner=*/nullptr, until);
  }
  process->node->revoker().SetCutOff(
      [this, raw = process.get()](const std::string& token) { return CutOff(raw, token); });
  process->housekeeper = port::Thread([this, raw = process.get()] { KeepHouse(raw); });
  process_ = std::move(process);
  return Status::OK();
}

void SimulatedMemoryNode::Kill() {
  if (process_ == nullptr) return;
  const std::unique_ptr<Process> process = std::move(process_);
  if (process->files != nullptr) process->files->Die();
  process->memory->End();
  for (const auto& served : process->served) served->link->EndServing();
  process->stopping = true;
  network_->scheduler().Signal(process.get(), /*all=*/true);
  while (process->accepting > 0) {
    static_cast<void>(
        network_->scheduler().Await(&process->accepting, port::Scheduler::TimePoint::max()));
  }
  for (const auto& served : process->served) served->link->Break(network_->Delay(), {});
  for (const auto& served : process->served) served->thread.join();
  process->housekeeper.join();
  process->node->revoker().Stop();
  process->node.reset();
}

void SimulatedMemoryNode::LosePower() {
  assert(process_ == nullptr);
  disk_->LosePower(&network_->random());
  disk_calls_left_.reset();
}

void SimulatedMemoryNode::LoseDisk() {
  assert(process_ == nullptr);
  if (!has_disk()) return;
  disk_ = std::make_unique<ForgetfulDisk>(config_.bytes);
  disk_->SetFaults([this](const char* call) { return CallDisk(call); });
}

void SimulatedMemoryNode::FillDisk(std::chrono::nanoseconds duration) {
  disk_full_until_ = port::Clock::now() + duration;
}

Status SimulatedMemoryNode::CallDisk(const std::string& call) {
  const bool takes = call == "take";
  if (disk_calls_left_.has_value() && *disk_calls_left_ > 0) --*disk_calls_left_;
  // Room is taken under a lock, and at once.
  if (!takes && config_.disk_call_max.count() > 0) {
    const auto longest = static_cast<uint64_t>(config_.disk_call_max.count());
    ++disk_calls_under_way_;
    port::SleepFor(std::chrono::nanoseconds(network_->random().Uniform(longest)));
    --disk_calls_under_way_;
  }
  if (call != "sync" && disk_is_full()) {
    return Status::Busy(fmt::format("cannot {} /data of memory node {}: no space left", call,
                                    static_cast<uint32_t>(config_.node.node)));
  }
  if (!disk_has_stopped() && (takes || !std::exchange(disk_breaks_, false))) return Status::OK();
  network_->Count(NetworkFault::kDiskBroken);
  return Status::IOError(fmt::format("cannot {} /data of memory node {}: input/output error", call,
                                     static_cast<uint32_t>(config_.node.node)));
}

void SimulatedMemoryNode::BreakConnections() {
  for (const auto& served : process_->served) {
    served->link->Break(network_->Delay(), network_->Delay());
  }
}

void SimulatedMemoryNode::LoseHost(const SimulatedHost* host) {
  if (process_ == nullptr) return;
  process_->memory->Orphan(host);
  // Whether the memory node's kernel hears of it at once, or has to find out.
  const bool at_once = network_->random().OneIn(2);
  for (const auto& served : process_->served) {
    if (served->link->host() != host) continue;
    served->link->Break({}, at_once ? network_->Delay() : std::chrono::seconds(30));
  }
}

Status SimulatedMemoryNode::CutOff(Process* process, const std::string& token) {
  process->tokens.Forget(token);
  port::SleepFor(network_->Delay());
  if (config_.cut_off_fails_one_in > 0 && network_->random().OneIn(config_.cut_off_fails_one_in)) {
    network_->Count(NetworkFault::kCutOffFailed);
    return Status::TimedOut("the client's access could not be taken away yet");
  }
  process->memory->CutOff(token);
  return Status::OK();
}

void SimulatedMemoryNode::KeepHouse(Process* process) {
  while (!process->stopping) {
    static_cast<void>(
        network_->scheduler().Await(process, network_->scheduler().now() + kHousekeepingPeriod));
    process->tokens.Expire(TokenTable::Clock::now());
  }
}

Status SimulatedMemoryNode::Accept(const std::shared_ptr<SimulatedHost>& host,
                                   const std::string& client_name, const std::string& token,
                                   std::shared_ptr<ControlLink>* link, FabricPeer* info) {
  if (process_ == nullptr || !host->alive || network_->Resets()) {
    return Status::IOError("cannot reach the memory node: nobody listens");
  }
  Process* const process = process_.get();
  ++process->accepting;  // It stays until this is done.
  const Status status = AcceptAt(process, host, client_name, token, link, info);
  --process->accepting;
  network_->scheduler().Signal(&process->accepting, /*all=*/true);
  return status;
}

Status SimulatedMemoryNode::AcceptAt(Process* process, const std::shared_ptr<SimulatedHost>& host,
                                     const std::string& client_name, const std::string& token,
                                     std::shared_ptr<ControlLink>* link, FabricPeer* info) {
  Reap(process);
  RpcPeer peer;
  peer.connection = ++connections_;
  peer.name = client_name + " on " + host->name;
  DLSM_RETURN_IF_ERROR(process->tokens.Acquire(token, /*owner=*/nullptr, &peer.data_token));
  *info = process->memory->peer();
  info->data_token = peer.data_token;
  *link = std::make_shared<ControlLink>(network_, host, peer);
  auto made = std::make_unique<Served>();
  Served* const served = made.get();
  served->link = *link;
  process->served.push_back(std::move(made));
  served->thread = port::Thread([process, served] {
    served->link->Serve(process->node.get());
    process->tokens.Release(served->link->peer().data_token, TokenTable::Clock::now());
    served->done = true;
  });
  return Status::OK();
}

void SimulatedMemoryNode::Reap(Process* process) {
  std::list<std::unique_ptr<Served>> ended;
  for (auto next = process->served.begin(); next != process->served.end();) {
    const auto current = next++;
    if ((*current)->done) ended.splice(ended.end(), process->served, current);
  }
  for (const auto& served : ended) served->thread.join();
}

}  // namespace dlsm::simulation
