#include "util/fabric/tls/tcp_stream.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "port/error_text.h"

namespace dlsm {

std::string TcpStream::Failure() const {
  const int error = errno;
  const std::string tls = tls_ != nullptr ? tls_->failure() : std::string();
  return tls.empty() ? port::ErrorText(error) : tls;
}

Status TcpStream::HandOver(TcpStream* other) {
  FileDescriptor copy(::fcntl(get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return CannotOpen("a connection", errno);
  *other = TcpStream(std::move(copy));
  if (tls_ == nullptr) return Status::OK();
  tls_->SetSocket(other->get());
  other->tls_ = std::move(tls_);
  return Status::OK();
}

void TcpStream::Shutdown() { socket_.Shutdown(); }

void TcpStream::Close() {
  tls_.reset();
  socket_.Close();
}

}  // namespace dlsm
