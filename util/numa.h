// Memory and threads on one NUMA node of this machine. What the kernel is asked goes through
// NumaSystem, which is libnuma; a test puts another one in its place (numa_testing.h).
//
// Two ways to place memory:
//   bound       a memory node's region: its pages come from the node, or from nowhere
//   preferred   a handle's memtables and transfer buffers: where the node has no more, the kernel
//               takes pages of another node. An application is not ended for the sake of speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"

namespace dlsm {

// Memory and threads are wherever the kernel puts them. As Options::kNoNumaNode.
inline constexpr int kNoNumaNode = -1;
// The node of the RDMA device that is used, if any. As Options::kNumaNodeOfDevice.
inline constexpr int kNumaNodeOfDevice = -2;

// Thread-safe.
class NumaSystem {
 public:
  enum class Placement : uint8_t { kBound, kPreferred };

  virtual ~NumaSystem() = default;

  // Returns false if the kernel has no NUMA, or if rules for this process (a container's) hide it.
  // Then nothing else is called.
  virtual bool Available() = 0;
  // The nodes that have memory, and those of them whose memory this process may use; ascending.
  virtual std::vector<int> Nodes() = 0;
  virtual std::vector<int> AllowedNodes() = 0;
  // Bytes of the node's memory that nothing is in, or UINT64_MAX if that is not known.
  virtual uint64_t FreeBytes(int node) = 0;
  // Pages of the range that are taken from now on come from the node, which is an allowed one. 0 or
  // an error's number.
  virtual int PlaceMemory(char* data, size_t bytes, int node, Placement placement) = 0;
  // The calling thread, and all that it makes from then on, run on those processors of the node on
  // which it could run before. 0 or an error's number.
  virtual int RunThreadOn(int node) = 0;

  // That of this machine, or the one in its place.
  static NumaSystem& Current();
  // For tests: puts another one in its place, which outlives all that uses it, and returns the one
  // before. A null pointer stands for that of this machine.
  static NumaSystem* Replace(NumaSystem* system);
};

// OK for kNoNumaNode and kNumaNodeOfDevice. InvalidArgument names the nodes that there are;
// NotSupported: there is no NUMA here.
Status CheckNumaNode(int node);

// -------- Memory

// Binds the range. InvalidArgument and NotSupported as above; a kernel that does not let this
// process choose is noted in *note instead. The node is none of the two special ones.
Status BindMemory(char* data, size_t bytes, int node, std::string* note);

// Memory that prefers its node, counted as long as this lives. It owns no memory.
class PreferredMemory {
 public:
  PreferredMemory() = default;
  // kNoNumaNode: does nothing. A refusal costs speed only, and is not counted.
  PreferredMemory(char* data, size_t bytes, int node) noexcept;
  PreferredMemory(PreferredMemory&& other) noexcept;
  PreferredMemory& operator=(PreferredMemory&& other) noexcept;
  ~PreferredMemory();

 private:
  int node_ = kNoNumaNode;
  size_t bytes_ = 0;
};

// -------- Threads

// Keeps the calling thread on the node until this is destroyed; threads that it makes meanwhile
// stay there. Made and destroyed by the same thread.
class ThreadOnNumaNode {
 public:
  // kNoNumaNode: does nothing.
  explicit ThreadOnNumaNode(int node);
  ThreadOnNumaNode(const ThreadOnNumaNode&) = delete;
  ThreadOnNumaNode& operator=(const ThreadOnNumaNode&) = delete;
  ~ThreadOnNumaNode();

  // OK, or why it is not kept there. It runs where it could before, then.
  const Status& status() const { return status_; }

 private:
  struct Processors;

  int node_;  // kNoNumaNode: there is nothing to be undone.
  std::unique_ptr<Processors> before_;
  Status status_;
};

// -------- What there is, of this process

struct NumaUse {
  uint64_t preferred_bytes = 0;  // Of PreferredMemory.
  uint64_t threads = 0;          // Of ThreadOnNumaNode.
};
NumaUse NumaUseOf(int node);

}  // namespace dlsm
