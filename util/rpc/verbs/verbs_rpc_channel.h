// A client's end of the verbs and ring transports. The messages are in transport_messages.h, the
// rings in rpc_ring.h.
//
// A call takes a slot and a place for its reply, and sends its request: on verbs as a SEND out of
// the slot's buffer, on ring with one RDMA WRITE. What is too large for that stays in registered
// memory of this process, and the memory node reads it. Then the call waits until its reply stands
// in its place:
//
//   verbs  it sleeps until the device reports the immediate that came with the reply
//   ring   it polls its place for kRingSpin, and then sleeps for short naps, looking again after
//          each; calls that take long by nature (merges) ask for an immediate, and sleep
//
// Of the callers that sleep, one waits for the device's events and for the end of the control
// connection, and wakes the others.
//
// A call that is given up at its deadline leaves its slot and its place to the reply that may still
// come: neither is used again before that has happened. When too many are held like that, the
// channel fails: its queue pair is destroyed, and the next channel starts afresh.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/file_descriptor.h"
#include "util/rpc/auth/control_stream.h"
#include "util/rpc/channel/rpc_channel.h"
#include "util/rpc/channel/rpc_counts.h"
#include "util/rpc/verbs/ring_sleep.h"
#include "util/rpc/verbs/rpc_ring.h"
#include "util/rpc/verbs/rpc_transport.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/rpc/verbs/verbs_rpc_link.h"

namespace dlsm {

class VerbsRpcChannel final : public RpcChannel {
 public:
  // `control` has passed the hello and sent nothing since. An error says which side cannot.
  static Status Open(const RpcTransportOptions& options, ControlStream control,
                     const std::string& where, Deadline deadline,
                     std::shared_ptr<VerbsRpcChannel>* channel);
  ~VerbsRpcChannel() override;

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override
      LOCKS_EXCLUDED(mutex_);
  bool failed() override LOCKS_EXCLUDED(mutex_);

  RpcCounts counts() override LOCKS_EXCLUDED(mutex_);

 private:
  // The state's segment, then the reply ring.
  static constexpr size_t kReplySegments = 4096;
  // The first nap of a wait, doubled up to the last. The last one bounds what is lost on ring when
  // the memory node goes to sleep at the moment in which a request is on its way.
  static constexpr std::chrono::microseconds kNapMin{50};
  static constexpr std::chrono::milliseconds kNapMax{1};

  // One call under way.
  struct Slot {
    Slot(port::Mutex& mutex, uint16_t number) : index(number), wakeup(mutex) {}

    enum class State { kFree, kWaiting, kHeld };  // kHeld: until `replied` and `sent`.
    const uint16_t index;
    State state = State::kFree;
    uint64_t call = 0;
    bool immediate = false;
    bool replied = true;  // No reply to this call will be written any more.
    bool sent = true;     // The device is done with the slot's request buffer.
    bool sleeping = false;
    uint64_t request_number = 0;  // In the request ring.

    // Where the reply is to be written: its segments of the reply ring, or memory of its own.
    char* place = nullptr;
    size_t place_segments = 0;
    uint32_t place_key = 0;
    size_t ring_at = 0;
    size_t ring_segments = 0;
    std::shared_ptr<RpcMemory> large_request;
    std::shared_ptr<RpcMemory> large_reply;

    port::CondVar wakeup;
  };
  // A request to be sent; the payload is not here when the memory node is to read it.
  struct Outgoing {
    RequestHead head;
    FrameHeader frame;
    Slice payload;

    size_t bytes() const { return kRequestHeadBytes + kFrameHeaderBytes + payload.size(); }
    void BuildAt(char* to) const;
  };

  VerbsRpcChannel(RpcTransport transport, ControlStream control, std::string where);

  Status Arrange(const VerbsOptions& options, Deadline deadline) LOCKS_EXCLUDED(mutex_);
  Status Offer(const TransportOffer& offer, Deadline deadline, TransportAnswer* answer);
  Status MakeMemory(const TransportAnswer& answer) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A free slot with a place; nullptr if there is none now.
  Status TryTakeSlot(Method method, Slot** slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status TakeSlot(Method method, Deadline deadline, Slot** slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo(Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeHeld() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replied(Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status NoRoom() const;

  Status CallInSlot(FrameHeader frame, const Slice& request, std::string* reply, Deadline deadline,
                    Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status OfferPayload(const Slice& payload, Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status MakeLargerPlace(const RingMessage& message, Slot* slot) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status SendRequest(Outgoing* outgoing, Deadline deadline, Slot* slot)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // *sent stays false if there is no room now.
  Status SendMessage(const Outgoing& outgoing, Slot* slot, bool* sent)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status WriteToRing(const Outgoing& outgoing, Slot* slot, bool* sent)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t State() const;
  void WakeServer() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Status AwaitReply(Deadline deadline, Slot* slot, RingMessage* message)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Look(const Slot& slot, RingMessage* message) const;
  // Without the mutex meanwhile.
  void Spin(const Slot& slot, Deadline deadline) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until something may have changed: watching the device, or woken by who does. `slot` is null for
  // a call that waits for room.
  void Sleep(Slot* slot, Deadline deadline, std::chrono::nanoseconds nap)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch(Deadline until) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PassWatchOn() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll(bool* progress) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status TakeReply(const RingMessage& message, uint64_t call, std::string* reply) const;
  bool LifeLineEnded() const;
  Status Closed() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const Status& why) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool ring_;
  const RpcTransport transport_;
  const std::string where_;
  const uint64_t salt_;
  TcpStream socket_;  // The life line.
  FrameSeals seals_;  // Of the frames that arrange the queue pair.

  // Constant once open.
  FileDescriptor events_;  // Of its own, for it is waited for without the mutex.
  char* state_ = nullptr;  // The memory node writes to it.
  RpcRemote ring_remote_;
  size_t request_bytes_max_ = 0;

  port::Mutex mutex_;  // Protects what follows; not held while a caller polls or sleeps.
  Status failure_ GUARDED_BY(mutex_);
  std::shared_ptr<RpcMemory> own_memory_ GUARDED_BY(mutex_);    // Requests, or the ring's mirror.
  std::shared_ptr<RpcMemory> reply_memory_ GUARDED_BY(mutex_);  // The state, and the reply ring.
  RpcMemoryPool request_pool_ GUARDED_BY(mutex_);
  RpcMemoryPool reply_pool_ GUARDED_BY(mutex_);

  std::deque<Slot> slots_ GUARDED_BY(mutex_);
  port::CondVar slot_free_{mutex_};
  int slot_waiters_ GUARDED_BY(mutex_) = 0;
  SegmentAllocator places_ GUARDED_BY(mutex_);
  std::optional<RingAllocator> requests_ GUARDED_BY(mutex_);
  uint64_t consumed_ GUARDED_BY(mutex_) = 0;        // Requests in the ring that have been read.
  std::deque<uint64_t> unsent_ GUARDED_BY(mutex_);  // Whose bytes the device may still read.
  uint64_t next_call_ GUARDED_BY(mutex_) = 1;
  RingWake wake_ GUARDED_BY(mutex_);
  bool watched_ GUARDED_BY(mutex_) = false;  // A caller waits for events.
  bool armed_ GUARDED_BY(mutex_) = false;
  std::vector<VerbsRpcLink::Received> received_ GUARDED_BY(mutex_);
  std::unique_ptr<VerbsRpcLink> link_ GUARDED_BY(mutex_);  // Goes before the memory. Null: failed.
  RpcCounts last_counts_ GUARDED_BY(mutex_);               // Of the link that has gone.
};

}  // namespace dlsm
