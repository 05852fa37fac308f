// One thread's TCP data connection to a memory node.
//
// Posts build a chain; Ring() hands it to the socket with one system call, and what the socket does
// not take at once goes out during later calls. Replies come in the order of requests and are read
// straight into the posters' memory, many with one system call. While sending blocks, replies are
// still read: so the two sides can never wait for each other.
//
// A read and a later write of the same remote bytes are not ordered until the read was waited for,
// as on RDMA devices; everything else takes effect in the order in which it was posted.
//
// A wait for nothing but small reads, of which none was rung for before, may go over a connection
// that threads share (tcp_read_sharing.h). Nothing is under way here then, so that order holds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/fabric.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/ring_queue.h"
#include "util/fabric/span_check.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_peer.h"
#include "util/fabric/tcp/tcp_read_sharing.h"
#include "util/fabric/tcp/tcp_send_queue.h"
#include "util/fabric/tcp/tcp_shared_reads.h"
#include "util/fabric/tls/tcp_stream.h"

namespace dlsm {

class TcpQueuePair : public QueuePair {
 public:
  // `stream` has said its hello. `sharing` null: reads go over this connection only.
  TcpQueuePair(TcpStream stream, std::shared_ptr<const TcpPeer> peer, WireCostRegistry& costs,
               PollGroup& polls, TcpReadSharing* sharing);
  ~TcpQueuePair() override;

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
  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectRead(bytes, purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectWrite(bytes, purpose);
  }
  // A message costs as much as tens of reads.
  size_t worth_ringing() const override {
    const bool together = together_with_others_ && together_with_others_->Pays();
    return together ? kNeverWorthRinging : kTogetherMax;
  }
  bool closed() const override { return !error_.ok(); }

 private:
  // A request whose reply has not come yet.
  struct Outstanding {
    TcpOpcode opcode = TcpOpcode::kHello;
    RegionId region{};  // This and the offset are a read's only.
    uint64_t offset = 0;
    char* data = nullptr;       // Where a read's payload goes.
    uint64_t bytes = 0;         // Of a read's or write's payload.
    uint64_t* prior = nullptr;  // Where an atomic's result goes.
    uint64_t ends_at = 0;       // Where its last byte ends, among all that are ever to be sent.

    size_t payload() const { return opcode == TcpOpcode::kRead ? bytes : 0; }
  };
  // What goes over the shared connection at most: more is worth messages of its own, and would
  // delay the others' reads.
  static constexpr size_t kTogetherMax = 128;
  static constexpr size_t kRepliesPerCall = 64;  // Read by one system call, at most.

  Status CheckRoom();
  Status Append(const TcpRequest& request, const Outstanding& outstanding,
                const char* payload = nullptr);

  // Reads what has been posted over the connection that threads share. False: it does not pay now,
  // or did not work.
  bool ReadTogether(Deadline deadline);
  bool MayReadTogether();
  // Lets go of all that has been posted.
  Status Start(bool* progress);

  // Until request number `until` has completed, which it has not.
  Status Await(uint64_t until, bool just_sent, Deadline deadline);
  // Move what can be moved without blocking, or after sleeping in the first call for a moment;
  // *progress is set if that was anything.
  Status SendSome(bool* progress);
  Status ReceiveSome(bool* progress, bool sleep = false);
  size_t GatherReplies(iovec* parts, size_t* bytes);
  // Completes the requests that the next `bytes` of the reply stream are for.
  Status ConsumeReplies(size_t bytes);
  Status CheckReply(const Outstanding& request, const char* header);

  char* Header(uint64_t number) { return headers_[number % kRepliesPerCall].data(); }
  Status Close(Status why);
  // Waits a moment for the server to finish what it has received of this connection, or to hear
  // that it is to drop it.
  void Drain();
  // Whether a write or an atomic is outstanding.
  bool MayStillChangeMemory() const;

  const std::shared_ptr<const TcpPeer> peer_;
  const SpanCheck check_;
  TcpStream stream_;
  const bool sleeps_in_receive_;
  QueuePairLedger ledger_;
  AdaptivePoll poll_;
  std::optional<TcpReadSharing::Reader> together_with_others_;  // None: it may not.
  Status error_;                                                // Not OK: closed, and why.

  TcpSendQueue sending_;
  RingQueue<Outstanding> outstanding_;  // The front is request number completed_ + 1.
  uint64_t completed_ = 0;
  uint64_t started_ = 0;       // Requests let go of for this connection.
  size_t front_received_ = 0;  // Bytes of the front's reply, header included.
  std::array<TcpReply::Encoded, kRepliesPerCall> headers_;
  std::vector<TcpSharedReads::Read> together_;  // Kept for its memory.
};

}  // namespace dlsm
