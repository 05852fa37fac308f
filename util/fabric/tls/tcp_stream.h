// A connected socket as control and data connections use it: plain, or under TLS. Who moves bytes
// need not know which.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tls_session.h"
#include "util/file_descriptor.h"

namespace dlsm {

// One thread may receive while another sends.
class TcpStream {
 public:
  TcpStream() = default;
  explicit TcpStream(FileDescriptor socket) : socket_(std::move(socket)) {}

  int get() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }
  bool secure() const { return tls_ != nullptr; }
  // Everything goes through `session` from now on.
  void Secure(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }

  // As SocketSend() and SocketReceive(). After kBlocked the next Send() begins with the same bytes.
  // Receive() moves less than was asked for only where there is no more at the moment, or, under
  // TLS, where much has come: whoever waits for the socket then is told of the rest.
  SocketOutcome Send(iovec* parts, size_t count, size_t* moved) {
    return tls_ == nullptr ? SocketSend(get(), parts, count, moved)
                           : tls_->Send(parts, count, moved);
  }
  SocketOutcome Receive(iovec* parts, size_t count, size_t* moved) {
    return tls_ == nullptr ? SocketReceive(get(), parts, count, moved)
                           : tls_->Receive(parts, count, moved);
  }
  // Where it returns true, ReceiveOrSleep() can be called: as Receive(), but it sleeps until there
  // is something, for `most` (less than a second) at most.
  bool PrepareSleep(std::chrono::microseconds most) {
    return tls_ == nullptr && BlockToReceive(get(), most);
  }
  SocketOutcome ReceiveOrSleep(iovec* parts, size_t count, size_t* moved) {
    return SocketReceiveOrSleep(get(), parts, count, moved);
  }
  // Whether Receive() may have something although the socket is not readable: look before waiting.
  bool holds_input() const { return tls_ != nullptr && tls_->holds_input(); }
  // Why a call has just returned kFailed.
  std::string Failure() const;

  // `other` carries on with this connection, under a descriptor of its own; this one can only be
  // shut down and closed then.
  Status HandOver(TcpStream* other);
  // Ends both directions: whoever waits on the socket, in any thread, wakes up and finds its end.
  void Shutdown();
  void Close();

 private:
  FileDescriptor socket_;
  std::unique_ptr<TlsSession> tls_;  // Null: plain.
};

}  // namespace dlsm
