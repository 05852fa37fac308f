// When the threads that read from one memory node over tcp share a connection, and which.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/deadline.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/tcp_peer.h"
#include "util/fabric/tcp_shared_reads.h"
#include "util/fabric/tcp_stream.h"

namespace dlsm {

// Thread-safe.
class TcpReadSharing {
 public:
  // Makes a data connection that has said its hello.
  using Open = std::function<Status(Deadline deadline, TcpStream* stream)>;

  // They share while `waiting` is crowded. `poll`: how long the thread that serves them may poll.
  TcpReadSharing(std::shared_ptr<const TcpPeer> peer, const PollGroup& waiting,
                 std::chrono::nanoseconds poll, unsigned processors, Open open);

  // Whether a thread that has to wait now does better to read together with others.
  bool pays() const { return waiting_.crowded(); }
  // False: they have not arrived, and nothing is written to their memory any more. Then there is
  // still time before the deadline to read otherwise, if there was any.
  bool Read(std::span<const TcpSharedReads::Read> reads, Deadline deadline);
  // How many Read() has brought.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }

 private:
  // A connection for some of the threads: on a large machine, one thread for all would be the
  // limit.
  struct Lane {
    port::Mutex mutex;
    std::shared_ptr<TcpSharedReads> shared GUARDED_BY(mutex);  // Null: none was needed so far.
    // Before then nobody connects: somebody does just now, or it has just failed.
    port::Clock::time_point not_before GUARDED_BY(mutex) = port::Clock::time_point::min();
  };

  // Null: there is none now.
  std::shared_ptr<TcpSharedReads> Connected(Lane& lane, Deadline deadline);

  const std::shared_ptr<const TcpPeer> peer_;
  const PollGroup& waiting_;
  const Open open_;
  PollGroup polls_;  // Of the thread that serves them.
  std::atomic<uint64_t> waits_{0};
  std::vector<Lane> lanes_;
};

}  // namespace dlsm
