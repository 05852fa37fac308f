// The pool of registered buffers: memory is registered in large slabs, once, and buffers are cut
// from them; so no registration lies on the data path.
//
// A buffer has a power of two of bytes. What is cut from a slab goes to the shelf of its size and
// stays there for the next; a buffer too large for a slab has a registration of its own, which ends
// when more of those lie idle than the bound.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/fabric/mapped/memory_mapping.h"
#include "util/fabric/verbs/verbs_memory.h"
#include "util/numa.h"

namespace dlsm {

// Thread-safe. Buffers keep it alive, so they may outlive their connection.
class VerbsBuffers : public std::enable_shared_from_this<VerbsBuffers> {
 public:
  // Its slabs prefer the NUMA node.
  explicit VerbsBuffers(std::shared_ptr<const VerbsDomain> domain, int numa_node = kNoNumaNode);

  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) LOCKS_EXCLUDED(mutex_);
  // For a queue pair that the device does not destroy, and that may still reach what it was given:
  // no memory is handed out any more, and all of it is kept for good. Takes no memory itself.
  void Abandon() LOCKS_EXCLUDED(mutex_);
  uint64_t registrations() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Slab {
    MemoryMapping memory;
    PreferredMemory on_node;
    VerbsRegistration registration{nullptr, nullptr};  // Ends before the memory.
    size_t cut_bytes = 0;
    std::shared_ptr<Slab> kept_before;  // See kept_.
  };
  struct Piece {
    char* data = nullptr;
    uint32_t local_key = 0;
    std::shared_ptr<Slab> own;  // Of a buffer that is too large for a slab.
  };

  Status Take(size_t bytes, Piece* piece) LOCKS_EXCLUDED(mutex_);
  void Give(Piece piece, size_t bytes) LOCKS_EXCLUDED(mutex_);
  Status NewSlab(size_t bytes, std::shared_ptr<Slab>* slab) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is left of a slab becomes the largest buffers that it makes.
  void ShelveRest(Slab& slab) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Piece>& Shelf(size_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const VerbsDomain> domain_;
  const int numa_node_;

  mutable port::Mutex mutex_;  // Protects what follows; held while a slab is registered.
  std::vector<std::shared_ptr<Slab>> slabs_ GUARDED_BY(mutex_);    // Buffers are cut from the last.
  std::array<std::vector<Piece>, 64> shelves_ GUARDED_BY(mutex_);  // By the size's exponent.
  bool abandoned_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<Slab> kept_ GUARDED_BY(mutex_);  // The last one that came back after that.
  size_t idle_large_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t registrations_ GUARDED_BY(mutex_) = 0;

  std::shared_ptr<VerbsBuffers> abandoned_before_;  // Under the mutex of all those.
};

}  // namespace dlsm
