// A machine with NUMA nodes of a test's choice, in place of this one.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "util/numa.h"

namespace dlsm {

// Records what the kernel would be asked. A thread that is to run on a node does run on the
// node's processor, where it has one.
class FakeNuma final : public NumaSystem {
 public:
  struct Node {
    uint64_t free_bytes = uint64_t{1} << 40;
    bool allowed = true;
    int processor = -1;  // -1: wherever.
  };
  struct Placed {
    const char* data;
    size_t bytes;
    int node;
    Placement placement;
  };

  FakeNuma(std::initializer_list<std::pair<const int, Node>> nodes)
      : nodes_(nodes), before_(NumaSystem::Replace(this)) {}
  FakeNuma(const FakeNuma&) = delete;
  FakeNuma& operator=(const FakeNuma&) = delete;
  ~FakeNuma() override { NumaSystem::Replace(before_); }

  // Set while nothing is asked.
  bool available = true;
  int placing_fails_with = 0;
  int running_fails_with = 0;

  bool Available() override { return available; }
  std::vector<int> Nodes() override { return List(/*all=*/true); }
  std::vector<int> AllowedNodes() override { return List(/*all=*/false); }
  uint64_t FreeBytes(int node) override { return nodes_.at(node).free_bytes; }

  int PlaceMemory(char* data, size_t bytes, int node, Placement placement) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (placing_fails_with != 0) return placing_fails_with;
    placed_.push_back({data, bytes, node, placement});
    return 0;
  }

  int RunThreadOn(int node) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (running_fails_with != 0) return running_fails_with;
    threads_[node].insert(::gettid());
    const int processor = nodes_.at(node).processor;
    if (processor < 0) return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(processor), &set);
    return ::sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : errno;
  }

  std::vector<Placed> placed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return placed_;
  }
  // On which node the byte was placed last; kNoNumaNode: on none.
  int NodeOf(const void* byte) const {
    const auto* const at = static_cast<const char*>(byte);
    int node = kNoNumaNode;
    for (const Placed& each : placed()) {
      if (each.data <= at && at < each.data + each.bytes) node = each.node;
    }
    return node;
  }
  size_t BytesPlacedOn(int node) const {
    size_t bytes = 0;
    for (const Placed& each : placed()) bytes += each.node == node ? each.bytes : 0;
    return bytes;
  }
  // All that ever asked.
  std::set<pid_t> ThreadsOn(int node) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = threads_.find(node);
    return found == threads_.end() ? std::set<pid_t>() : found->second;
  }

 private:
  std::vector<int> List(bool all) const {
    std::vector<int> list;
    for (const auto& [number, node] : nodes_) {
      if (all || node.allowed) list.push_back(number);
    }
    return list;
  }

  const std::map<int, Node> nodes_;
  NumaSystem* const before_;
  mutable std::mutex mutex_;
  std::vector<Placed> placed_;
  std::map<int, std::set<pid_t>> threads_;
};

}  // namespace dlsm
