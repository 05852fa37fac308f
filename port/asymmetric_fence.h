// A pair of fences for a protocol in which one side runs far more often than the other: what both
// together order is what two sequentially consistent fences would, and the often-run side pays
// nothing for it (membarrier(2)).
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace dlsm::port {

// All threads of one protocol use the same object, or objects that were made before any of them
// used one: a process is registered once.
class AsymmetricFence {
 public:
  AsymmetricFence()
      : expedited_(::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ==
                   0) {}

  // On the side that runs often.
  void Light() const {
    if (expedited_) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }

  // On the other side: interrupts the processors on which this process runs, for microseconds.
  // False: the kernel refuses by now, and nothing is ordered.
  [[nodiscard]] bool Heavy() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return !expedited_ || ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  }

 private:
  // False: the kernel does not know it, or may not be asked. Then both sides cost the same.
  const bool expedited_;
};

}  // namespace dlsm::port
