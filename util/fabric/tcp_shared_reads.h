// Small reads of many threads over one TCP data connection.
//
// Where more threads wait for answers than there are processors, a read over a connection of its
// own costs a message each way, with system calls and wake-ups at both ends, and they are nearly
// all that it costs. Here the threads hand their reads to one thread, which sends together whatever
// has come while it received, and receives together whatever was answered meanwhile: what is left
// for each thread is to be woken.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dLSM/status.h"
#include "port/bell.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/fabric.h"
#include "util/fabric/file_descriptor.h"
#include "util/fabric/ring_queue.h"
#include "util/fabric/tcp_frame.h"
#include "util/fabric/tcp_peer.h"
#include "util/fabric/tcp_stream.h"

namespace dlsm {

class TcpSharedReads {
 public:
  struct Read {
    RegionId region{};
    uint64_t offset = 0;
    LocalSpan to;
  };

  // `stream` has said its hello. `polls` is for the thread that this makes, and outlives it.
  static Status Start(TcpStream stream, std::shared_ptr<const TcpPeer> peer, PollGroup& polls,
                      std::shared_ptr<TcpSharedReads>* shared);
  // Nobody is in Run().
  ~TcpSharedReads();
  TcpSharedReads(const TcpSharedReads&) = delete;
  TcpSharedReads& operator=(const TcpSharedReads&) = delete;

  // Thread-safe. Returns when all of `reads`, at least one, have arrived. Where it fails, at the
  // deadline or with the connection, nothing is written to their memory any more. A refusal of one
  // thread's read ends the connection for all: they do better over connections of their own then.
  Status Run(std::span<const Read> reads, Deadline deadline) LOCKS_EXCLUDED(mutex_);

  // Run() would fail.
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  // One Run(): its caller's until it is submitted, then the serving thread's until it is done.
  struct Call {
    std::span<const Read> reads;
    Deadline deadline;
    size_t left;    // Reads whose replies have not come.
    size_t flight;  // By whose bell it waits.
    Status status;
    std::atomic<bool> done{false};
  };
  // A read whose reply has not come yet.
  struct Outstanding {
    Call* call = nullptr;  // Null: nobody wants it any more.
    char* to = nullptr;
    uint64_t bytes = 0;
  };
  // Calls that were submitted one after the other. Its bell rings when the last of them is done, or
  // when nothing more has arrived after one was.
  struct Flight {
    port::Bell bell;
    // The serving thread's.
    uint32_t calls = 0;    // Those that are not done.
    bool unheard = false;  // One is done, and the bell has not rung since.
  };
  // Their numbers go round. Replies come in order, so flights under way follow each other, and are
  // no more than threads that wait; with more threads than this, two flights may ring together.
  static constexpr size_t kFlights = 1024;

  TcpSharedReads(TcpStream stream, std::shared_ptr<const TcpPeer> peer, PollGroup& polls,
                 FileDescriptor wake);

  // False: it is closed, and call->status says why.
  bool Submit(Call* call) LOCKS_EXCLUDED(mutex_);
  void NextFlight() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  // The serving thread's.
  void Serve() LOCKS_EXCLUDED(mutex_);
  // Takes over what was submitted. False: the end.
  bool TakeCalls() LOCKS_EXCLUDED(mutex_);
  void Append(Call* call);
  // Move what can be moved without blocking; set what was if that was anything.
  Status SendSome(bool* sent);
  void DropSent();
  Status ReceiveSome(bool* received);
  Status Consume(const char* from, size_t bytes);
  Status CheckFront();
  void PopFront();
  void Finish(Call* call, Status status);
  void Ring(Flight& flight);
  void RingUnheard();
  // Lets go of the calls whose deadlines have passed, if that may be one. Fails if the memory node
  // has been silent for long.
  Status DropLate(Deadline::Clock::time_point now);
  Status Late() const;
  // Until there is something to receive, a call, or a deadline has passed.
  void Sleep() LOCKS_EXCLUDED(mutex_);
  void Fail(const Status& why) LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<const TcpPeer> peer_;
  const FileDescriptor wake_;  // An eventfd.
  std::atomic<bool> closed_{false};
  std::array<Flight, kFlights> flights_;

  port::Mutex mutex_;
  std::vector<Call*> submitted_ GUARDED_BY(mutex_);
  size_t flight_ GUARDED_BY(mutex_) = 0;  // Of the next call.
  size_t reads_of_flight_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool asleep_ GUARDED_BY(mutex_) = false;
  Status why_closed_ GUARDED_BY(mutex_);

  // The serving thread's.
  TcpStream stream_;
  AdaptivePoll poll_;
  std::vector<Call*> taken_;
  std::vector<char> to_send_;
  size_t sent_ = 0;  // Of to_send_.
  uint32_t last_sequence_ = 0;
  RingQueue<Outstanding> outstanding_;
  std::vector<Flight*> unheard_;  // Perhaps.
  // No call is late before then.
  Deadline::Clock::time_point next_deadline_ = Deadline::Clock::time_point::max();
  Deadline::Clock::time_point silent_since_;  // Nothing was received, though something was asked.
  uint32_t front_sequence_ = 1;
  size_t front_received_ = 0;  // Bytes of the front's reply, header included.
  TcpReply::Encoded front_header_;
  std::vector<char> received_;

  port::Thread thread_;
};

}  // namespace dlsm
