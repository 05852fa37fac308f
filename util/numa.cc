#include "util/numa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numa.h>
#include <numaif.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <utility>

#include "port/error_text.h"
#include "port/mutex.h"

namespace dlsm {
namespace {

struct FreeMask {
  void operator()(bitmask* mask) const { numa_bitmask_free(mask); }
};
using Mask = std::unique_ptr<bitmask, FreeMask>;

std::vector<int> NodesIn(const bitmask* mask) {
  std::vector<int> nodes;
  for (int node = 0; node <= numa_max_node(); ++node) {
    const bool listed = numa_bitmask_isbitset(mask, static_cast<unsigned>(node)) != 0;
    if (listed && numa_node_size64(node, nullptr) > 0) nodes.push_back(node);
  }
  return nodes;
}

// libnuma writes to stderr about nodes that do not exist, which callers have excluded.
class LibNuma final : public NumaSystem {
 public:
  bool Available() override {
    static const bool available = numa_available() >= 0;
    return available;
  }

  std::vector<int> Nodes() override { return NodesIn(numa_nodes_ptr); }

  std::vector<int> AllowedNodes() override {
    const Mask allowed(numa_get_mems_allowed());
    return NodesIn(allowed.get());
  }

  uint64_t FreeBytes(int node) override {
    long long free = -1;
    if (numa_node_size64(node, &free) < 0 || free < 0) return UINT64_MAX;
    return static_cast<uint64_t>(free);
  }

  int PlaceMemory(char* data, size_t bytes, int node, Placement placement) override {
    const Mask nodes(numa_allocate_nodemask());
    numa_bitmask_setbit(nodes.get(), static_cast<unsigned>(node));
    const int policy = placement == Placement::kBound ? MPOL_BIND : MPOL_PREFERRED;
    // The kernel takes one bit less than it is told.
    return ::mbind(data, bytes, policy, nodes->maskp, nodes->size + 1, 0) == 0 ? 0 : errno;
  }

  int RunThreadOn(int node) override {
    const Mask of_node(numa_allocate_cpumask());
    const Mask before(numa_allocate_cpumask());
    {
      // It fills a table of its own when it is first asked.
      const port::MutexLock lock(mutex_);
      if (numa_node_to_cpus(node, of_node.get()) != 0) return errno;
    }
    if (numa_sched_getaffinity(0, before.get()) < 0) return errno;
    for (unsigned i = 0; i < of_node->size; ++i) {
      if (!numa_bitmask_isbitset(before.get(), i)) numa_bitmask_clearbit(of_node.get(), i);
    }
    return numa_sched_setaffinity(0, of_node.get()) == 0 ? 0 : errno;
  }

 private:
  port::Mutex mutex_;
};

std::atomic<NumaSystem*> in_its_place{nullptr};

// Of nodes that nobody has counted there is nothing to tell, so a bound suffices.
constexpr size_t kNodesMax = 1024;
struct Counts {
  std::atomic<uint64_t> preferred_bytes{0};
  std::atomic<uint64_t> threads{0};
};
std::array<Counts, kNodesMax> node_counts;

bool CanBe(int node) { return node >= 0 && static_cast<size_t>(node) < kNodesMax; }
Counts& CountsOf(int node) { return node_counts[static_cast<size_t>(node)]; }

}  // namespace

NumaSystem& NumaSystem::Current() {
  NumaSystem* const other = in_its_place.load(std::memory_order_acquire);
  if (other != nullptr) [[unlikely]]
    return *other;
  static LibNuma* const of_this_machine = new LibNuma();  // Handles may be closed late during exit.
  return *of_this_machine;
}

NumaSystem* NumaSystem::Replace(NumaSystem* system) {
  return in_its_place.exchange(system, std::memory_order_acq_rel);
}

Status CheckNumaNode(int node) {
  if (node == kNoNumaNode || node == kNumaNodeOfDevice) return Status::OK();
  NumaSystem& system = NumaSystem::Current();
  if (!system.Available()) {
    return Status::NotSupported(
        fmt::format("NUMA node {} was asked for, but the kernel offers this process no NUMA: it "
                    "has none, or a container's rules hide it; leave numa_node out",
                    node));
  }
  const std::vector<int> nodes = system.AllowedNodes();
  if (CanBe(node) && std::ranges::find(nodes, node) != nodes.end()) return Status::OK();
  return Status::InvalidArgument(fmt::format(
      "there is no NUMA node {} for this process; there are: {}", node, fmt::join(nodes, ", ")));
}

// -------- Memory

Status BindMemory(char* data, size_t bytes, int node, std::string* note) {
  assert(node != kNoNumaNode && node != kNumaNodeOfDevice);
  const Status there = CheckNumaNode(node);
  if (!there.ok()) return there;
  const int error =
      NumaSystem::Current().PlaceMemory(data, bytes, node, NumaSystem::Placement::kBound);
  *note = error == 0 ? fmt::format("on NUMA node {}", node)
                     : fmt::format("not bound to NUMA node {}: {}", node, port::ErrorText(error));
  return Status::OK();
}

PreferredMemory::PreferredMemory(char* data, size_t bytes, int node) noexcept {
  if (node == kNoNumaNode) return;
  assert(CanBe(node));
  const int error =
      NumaSystem::Current().PlaceMemory(data, bytes, node, NumaSystem::Placement::kPreferred);
  if (error != 0) return;
  node_ = node;
  bytes_ = bytes;
  CountsOf(node).preferred_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

PreferredMemory::PreferredMemory(PreferredMemory&& other) noexcept
    : node_(std::exchange(other.node_, kNoNumaNode)), bytes_(std::exchange(other.bytes_, 0)) {}

PreferredMemory& PreferredMemory::operator=(PreferredMemory&& other) noexcept {
  std::swap(node_, other.node_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PreferredMemory::~PreferredMemory() {
  if (node_ == kNoNumaNode) return;
  CountsOf(node_).preferred_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
}

// -------- Threads

struct ThreadOnNumaNode::Processors {
  Mask mask{numa_allocate_cpumask()};
};

ThreadOnNumaNode::ThreadOnNumaNode(int node) : node_(kNoNumaNode) {
  if (node == kNoNumaNode) return;
  assert(CanBe(node));
  auto before = std::make_unique<Processors>();
  int error = numa_sched_getaffinity(0, before->mask.get()) < 0 ? errno : 0;
  if (error == 0) error = NumaSystem::Current().RunThreadOn(node);
  if (error != 0) {
    status_ = Status::IOError(
        fmt::format("threads are not kept on NUMA node {}: {}", node, port::ErrorText(error)));
    return;
  }
  node_ = node;
  before_ = std::move(before);
  CountsOf(node).threads.fetch_add(1, std::memory_order_relaxed);
}

ThreadOnNumaNode::~ThreadOnNumaNode() {
  status_.PermitUncheckedError();
  if (node_ == kNoNumaNode) return;
  CountsOf(node_).threads.fetch_sub(1, std::memory_order_relaxed);
  // What the thread could do before, it may do again.
  static_cast<void>(numa_sched_setaffinity(0, before_->mask.get()));
}

NumaUse NumaUseOf(int node) {
  if (!CanBe(node)) return {};
  const Counts& of_node = CountsOf(node);
  return {of_node.preferred_bytes.load(std::memory_order_relaxed),
          of_node.threads.load(std::memory_order_relaxed)};
}

}  // namespace dlsm
