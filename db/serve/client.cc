#include "db/serve/client.h"

#include <poll.h>
#include <sys/uio.h>

namespace dlsm::serve {

bool Client::GoOnWithHandshake() {
  short wanted = 0;
  switch (tls_->Handshake(&wanted)) {
    case SocketOutcome::kMoved:
      handshake_is_done_ = true;
      handshake_waits_to_send_ = false;
      return true;
    case SocketOutcome::kBlocked:
      handshake_waits_to_send_ = (wanted & POLLOUT) != 0;
      return true;
    default:
      return false;
  }
}

bool Client::ReceiveSome(char* to, size_t bytes, size_t* moved) {
  *moved = 0;
  if (tls_ != nullptr && !handshake_is_done_) {
    if (!GoOnWithHandshake()) return false;
    if (!handshake_is_done_) return true;
  }
  iovec part{to, bytes};
  const SocketOutcome outcome = tls_ != nullptr ? tls_->Receive(&part, 1, moved)
                                                : SocketReceive(socket_.get(), &part, 1, moved);
  if (outcome == SocketOutcome::kBlocked) *moved = 0;
  return outcome == SocketOutcome::kMoved || outcome == SocketOutcome::kBlocked;
}

bool Client::SendSome(const char* from, size_t bytes, size_t* moved) {
  iovec part{const_cast<char*>(from), bytes};
  const SocketOutcome outcome =
      tls_ != nullptr ? tls_->Send(&part, 1, moved) : SocketSend(socket_.get(), &part, 1, moved);
  if (outcome == SocketOutcome::kBlocked) *moved = 0;
  return outcome == SocketOutcome::kMoved || outcome == SocketOutcome::kBlocked;
}

bool Client::Receive(char* scratch, size_t scratch_bytes, uint64_t* received) {
  while (true) {
    size_t moved = 0;
    if (!ReceiveSome(scratch, scratch_bytes, &moved)) return false;
    if (moved == 0) return true;
    *received += moved;
    in_.append(scratch, moved);
    // A plain socket that gives less than it could has no more.
    if (tls_ == nullptr && moved < scratch_bytes) return true;
    // One client's flood is not all that is looked at. (TLS has no more than this in store.)
    constexpr size_t kAtOnce = size_t{1} << 20;
    if (tls_ == nullptr && in_.size() - parsed_ > kAtOnce) return true;
  }
}

bool Client::Send(uint64_t* sent) {
  while (sent_ < out_.size()) {
    size_t moved = 0;
    if (!SendSome(out_.data() + sent_, out_.size() - sent_, &moved)) return false;
    if (moved == 0) return true;
    sent_ += moved;
    *sent += moved;
  }
  constexpr size_t kKeptBytes = size_t{16} << 10;
  out_.clear();
  sent_ = 0;
  if (out_.capacity() > kKeptBytes) out_.shrink_to_fit();
  return true;
}

RequestParser::State Client::Peek(std::vector<Slice>* arguments) {
  next_bytes_ = 0;
  return parser_.Next(Slice(in_.data() + parsed_, in_.size() - parsed_), arguments, &next_bytes_);
}

void Client::DropTaken() {
  if (parsed_ == 0) return;
  constexpr size_t kKeptBytes = size_t{16} << 10;
  in_.erase(0, parsed_);
  parsed_ = 0;
  if (in_.empty() && in_.capacity() > kKeptBytes) in_.shrink_to_fit();
}

}  // namespace dlsm::serve
