// The TLS of one connection. Thread-safe: one thread may receive while another sends.
#pragma once

#include <openssl/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/tls/tcp_socket.h"

namespace dlsm {

// What a session's BIO reads from and writes to.
struct TlsTransport {
  int socket = -1;
  size_t input_left = 0;  // Bytes that may be read; after that it is as if no more had come.
};

class TlsSession {
 public:
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };
  using SslHandle = std::unique_ptr<SSL, SslDeleter>;
  // What one Receive() takes off the socket. Not all of it need be anybody's bytes: a peer may
  // change its keys again and again, and OpenSSL goes on as long as such records come.
  static constexpr size_t kInputBytesMax = size_t{192} << 10;

  // `ssl` has a role and no transport yet. Does not own the socket.
  static Status Make(SslHandle ssl, int socket, std::unique_ptr<TlsSession>* session);
  ~TlsSession();

  // The socket has another number from now on.
  void SetSocket(int socket) LOCKS_EXCLUDED(mutex_);

  // One step of the handshake. *events: what to wait for where it is kBlocked.
  SocketOutcome Handshake(short* events) LOCKS_EXCLUDED(mutex_);

  // As SocketSend(), but after kBlocked, and behind what was moved, the next call begins with the
  // same bytes: a record that is on its way in part cannot be changed.
  SocketOutcome Send(const iovec* parts, size_t count, size_t* moved) LOCKS_EXCLUDED(mutex_);
  // As SocketReceive(). Returns less than was asked for only where there is no more just now, or
  // where kInputBytesMax have come: then the socket is still readable, or has no more either.
  SocketOutcome Receive(const iovec* parts, size_t count, size_t* moved) LOCKS_EXCLUDED(mutex_);

  // Whether Receive() may have something although the socket is not readable.
  bool holds_input() const { return holds_input_.load(std::memory_order_relaxed); }
  // Why a call has returned kFailed.
  std::string failure() const LOCKS_EXCLUDED(mutex_);
  // Whether the other side has said what displeases it.
  bool alerted() const LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kRecordBytesMax = size_t{16} << 10;

  // `ssl` has its BIO.
  TlsSession(SslHandle ssl, int socket);
  SocketOutcome Outcome(int result, short* events) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable port::Mutex mutex_;  // Protects what follows; never held while waiting.
  TlsTransport transport_ GUARDED_BY(mutex_);
  SslHandle ssl_ GUARDED_BY(mutex_);
  // A record's worth of what Send() was given, until all of it has gone out.
  std::unique_ptr<char[]> staged_ GUARDED_BY(mutex_);
  size_t staged_bytes_ GUARDED_BY(mutex_) = 0;
  std::string failure_ GUARDED_BY(mutex_);
  bool alerted_ GUARDED_BY(mutex_) = false;

  // For the receiving thread, which is the one that sets it.
  std::atomic<bool> holds_input_{false};
};

}  // namespace dlsm
