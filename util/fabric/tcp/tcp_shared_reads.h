// Small reads of many threads over one TCP data connection.
//
// Where more threads wait for answers than there are processors, a read over a connection of its
// own costs a message each way, with system calls and wake-ups at both ends, and they are nearly
// all that it costs. Here reads go together that came while others were received, and what was
// answered meanwhile is received together. Who sees to that is whoever gets the processor: a reader
// gives it up for some turns, and serves the connection for all whenever it has it back. To be
// woken costs more than such a turn. A thread of the connection's own serves it, too: alone, once
// the readers sleep.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dLSM/status.h"
#include "port/bell.h"
#include "port/cpu.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/fabric.h"
#include "util/fabric/ring_queue.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_peer.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/file_descriptor.h"

namespace dlsm {

class TcpSharedReads {
 public:
  struct Read {
    RegionId region{};
    uint64_t offset = 0;
    LocalSpan to;
  };
  // What is known from outside. Relaxed, and seldom written.
  struct alignas(port::kCacheLineBytes) Gauges {
    // Calls whose reads have arrived: their callers have not slept, or have.
    std::atomic<uint64_t> polled{0};
    std::atomic<uint64_t> slept{0};
    // How many calls are under way at once, lately; 0 once there was none for a while.
    std::atomic<uint32_t> crowd{0};
  };

  // `stream` has said its hello. `polls` is for the thread that this makes; it and `gauges` outlive
  // this.
  static Status Start(TcpStream stream, std::shared_ptr<const TcpPeer> peer, PollGroup& polls,
                      Gauges& gauges, std::shared_ptr<TcpSharedReads>* shared);
  // Nobody is in Run().
  ~TcpSharedReads();
  TcpSharedReads(const TcpSharedReads&) = delete;
  TcpSharedReads& operator=(const TcpSharedReads&) = delete;

  // Thread-safe. Returns when all of `reads`, at least one, have arrived. Where it fails, at the
  // deadline or with the connection, nothing is written to their memory any more. A refusal of one
  // thread's read ends the connection for all: they do better over connections of their own then.
  // `turns` has begun: the caller takes turns as long as that says so, and sleeps then. Never
  // throws, not even where memory is short: others have its reads, which lie on its stack.
  Status Run(std::span<const Read> reads, Deadline deadline, AdaptivePoll& turns) noexcept
      LOCKS_EXCLUDED(serving_);

  // Run() would fail.
  bool closed() const { return closed_.load(std::memory_order_seq_cst); }

 private:
  // One Run(): its caller's until it is submitted, then who serves has it until it is done. It
  // shares no cache line with what else its caller has on the stack.
  struct alignas(port::kCacheLineBytes) Call {
    std::span<const Read> reads;
    Deadline deadline;
    size_t left = 0;         // Reads whose replies have not come.
    size_t flight = 0;       // By whose bell it waits.
    Call* before = nullptr;  // Submitted before this one.
    std::atomic<bool> sleeps{false};
    std::atomic<bool> done{false};
    Status status{};
  };
  // A read whose reply has not come yet.
  struct Outstanding {
    Call* call = nullptr;  // Null: nobody wants it any more.
    char* to = nullptr;
    uint64_t bytes = 0;
  };
  // Calls that were submitted at about the same time. Its bell rings when none of them is under
  // way, after a reader's turn in which one was done, or when nothing more has arrived after that.
  struct Flight {
    port::Bell bell;
    // As serving_ guards them.
    uint32_t calls = 0;    // Those under way.
    bool unheard = false;  // One is done, and the bell has not rung since.
  };
  // Their numbers go round. Replies come in order, so flights under way follow each other, and are
  // no more than threads that wait; with more threads than this, two flights may ring together.
  static constexpr uint32_t kFlights = 1024;

  TcpSharedReads(TcpStream stream, std::shared_ptr<const TcpPeer> peer, PollGroup& polls,
                 Gauges& gauges, FileDescriptor wake);

  void Submit(Call* call) LOCKS_EXCLUDED(serving_);
  void Await(Call* call, AdaptivePoll& turns) LOCKS_EXCLUDED(serving_);
  void Wake();

  // The thread.
  void Serve() LOCKS_EXCLUDED(serving_);
  // Until there is something to receive, or room to send what is left, a call was submitted, a
  // deadline has passed, a crowd may have to be forgotten, or it is told to end.
  void Sleep() LOCKS_EXCLUDED(serving_);
  void Close() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  // A reader's turn: a round, if nobody is at it.
  void TakeTurn() LOCKS_EXCLUDED(serving_);

  struct Progress {
    bool sent = false;
    bool received = false;
    bool any() const { return sent || received; }
  };
  // Sends and receives what can be without blocking. False: the end, as end_ says. Only the thread
  // closes the connection then, for it may be asleep over it.
  bool Round(Progress* progress) noexcept EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void TryRound(Progress* progress) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  // Takes over what was submitted.
  void TakeCalls() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void Take(Call* call) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void Append(Call* call) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  // Move what can be moved without blocking; set what was if that was anything.
  Status SendSome(bool* sent) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void DropSent() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  Status ReceiveSome(bool* received) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  Status Consume(const char* from, size_t bytes) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  Status CheckFront() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void PopFront() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void Finish(Call* call, Status status) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void UpdateGauges() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  // Never, while a call is under way.
  Deadline::Clock::time_point CrowdForgottenAt() const EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void Ring(Flight& flight) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  void RingUnheard() EXCLUSIVE_LOCKS_REQUIRED(serving_);
  // Lets go of the calls whose deadlines have passed, if that may be one. Fails if the memory node
  // has been silent for long.
  Status DropLate(Deadline::Clock::time_point now) EXCLUSIVE_LOCKS_REQUIRED(serving_);
  Status Late() const;
  // Lets go of all calls, those that have just been submitted included.
  void FailAll() EXCLUSIVE_LOCKS_REQUIRED(serving_);

  const std::shared_ptr<const TcpPeer> peer_;
  const FileDescriptor wake_;  // An eventfd.
  Gauges& gauges_;
  std::atomic<bool> stopping_{false};
  // Set before the last calls are let go of: who submits and does not see it will be one of them.
  std::atomic<bool> closed_{false};
  // The thread sleeps, or is about to, and has not been woken. Before it does it looks whether
  // anything was submitted; who submits looks at this afterwards.
  std::atomic<bool> asleep_{false};
  std::array<Flight, kFlights> flights_;

  // The last one submitted, which knows the one before: every reader writes this.
  alignas(port::kCacheLineBytes) std::atomic<Call*> submitted_{nullptr};
  std::atomic<uint32_t> flight_{0};  // Of the next call.

  alignas(port::kCacheLineBytes) port::Mutex serving_;  // Held for a round.
  Status end_ GUARDED_BY(serving_);                     // Not OK: nobody serves any more.
  TcpStream stream_;  // As serving_ guards it; its descriptor stays until Close().
  std::vector<char> to_send_ GUARDED_BY(serving_);
  size_t sent_ GUARDED_BY(serving_) = 0;  // Of to_send_.
  uint32_t last_sequence_ GUARDED_BY(serving_) = 0;
  RingQueue<Outstanding> outstanding_ GUARDED_BY(serving_);
  std::vector<Flight*> unheard_ GUARDED_BY(serving_);  // Perhaps.
  uint32_t under_way_ GUARDED_BY(serving_) = 0;        // Calls.
  // Since gauges_ were updated: the most that were under way, and what has arrived.
  uint32_t most_under_way_ GUARDED_BY(serving_) = 0;
  uint32_t polled_ GUARDED_BY(serving_) = 0;
  uint32_t slept_ GUARDED_BY(serving_) = 0;
  // No call is late before then.
  Deadline::Clock::time_point next_deadline_ GUARDED_BY(serving_) =
      Deadline::Clock::time_point::max();
  // Nothing was received, though something was asked.
  Deadline::Clock::time_point silent_since_ GUARDED_BY(serving_);
  uint32_t front_sequence_ GUARDED_BY(serving_) = 1;
  size_t front_received_ GUARDED_BY(serving_) = 0;  // Bytes of the front's reply, header included.
  TcpReply::Encoded front_header_ GUARDED_BY(serving_);
  std::vector<char> received_ GUARDED_BY(serving_);

  AdaptivePoll poll_;  // The thread's.
  port::Thread thread_;
};

}  // namespace dlsm
