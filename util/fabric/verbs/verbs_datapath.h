// One thread's reliable connection to a memory node over RDMA.
//
// Posts are kept until Ring(), which turns them into a chain of work requests and hands it to the
// device with one call. What does not fit the send queue follows, chain by chain, when Wait() finds
// completions. A request is more than one work request where it is longer than the device's longest
// message, or lies in two registrations of the memory node.
//
// Only the last of a chain and every quarter of the send queue ask for a completion: the device
// completes in order, so one completion tells of all before it.
//
// Memory of the caller that is not registered (its key is 0) is copied through a small registered
// buffer of this queue pair, and so are the words that atomics return. Callers that care for speed
// take their memory from FabricConnection::NewBuffer().
//
// A wait polls for a moment and then sleeps until the device reports a completion or the life line
// ends: the TCP connection over which the queue pair was arranged, and which the memory node closes
// when it dies or cuts this client off.
//
// As on TCP, a read and a later write of the same remote bytes are not ordered until the read was
// waited for; everything else takes effect in the order in which it was posted. Devices promise
// that for writes and what follows them; an atomic, and a write after it, carry a fence for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/fabric.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/ring_queue.h"
#include "util/fabric/span_check.h"
#include "util/fabric/verbs/verbs_bounce.h"
#include "util/fabric/verbs/verbs_counters.h"
#include "util/fabric/verbs/verbs_endpoint.h"
#include "util/fabric/verbs/verbs_farewells.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/fabric/verbs/verbs_slots.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Whom a queue pair talks to. Constant once filled.
struct VerbsPeer {
  NodeId node{};
  std::string name;     // "memory node 1 at host:port", for messages.
  RegionTable regions;  // Without addresses.
};

// What the queue pairs of a connection share. Thread-safe; outlives them.
struct VerbsBooks {
  WireCostRegistry costs;
  VerbsCounterRegistry counters;
  VerbsFarewells farewells;
  VerbsSlots slots;
};

// The error of whatever is to go to `peer` while these, which are its connection's, are pending.
Status FarewellPending(const std::string& peer, const VerbsFarewells& farewells);

class VerbsQueuePair : public QueuePair {
 public:
  // A doorbell has a completion of its own that is polled for.
  static constexpr size_t kWorthRinging = 2 * kReadsWorthRinging;

  // `endpoint` is connected; `life_line` does not block. `memory` covers the peer's regions. `slot`
  // is this queue pair's; null for one that needs none.
  VerbsQueuePair(std::unique_ptr<VerbsEndpoint> endpoint, FileDescriptor life_line,
                 std::shared_ptr<const VerbsPeer> peer, std::vector<VerbsRemoteMemory> memory,
                 std::shared_ptr<VerbsBuffers> buffers, VerbsSlots::Slot slot, VerbsBooks& books);
  ~VerbsQueuePair() override;

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override;
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override;
  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override;
  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override;
  Status Ring() override;
  Status Wait(Ticket ticket, Deadline deadline) override;

  // A wait in steps, for threads that take turns: first BeginWait(), then Advance() until *done,
  // neither of which sleeps or gives up. Wait() at a deadline that has passed does.
  Status BeginWait(Ticket ticket);
  Status Advance(Ticket ticket, bool* done);

  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectRead(bytes, purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectWrite(bytes, purpose);
  }
  size_t worth_ringing() const override { return kWorthRinging; }
  bool closed() const override { return !error_.ok(); }

 private:
  static constexpr int kCompletionsPerPoll = 16;

  // What a caller has posted and the device has not wholly been given.
  struct Request {
    ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
    uint32_t local_key = 0;
    RegionId region{};
    uint64_t offset = 0;
    char* local = nullptr;
    uint64_t bytes = 0;
    uint64_t operand = 0;  // Of an atomic: expected, or addend.
    uint64_t desired = 0;
    uint64_t* prior = nullptr;
  };
  // A work request that the device has and that has not completed.
  struct Flight {
    VerbsBounce::Piece bounce;
    char* copy_to = nullptr;  // Where the bounced bytes of a read or an atomic go.
    size_t copy_bytes = 0;
    uint32_t requests_ended = 0;
  };

  Status CheckPost(const Status& check);
  Status Append(const Request& request);
  Status PostAtomic(const RemoteSpan& word, const Request& request, Purpose purpose,
                    Ticket* ticket);
  // Gives the device what fits, with one doorbell.
  Status Issue();
  // Sets up the next work request. False: there is no room for its bytes yet.
  bool BuildNext(ibv_send_wr* request, ibv_sge* part);
  const VerbsRemoteMemory& Locate(const Request& request, uint64_t offset) const;
  Status Poll(bool* progress);
  // Polls for a moment, or until a completion comes.
  Status PollAWhile(bool* progress);
  void Retire(uint64_t number);
  // Whether the device as a whole has: it completes nothing any more.
  bool DeviceHasFailed() const;
  // Until there may be something to poll for.
  Status Sleep(Deadline deadline);
  Status Failed(const ibv_wc& completion) const;
  Status Lost() const;

  // Returns why: `why`, or what the device has failed of.
  Status Close(Status why);
  // Ends all that is under way; afterwards nothing lands here any more. Nor does it there, or the
  // connection's farewells are pending.
  void Drain();

  const VerbsSlots::Slot slot_;
  const std::shared_ptr<const VerbsPeer> peer_;
  const SpanCheck check_;
  const std::vector<VerbsRemoteMemory> memory_;  // By region and offset.
  const uint64_t message_bytes_max_;
  const std::chrono::microseconds spin_;
  FileDescriptor life_line_;
  VerbsBounce bounce_;  // Its memory outlives the endpoint, which may write to it.
  std::unique_ptr<VerbsEndpoint> endpoint_;  // Null once closed.
  VerbsFarewells& farewells_;
  QueuePairLedger ledger_;
  VerbsCounters counters_;
  Status error_;  // Not OK: closed, and why.

  RingQueue<Request> posted_;
  uint64_t front_issued_ = 0;    // Bytes of the front that the device has been given.
  RingQueue<Flight> in_flight_;  // The front is work request number retired_ + 1.
  uint64_t reported_ = 0;        // The last work request whose completion the device tells of.
  uint64_t retired_ = 0;
  uint64_t last_atomic_ = 0;  // A work request.
  uint64_t completed_ = 0;    // The last ticket that has completed.
  uint32_t unsignaled_ = 0;
  bool notify_armed_ = false;
  std::vector<ibv_send_wr> chain_;
  std::vector<ibv_sge> parts_;
};

}  // namespace dlsm
