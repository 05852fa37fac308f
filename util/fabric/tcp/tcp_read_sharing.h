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
#include "port/cpu.h"
#include "port/mutex.h"
#include "util/deadline.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/tcp/tcp_peer.h"
#include "util/fabric/tcp/tcp_shared_reads.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/wait_counts.h"

namespace dlsm {

// Thread-safe.
class TcpReadSharing {
 private:
  struct Lane;

 public:
  // Makes a data connection that has said its hello.
  using Open = std::function<Status(Deadline deadline, TcpStream* stream)>;

  // They share while those who wait on their own, of whom `waiting` knows, and those who share
  // already are a crowd. `poll`: how long the thread that serves them may poll; 0: readers do not
  // take turns either.
  TcpReadSharing(std::shared_ptr<const TcpPeer> peer, const PollGroup& waiting,
                 std::chrono::nanoseconds poll, unsigned processors, Open open);

  // One thread's.
  class Reader {
   public:
    // `sharing` outlives it.
    explicit Reader(TcpReadSharing& sharing);

    // Whether this thread, which has to wait now, does better to read together with others.
    bool Pays() const;
    // False: they have not arrived, and nothing is written to their memory any more. Then there is
    // still time before the deadline to read otherwise, if there was any.
    bool Read(std::span<const TcpSharedReads::Read> reads, Deadline deadline);

   private:
    TcpReadSharing& sharing_;
    Lane& lane_;
    std::shared_ptr<TcpSharedReads> shared_;  // The lane's; an ended one until the next read.
    PollGroup turns_group_;
    AdaptivePoll turns_;
  };

  // Of the waits of all Reader::Read() that have brought something.
  WaitCounts Waits() const;

 private:
  // A connection for some of the threads: on a large machine, one for all would be the limit.
  struct Lane {
    TcpSharedReads::Gauges gauges;
    port::Mutex mutex;
    std::shared_ptr<TcpSharedReads> shared GUARDED_BY(mutex);  // Null: none was needed so far.
    // Before then nobody connects: somebody does just now, or it has just failed.
    port::Clock::time_point not_before GUARDED_BY(mutex) = port::Clock::time_point::min();
  };

  // Null: there is none now.
  std::shared_ptr<TcpSharedReads> Connected(Lane& lane, Deadline deadline);

  const std::shared_ptr<const TcpPeer> peer_;
  const PollGroup& waiting_;
  const std::chrono::nanoseconds poll_;
  const Open open_;
  PollGroup polls_;  // Of the threads that serve them.
  std::vector<Lane> lanes_;
  std::atomic<size_t> next_lane_{0};
};

}  // namespace dlsm
