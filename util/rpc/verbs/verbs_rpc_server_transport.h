// The memory node's end of one connection's calls over verbs or ring; see verbs_rpc_server.h for
// how it works. Requests are in verbs_rpc_server.cc, replies in verbs_rpc_server_reply.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/channel/server_transport.h"
#include "util/rpc/verbs/ring_sleep.h"
#include "util/rpc/verbs/rpc_ring.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/rpc/verbs/verbs_rpc_link.h"

namespace dlsm {

class VerbsServerTransport : public ServerTransport,
                             public std::enable_shared_from_this<VerbsServerTransport> {
 public:
  VerbsServerTransport(const ServerTransportContext& context, const TransportOffer& offer)
      : context_(context), offer_(offer), ring_(offer.transport == RpcTransport::kRing) {}

  Status Start(std::shared_ptr<const VerbsDevice> device, std::string* answer)
      LOCKS_EXCLUDED(mutex_);

  Status Poll(bool* progress) override LOCKS_EXCLUDED(mutex_);
  Status PrepareToSleep(bool* ready) override LOCKS_EXCLUDED(mutex_);
  int events() const override { return events_; }
  void TakeEvent() override LOCKS_EXCLUDED(mutex_);
  void End() override LOCKS_EXCLUDED(mutex_);
  RpcCounts counts() override LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return link_ != nullptr ? link_->counts() : last_counts_;
  }

 private:
  using Clock = port::Clock;

  // verbs: a client has at most kRpcSlots requests under way; a further one may come while the
  // buffer of an answered one is not posted again yet.
  static constexpr uint32_t kReceives = kRpcSlots + kRpcSlots / 2;
  static constexpr uint32_t kReceiveBytes = 2048;
  // Replies up to this size have registered memory at hand.
  static constexpr size_t kStagingBytes = 8 << 10;
  static constexpr size_t kStagings = 16;

  // A request whose payload is read out of the client's memory.
  struct Fetched {
    RequestHead head;
    FrameHeader frame;
    std::shared_ptr<RpcMemory> memory;  // Null before that.
  };
  // A reply that did not fit.
  struct Parked {
    uint64_t call = 0;
    std::string frame;
  };
  // Bytes to be written to the client.
  struct Write {
    RpcRemote to;
    RingKind kind = RingKind::kMessage;
    uint64_t call = 0;
    std::optional<uint32_t> immediate;
    std::string frame;
  };
  Status MakeMemory() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostAllReceives() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostReceive(uint32_t id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of the connection's thread.
  Status PollRing(bool* progress) LOCKS_EXCLUDED(mutex_);
  // The ring's reader has something to do.
  Status Active() LOCKS_EXCLUDED(mutex_);
  Status HandleMessage(const Slice& bytes) LOCKS_EXCLUDED(mutex_);
  Status StartReading(const RequestMessage& message) LOCKS_EXCLUDED(mutex_);
  // Begins to read what waits for that, in order, as far as there is room.
  Status ReadUnread() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status Read(const Fetched& unread) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status TakeFetched(bool* progress) LOCKS_EXCLUDED(mutex_);
  void Handle(const RequestHead& head, const FrameHeader& frame, const Slice& payload)
      LOCKS_EXCLUDED(mutex_);
  Status SendParked(const RequestMessage& message) LOCKS_EXCLUDED(mutex_);

  // Of any thread.
  void Reply(const RequestHead& head, const FrameHeader& request, const Status& status,
             const std::string& reply) noexcept LOCKS_EXCLUDED(mutex_);
  void MakeReply(const RequestHead& head, const FrameHeader& request, const Status& status,
                 const std::string& reply) LOCKS_EXCLUDED(mutex_);
  // Now if there is room, otherwise later. An error ends the connection: it is kept.
  void Send(Write write) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status SendWaiting() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // *sent is false if there is no room.
  Status TrySend(const Write& write, bool* sent) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status PostWrite(char* from, size_t bytes, uint32_t local_key, const Write& write,
                   VerbsRpcLink::Done done) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is room for it.
  Status TellState(VerbsRpcLink::Done done) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // If the client has not heard yet that the thread is awake, and there is room for that.
  Status TellAwake() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServerTransportContext context_;
  const TransportOffer offer_;
  const bool ring_;
  // Constant once started.
  int events_ = -1;
  const char* receives_ = nullptr;

  // Of the connection's thread.
  std::optional<RingReader> reader_;
  std::vector<VerbsRpcLink::Received> received_;
  std::string request_;
  Clock::time_point idle_since_{};
  uint64_t requests_ = 0;

  port::Mutex mutex_;  // Protects what follows. Not held while the handler runs.
  std::shared_ptr<RpcMemory> ring_memory_ GUARDED_BY(mutex_);
  std::shared_ptr<RpcMemory> own_memory_ GUARDED_BY(mutex_);  // Receives, stagings, state.
  char* state_ GUARDED_BY(mutex_) = nullptr;
  std::vector<char*> free_stagings_ GUARDED_BY(mutex_);
  RpcMemoryPool pool_ GUARDED_BY(mutex_){IBV_ACCESS_LOCAL_WRITE};
  std::map<uint16_t, Parked> parked_ GUARDED_BY(mutex_);  // By slot.
  size_t parked_bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<Write> waiting_ GUARDED_BY(mutex_);
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<Fetched> unread_ GUARDED_BY(mutex_);  // Of no more calls than there are slots.
  size_t reading_bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<Fetched> fetched_ GUARDED_BY(mutex_);
  size_t calls_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  bool armed_ GUARDED_BY(mutex_) = false;
  bool armed_for_all_ GUARDED_BY(mutex_) = false;
  RingSleep sleep_ GUARDED_BY(mutex_);
  bool untold_ GUARDED_BY(mutex_) = false;                 // That it is awake.
  RpcCounts last_counts_ GUARDED_BY(mutex_);               // Of the link that has gone.
  std::unique_ptr<VerbsRpcLink> link_ GUARDED_BY(mutex_);  // Null once ended. Goes before memory.
};

}  // namespace dlsm
