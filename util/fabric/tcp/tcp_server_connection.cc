#include "util/fabric/tcp/tcp_server_connection.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

#include "port/prefetch.h"
#include "port/thread_sanitizer.h"
#include "util/log.h"

namespace dlsm {
namespace {

constexpr size_t kReplyPartsMax = 256;
// Receives in a row before other connections get their turn.
constexpr int kRoundsMax = 32;

}  // namespace

TcpServerConnection::TcpServerConnection(TcpStream stream, std::string token, ReachPointer reach,
                                         const RegionTable& regions, MessageOrder* order,
                                         size_t piece_bytes)
    : regions_(regions),
      order_(order),
      piece_bytes_(piece_bytes),
      token_(std::move(token)),
      reach_(std::move(reach)),
      stream_(std::move(stream)),
      peer_(SocketPeerName(stream_.get())),
      replies_(std::make_unique<std::array<Reply, kRepliesMax>>()) {}

bool TcpServerConnection::Serve(Scratch& scratch, Deadline::Clock::time_point until) {
  bool drained = false;
  int round = 0;
  for (; round < kRoundsMax && !drained; ++round) {
    if (!wants_to_receive() || (round > 0 && Deadline::Clock::now() >= until)) break;
    if (!Receive(scratch, &drained) || !Send(until)) return false;
  }
  if (round == 0 && !Send(until)) return false;
  return !rejected_ || reply_count_ > 0;
}

template <typename Move>
bool TcpServerConnection::Within(const ReachedRange* ranges, size_t count, bool writes, Move move) {
  if (reach_ == nullptr || count == 0) [[likely]] {
    move();
    return true;
  }
  return reach_->During(ranges, count, writes, move);
}

bool TcpServerConnection::Receive(Scratch& scratch, bool* drained) {
  // The rest of a write goes where it belongs, what follows it into the scratch.
  iovec parts[2];
  size_t count = 0;
  const size_t piece = std::min<uint64_t>(write_left_, piece_bytes_);
  size_t asked = piece;
  if (piece > 0) parts[count++] = iovec{write_to_, piece};
  if (piece == write_left_) {
    parts[count++] = iovec{scratch.data(), scratch.size()};
    asked += scratch.size();
  }
  size_t moved = 0;
  SocketOutcome outcome = SocketOutcome::kBlocked;
  // What was the client's when it began to write may have been given back, and to another, since.
  const ReachedRange range{write_.region, write_.offset + (write_.operand - write_left_), piece};
  if (!Within(&range, piece > 0 ? 1 : 0, /*writes=*/true,
              [&] { outcome = stream_.Receive(parts, count, &moved); })) {
    Forbid(write_);
    return true;
  }
  switch (outcome) {
    case SocketOutcome::kMoved:
      break;
    case SocketOutcome::kBlocked:
      *drained = true;
      return true;
    case SocketOutcome::kEnded:
      return false;
    case SocketOutcome::kFailed:
      Log().Info("data connection of {} lost: {}", peer_, stream_.Failure());
      return false;
  }
  order_->AfterReceive();
  traffic_.received += moved;
  *drained = moved < asked;
  const size_t written = std::min(moved, piece);
  if (written > 0) {
    write_to_ += written;
    write_left_ -= written;
    if (write_left_ == 0) Push(write_, TcpCode::kOk, write_.operand, nullptr, 0);
  }
  return Consume(scratch.data(), moved - written);
}

bool TcpServerConnection::Consume(const char* from, size_t bytes) {
  const char* end = from + bytes;
  while (from < end && !rejected_) {
    const auto available = static_cast<size_t>(end - from);
    if (write_left_ > 0) {
      const size_t taken = std::min<uint64_t>(available, write_left_);
      const ReachedRange range{write_.region, write_.offset + (write_.operand - write_left_),
                               taken};
      if (!Within(&range, 1, /*writes=*/true, [&] { std::memcpy(write_to_, from, taken); })) {
        Forbid(write_);
        return true;
      }
      from += taken;
      write_to_ += taken;
      write_left_ -= taken;
      if (write_left_ == 0) Push(write_, TcpCode::kOk, write_.operand, nullptr, 0);
    } else if (partial_bytes_ == 0 && available >= TcpRequest::kBytes) {
      CarryOut(from);
      from += TcpRequest::kBytes;
    } else {
      const size_t taken = std::min(available, TcpRequest::kBytes - partial_bytes_);
      std::memcpy(partial_.data() + partial_bytes_, from, taken);
      from += taken;
      partial_bytes_ += taken;
      if (partial_bytes_ < TcpRequest::kBytes) break;
      partial_bytes_ = 0;
      CarryOut(partial_.data());
    }
  }
  return true;
}

void TcpServerConnection::CarryOut(const char* header) {
  TcpRequest request;
  const TcpCode code = request.Decode(header);
  if (code == TcpCode::kOtherVersion) {
    return Reject(request, code,
                  fmt::format("speaks version {} of the data protocol, not {}",
                              static_cast<uint8_t>(header[0]), kTcpVersion));
  }
  if (code != TcpCode::kOk) return Reject(request, code, "sent a malformed request");
  switch (request.opcode) {
    case TcpOpcode::kHello:
      return Push(request, TcpCode::kOk, 0, nullptr, 0);
    case TcpOpcode::kRead: {
      const MappedRegion* region = regions_.Find(request.region, request.offset, request.operand);
      if (region == nullptr) return Reject(request, TcpCode::kOutOfBounds, "read out of bounds");
      // Checked again when it is sent; a refusal then could only be the end of the connection.
      const ReachedRange range{request.region, request.offset, request.operand};
      if (!Within(&range, 1, /*writes=*/false, [] {})) return Forbid(request);
      // The kernel copies the payloads one after the other and waits for the memory of each. Asked
      // for while the requests are decoded, those of many come at the same time.
      port::PrefetchBytes(region->data + request.offset, request.operand);
      return Push(request, TcpCode::kOk, request.operand, region->data + request.offset,
                  request.operand);
    }
    case TcpOpcode::kWrite:
      return StartWrite(request);
    case TcpOpcode::kCompareAndSwap:
    case TcpOpcode::kFetchAdd:
      return DoAtomic(request);
  }
}

void TcpServerConnection::StartWrite(const TcpRequest& request) {
  const MappedRegion* region = regions_.Find(request.region, request.offset, request.operand);
  if (region == nullptr) return Reject(request, TcpCode::kOutOfBounds, "wrote out of bounds");
  const ReachedRange range{request.region, request.offset, request.operand};
  if (!Within(&range, 1, /*writes=*/true, [] {})) return Forbid(request);
  if (request.operand == 0) return Push(request, TcpCode::kOk, 0, nullptr, 0);
  write_ = request;
  write_to_ = region->data + request.offset;
  write_left_ = request.operand;
}

void TcpServerConnection::DoAtomic(const TcpRequest& request) {
  const MappedRegion* region = regions_.Find(request.region, request.offset, kAtomicWordBytes);
  if (region == nullptr || !IsAtomicWord(request.offset)) {
    return Reject(request, TcpCode::kOutOfBounds, "sent an atomic out of bounds or not aligned");
  }
  auto& bytes = *reinterpret_cast<uint64_t*>(region->data + request.offset);
  const std::atomic_ref<uint64_t> word(bytes);
  uint64_t prior = request.operand;
  const ReachedRange range{request.region, request.offset, kAtomicWordBytes};
  // To add nothing is to read a word that nobody tears.
  const bool writes = request.opcode != TcpOpcode::kFetchAdd || request.operand != 0;
  const bool within = Within(&range, 1, writes, [&] {
    if (request.opcode == TcpOpcode::kFetchAdd) {
      prior = word.fetch_add(request.operand);
    } else {
      word.compare_exchange_strong(prior, request.desired);  // Leaves the word before in `prior`.
    }
  });
  if (!within) return Forbid(request);
  Push(request, TcpCode::kOk, prior, nullptr, 0);
}

void TcpServerConnection::Push(const TcpRequest& request, TcpCode code, uint64_t value,
                               const char* payload, uint64_t payload_bytes) {
  assert(reply_count_ < kRepliesMax);
  Reply& reply = (*replies_)[(reply_first_ + reply_count_++) % kRepliesMax];
  TcpReply{request.opcode, code, request.sequence, value}.Encode(reply.header.data());
  reply.payload = payload;
  reply.payload_bytes = payload_bytes;
  reply.range = ReachedRange{request.region, request.offset, payload_bytes};
}

void TcpServerConnection::Forbid(const TcpRequest& request) {
  Reject(request, TcpCode::kForbidden, "reached for memory that is not its databases'");
}

void TcpServerConnection::Reject(const TcpRequest& request, TcpCode code, const std::string& why) {
  Log().Warn("data connection of {} closed: it {} (region {}, offset {}, operand {})", peer_, why,
             static_cast<uint32_t>(request.region), request.offset, request.operand);
  Push(request, code, 0, nullptr, 0);
  rejected_ = true;
}

// What is left goes when the socket is found ready to send, which it nearly always is.
bool TcpServerConnection::Send(Deadline::Clock::time_point until) {
  iovec parts[kReplyPartsMax];
  ReachedRange ranges[kReplyPartsMax];
  while (reply_count_ > 0) {
    size_t count = 0;
    size_t range_count = 0;
    size_t skip = reply_sent_;
    size_t room = piece_bytes_;
    const auto add = [&](const char* data, uint64_t bytes) {
      const size_t skipped = std::min<uint64_t>(skip, bytes);
      skip -= skipped;
      const size_t added = std::min<uint64_t>(bytes - skipped, room);
      room -= added;
      // sendmsg() does not write there.
      if (added > 0) parts[count++] = iovec{const_cast<char*>(data) + skipped, added};
    };
    for (size_t i = 0; i < reply_count_ && count + 2 <= kReplyPartsMax && room > 0; ++i) {
      const Reply& reply = (*replies_)[(reply_first_ + i) % kRepliesMax];
      add(reply.header.data(), reply.header.size());
      add(reply.payload, reply.payload_bytes);
      if (reach_ != nullptr && reply.payload_bytes > 0) ranges[range_count++] = reply.range;
    }
    size_t moved = 0;
    SocketOutcome outcome = SocketOutcome::kBlocked;
    if (!Within(ranges, range_count, /*writes=*/false,
                [&] { outcome = SendOrdered(parts, count, &moved); })) {
      Log().Warn("data connection of {} closed: what it was reading is not its databases' any more",
                 peer_);
      return false;
    }
    if (outcome == SocketOutcome::kBlocked) return true;
    if (outcome != SocketOutcome::kMoved) {
      Log().Info("data connection of {} lost: {}", peer_, stream_.Failure());
      return false;
    }
    traffic_.sent += moved;
    ConsumeReplies(moved);
    if (reply_count_ > 0 && Deadline::Clock::now() >= until) return true;
  }
  return true;
}

// The kernel has read everything before the peer can hear of it, and so before anything that the
// peer then causes: for ThreadSanitizer it is read before the order's clock moves, not after.
SocketOutcome TcpServerConnection::SendOrdered(iovec* parts, size_t count, size_t* moved) {
  for (size_t i = 0; i < count; ++i) port::AnnotateRead(parts[i].iov_base, parts[i].iov_len);
  order_->BeforeSend();
  const port::UnseenReads unseen;
  return stream_.Send(parts, count, moved);
}

void TcpServerConnection::ConsumeReplies(size_t bytes) {
  reply_sent_ += bytes;
  while (reply_count_ > 0) {
    const Reply& reply = (*replies_)[reply_first_];
    const size_t reply_bytes = reply.header.size() + reply.payload_bytes;
    if (reply_sent_ < reply_bytes) break;
    reply_sent_ -= reply_bytes;
    reply_first_ = (reply_first_ + 1) % kRepliesMax;
    --reply_count_;
  }
}

}  // namespace dlsm
