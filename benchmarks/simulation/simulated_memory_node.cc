#include "benchmarks/simulation/simulated_memory_node.h"

#include <chrono>
#include <utility>

#include "port/clock.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(250);

}  // namespace

SimulatedMemoryNode::Process::Process(SimulatedMemoryNode* owner)
    : tokens(
          owner->config_.node.grace + std::chrono::seconds(1),
          [this](const std::string& token, const ClientRights& /*owner*/) { memory->Allow(token); },
          [this](const std::string& token) {
            node->revoker().Revoke({token},
                                   [](const Status& status) { status.PermitUncheckedError(); });
          }) {}

Status SimulatedMemoryNode::Start() {
  RegionOptions region_options;
  region_options.bytes = config_.bytes;
  region_options.huge_pages = false;
  std::unique_ptr<ExportedRegion> region;
  DLSM_RETURN_IF_ERROR(CreateRegion(region_options, &region));
  char* const data = region->data();
  auto process = std::make_unique<Process>(this);
  FabricPeer peer;
  peer.node = config_.node.node;
  peer.regions = {region->info()};
  MemoryNodeOptions options = config_.node;
  options.has_files = config_.has_files;
  if (config_.has_files) {
    options.persist = [this, disk = &process->disk](const std::vector<RemoteSpan>&,
                                                    std::function<void(const Status&)> done) {
      disk->waiting.push_back(std::move(done));
      network_->scheduler().Signal(disk, /*all=*/true);
    };
  }
  DLSM_RETURN_IF_ERROR(MemoryNode::Start(options, std::move(region), &process->node));
  peer.contents = process->node->contents();
  peer.boot = process->node->boot();
  peer.persistence = process->node->persistence();
  peer.has_files = process->node->has_files();
  process->memory = std::make_shared<ServedMemory>(peer, data);
  process->node->revoker().SetCutOff(
      [this, raw = process.get()](const std::string& token) { return CutOff(raw, token); });
  process->housekeeper = port::Thread([this, raw = process.get()] { KeepHouse(raw); });
  if (config_.has_files) {
    process->disk.thread = port::Thread([this, disk = &process->disk] { WriteFiles(disk); });
  }
  process_ = std::move(process);
  return Status::OK();
}

void SimulatedMemoryNode::Kill() {
  if (process_ == nullptr) return;
  const std::unique_ptr<Process> process = std::move(process_);
  process->memory->End();
  process->stopping = true;
  network_->scheduler().Signal(process.get(), /*all=*/true);
  while (process->accepting > 0) {
    static_cast<void>(
        network_->scheduler().Await(&process->accepting, port::Scheduler::TimePoint::max()));
  }
  for (const auto& served : process->served) served->link->Break(network_->Delay(), {});
  for (const auto& served : process->served) served->thread.join();
  process->housekeeper.join();
  process->disk.stopping = true;
  network_->scheduler().Signal(&process->disk, /*all=*/true);
  if (process->disk.thread.joinable()) process->disk.thread.join();
  process->node->revoker().Stop();
  process->node.reset();
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

// Where connections break, they also take longer now and then than a call waits for its answer.
void SimulatedMemoryNode::WriteFiles(Disk* disk) {
  while (!disk->stopping || !disk->waiting.empty()) {
    if (disk->waiting.empty()) {
      static_cast<void>(network_->scheduler().Await(disk, port::Scheduler::TimePoint::max()));
      continue;
    }
    const auto written = std::exchange(disk->waiting, {});
    Random& random = network_->random();
    const uint64_t longest_us = !network_->whole() && random.OneIn(100) ? 4'000'000 : 3000;
    port::SleepFor(std::chrono::microseconds(random.Uniform(longest_us)));
    for (const auto& done : written) done(Status::OK());
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
