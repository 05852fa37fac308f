// Orders accesses to memory by threads of one process that only messages of another process order.
//
// A peer writes one-sided, which a fabric thread carries out, waits for the answer, and then asks
// another thread of this process, over another connection, to read what it wrote. The kernel's
// sockets order the two; the memory model of C++ does not know that. So each thread calls
// BeforeSend() after what it did and before it tells the peer, and AfterReceive() between hearing
// from the peer and doing what it asks. Whatever was done before any BeforeSend() is then visible
// after every AfterReceive() that a message can have caused.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlsm {

// Thread-safe.
class MessageOrder {
 public:
  // Reads, modifies and writes, so that it passes on what earlier calls of other threads released.
  void BeforeSend() { clock_.fetch_add(1, std::memory_order_acq_rel); }
  // Pairs with BeforeSend().
  void AfterReceive() const { static_cast<void>(clock_.load(std::memory_order_acquire)); }

 private:
  std::atomic<uint64_t> clock_{0};
};

}  // namespace dlsm
