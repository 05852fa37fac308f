// One data connection as the memory node sees it. Belongs to one fabric thread; never blocks.
//
// Replies of reads point into the region, so a queued reply costs its header only. No more is
// received than can be answered: the replies to all requests that one receive can bring fit into
// the queue, and while the queue has less room than that, nothing is received. So the peer's
// requests wait in its socket, and memory here is bounded whatever the peer does.
//
// Large transfers go by pieces, however much the socket would take or give at once. Otherwise who
// sends as fast as this end decrypts would keep it at one write of gigabytes, with the extents held
// (Reach): nobody else of the thread had a turn meanwhile, and nobody else any memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "util/deadline.h"
#include "util/fabric/reach.h"
#include "util/fabric/region_table.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/message_order.h"

namespace dlsm {

// Bytes of requests, and of replies, with their headers.
struct TcpTraffic {
  uint64_t received = 0;
  uint64_t sent = 0;
};

class TcpServerConnection {
 public:
  // What a thread lends to the connection it is serving.
  static constexpr size_t kScratchBytes = size_t{16} << 10;
  using Scratch = std::array<char, kScratchBytes>;
  // Of what is large, so much is moved at once: software, too, decrypts it within milliseconds. By
  // pieces of 128 KiB, reads of a megabyte were 40% slower over loopback.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // `stream` has said its hello with `token`.
  TcpServerConnection(TcpStream stream, std::string token, ReachPointer reach,
                      const RegionTable& regions, MessageOrder* order,
                      size_t piece_bytes = kPieceBytes);
  // The client hears of it, whoever else still has a descriptor of its socket.
  ~TcpServerConnection() { stream_.Shutdown(); }
  TcpServerConnection(const TcpServerConnection&) = delete;
  TcpServerConnection& operator=(const TcpServerConnection&) = delete;

  // Moves and carries out what it can, within a bound that leaves other connections their turn, and
  // begins no further piece once it is `until`. False: the connection is to be closed (and why is
  // logged, if anything was wrong).
  bool Serve(Scratch& scratch, Deadline::Clock::time_point until);

  // Returns the bytes that were moved since the last call.
  TcpTraffic TakeTraffic() { return std::exchange(traffic_, {}); }

  int socket() const { return stream_.get(); }
  const std::string& peer() const { return peer_; }
  const std::string& token() const { return token_; }
  // A socket can be sent to nearly always: so who holds input is served again soon.
  bool wants_to_send() const { return reply_count_ > 0 || stream_.holds_input(); }
  bool wants_to_receive() const { return HasRoom() && !rejected_; }
  // The events that the thread's epoll instance watches for this connection.
  uint32_t watched_events = 0;

 private:
  struct Reply {
    TcpReply::Encoded header;
    const char* payload = nullptr;
    uint64_t payload_bytes = 0;
    ReachedRange range;  // Of the payload.
  };
  static constexpr size_t kRepliesMax = 1024;
  // A receive brings at most: the end of a write, a request begun before, and whole requests.
  static constexpr size_t kRepliesPerReceive = kScratchBytes / TcpRequest::kBytes + 2;
  static_assert(kRepliesPerReceive <= kRepliesMax / 2);

  bool HasRoom() const { return reply_count_ + kRepliesPerReceive <= kRepliesMax; }
  bool Send(Deadline::Clock::time_point until);
  bool Receive(Scratch& scratch, bool* drained);
  bool Consume(const char* from, size_t bytes);
  void CarryOut(const char* header);
  void StartWrite(const TcpRequest& request);
  void DoAtomic(const TcpRequest& request);
  void Push(const TcpRequest& request, TcpCode code, uint64_t value, const char* payload,
            uint64_t payload_bytes);
  void Forbid(const TcpRequest& request);
  void Reject(const TcpRequest& request, TcpCode code, const std::string& why);
  SocketOutcome SendOrdered(iovec* parts, size_t count, size_t* moved);
  void ConsumeReplies(size_t bytes);

  // Calls `move`, which moves bytes from or to `ranges`, if the client may reach them. False: it
  // may not.
  template <typename Move>
  bool Within(const ReachedRange* ranges, size_t count, bool writes, Move move);

  const RegionTable& regions_;
  MessageOrder* const order_;
  const size_t piece_bytes_;
  const std::string token_;
  const ReachPointer reach_;  // Null: everything.
  TcpStream stream_;
  const std::string peer_;

  // The beginning of a request that has not arrived whole.
  std::array<char, TcpRequest::kBytes> partial_;
  size_t partial_bytes_ = 0;
  // The write whose payload is arriving.
  TcpRequest write_;
  char* write_to_ = nullptr;
  uint64_t write_left_ = 0;

  // A ring of replies not yet sent, the first of them sent in part.
  std::unique_ptr<std::array<Reply, kRepliesMax>> replies_;
  size_t reply_first_ = 0;
  size_t reply_count_ = 0;
  size_t reply_sent_ = 0;
  bool rejected_ = false;  // Nothing more is received; ends when the replies are sent.
  TcpTraffic traffic_;
};

}  // namespace dlsm
