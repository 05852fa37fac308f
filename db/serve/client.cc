#include "db/serve/client.h"

#include <sys/socket.h>

#include <cerrno>

namespace dlsm::serve {

bool Client::Receive(char* scratch, size_t scratch_bytes, uint64_t* received) {
  while (true) {
    const ssize_t bytes = recv(socket_.get(), scratch, scratch_bytes, MSG_DONTWAIT);
    if (bytes == 0) return false;
    if (bytes < 0) return errno == EAGAIN || errno == EINTR;
    *received += static_cast<uint64_t>(bytes);
    in_.append(scratch, static_cast<size_t>(bytes));
    if (static_cast<size_t>(bytes) < scratch_bytes) return true;
    // One client's flood is not all that is looked at.
    constexpr size_t kAtOnce = size_t{1} << 20;
    if (in_.size() - parsed_ > kAtOnce) return true;
  }
}

bool Client::Send(uint64_t* sent) {
  while (sent_ < out_.size()) {
    const ssize_t bytes =
        send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (bytes < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    sent_ += static_cast<size_t>(bytes);
    *sent += static_cast<uint64_t>(bytes);
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
