#include "util/fabric/tls/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "port/error_text.h"
#include "util/log.h"

namespace dlsm {
namespace {

// OpenSSL's own socket BIO raises SIGPIPE, and waits where the socket does.

TlsTransport& TransportOf(BIO* bio) { return *static_cast<TlsTransport*>(BIO_get_data(bio)); }

int Write(BIO* bio, const char* from, size_t bytes, size_t* written) {
  BIO_clear_retry_flags(bio);
  ssize_t sent;
  do {
    sent = ::send(TransportOf(bio).socket, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    *written = static_cast<size_t>(sent);
    return 1;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) BIO_set_retry_write(bio);
  return 0;
}

int Read(BIO* bio, char* to, size_t bytes, size_t* read) {
  BIO_clear_retry_flags(bio);
  TlsTransport& transport = TransportOf(bio);
  if (transport.input_left == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  ssize_t received;
  do {
    received = ::recv(transport.socket, to, std::min(bytes, transport.input_left), MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received > 0) {
    *read = static_cast<size_t>(received);
    transport.input_left -= *read;
    return 1;
  }
  if (received == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_retry_read(bio);
  }
  return 0;
}

long Control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

const BIO_METHOD* MakeSocketMethod() {
  BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dLSM socket");
  if (made != nullptr) {
    BIO_meth_set_write_ex(made, Write);
    BIO_meth_set_read_ex(made, Read);
    BIO_meth_set_ctrl(made, Control);
  }
  return made;
}

// Constant once made; null where there is no memory for it. Never freed: sessions may end after
// static destruction began.
const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = MakeSocketMethod();
  return method;
}

}  // namespace

void TlsSession::SslDeleter::operator()(SSL* ssl) const { SSL_free(ssl); }

Status TlsSession::Make(SslHandle ssl, int socket, std::unique_ptr<TlsSession>* session) {
  const BIO_METHOD* method = SocketMethod();
  BIO* bio = method != nullptr ? BIO_new(method) : nullptr;
  if (bio == nullptr) return Status::IOError("no memory for TLS");
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);  // Which owns it from now on.
  session->reset(new TlsSession(std::move(ssl), socket));
  return Status::OK();
}

TlsSession::TlsSession(SslHandle ssl, int socket) : transport_{socket, 0}, ssl_(std::move(ssl)) {
  BIO_set_data(SSL_get_rbio(ssl_.get()), &transport_);
}

// No farewell is sent: the frames that are carried tell whether anything is missing.
TlsSession::~TlsSession() = default;

void TlsSession::SetSocket(int socket) {
  const port::MutexLock lock(mutex_);
  transport_.socket = socket;
}

SocketOutcome TlsSession::Outcome(int result, short* events) {
  const int error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      *events = POLLIN;
      return SocketOutcome::kBlocked;
    case SSL_ERROR_WANT_WRITE:
      *events = POLLOUT;
      return SocketOutcome::kBlocked;
    case SSL_ERROR_ZERO_RETURN:
      return SocketOutcome::kEnded;
    case SSL_ERROR_SYSCALL:
      failure_ = error != 0 ? port::ErrorText(error) : "the connection has ended";
      errno = error != 0 ? error : ECONNRESET;
      return SocketOutcome::kFailed;
    default:
      break;
  }
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  failure_ = std::string("TLS: ") + (reason != nullptr ? reason : "unknown error");
  // OpenSSL numbers the alerts that it was sent from there on.
  alerted_ = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET;
  errno = EPROTO;
  return SocketOutcome::kFailed;
}

SocketOutcome TlsSession::Handshake(short* events) {
  const port::MutexLock lock(mutex_);
  ERR_clear_error();
  errno = 0;
  transport_.input_left = kInputBytesMax;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    // The peer's first message may have come together with the end of its handshake.
    holds_input_.store(SSL_has_pending(ssl_.get()) == 1, std::memory_order_relaxed);
    return SocketOutcome::kMoved;
  }
  return Outcome(result, events);
}

SocketOutcome TlsSession::Send(const iovec* parts, size_t count, size_t* moved) {
  const port::MutexLock lock(mutex_);
  if (staged_ == nullptr) staged_ = std::make_unique<char[]>(kRecordBytesMax);
  *moved = 0;
  size_t part = 0;  // What was moved ends in here, after `within` bytes.
  size_t within = 0;
  while (true) {
    // Walks over what goes into the record, which has been copied already if it is a second try.
    const bool again = staged_bytes_ > 0;
    const size_t wanted = again ? staged_bytes_ : kRecordBytesMax;
    size_t walked = 0;
    while (walked < wanted && part < count) {
      const size_t bytes = std::min(wanted - walked, parts[part].iov_len - within);
      if (!again) {
        std::memcpy(staged_.get() + walked, static_cast<char*>(parts[part].iov_base) + within,
                    bytes);
      }
      walked += bytes;
      within += bytes;
      if (within == parts[part].iov_len) {
        ++part;
        within = 0;
      }
    }
    if (!again) staged_bytes_ = walked;
    if (staged_bytes_ == 0) return SocketOutcome::kMoved;
    ERR_clear_error();
    errno = 0;
    size_t written = 0;
    const int result = SSL_write_ex(ssl_.get(), staged_.get(), staged_bytes_, &written);
    if (result != 1) {
      short events = 0;
      const SocketOutcome outcome = Outcome(result, &events);
      return *moved > 0 && outcome == SocketOutcome::kBlocked ? SocketOutcome::kMoved : outcome;
    }
    *moved += staged_bytes_;
    staged_bytes_ = 0;
  }
}

SocketOutcome TlsSession::Receive(const iovec* parts, size_t count, size_t* moved) {
  const port::MutexLock lock(mutex_);
  transport_.input_left = kInputBytesMax;
  *moved = 0;
  for (size_t part = 0; part < count; ++part) {
    size_t filled = 0;
    while (filled < parts[part].iov_len) {
      ERR_clear_error();
      errno = 0;
      size_t read = 0;
      const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(parts[part].iov_base) + filled,
                                     parts[part].iov_len - filled, &read);
      if (result == 1) {
        filled += read;
        *moved += read;
        continue;
      }
      short events = 0;
      const SocketOutcome outcome = Outcome(result, &events);
      holds_input_.store(false, std::memory_order_relaxed);
      // An end is found again by the next call.
      return *moved > 0 ? SocketOutcome::kMoved : outcome;
    }
  }
  holds_input_.store(SSL_has_pending(ssl_.get()) == 1, std::memory_order_relaxed);
  return SocketOutcome::kMoved;
}

std::string TlsSession::failure() const {
  const port::MutexLock lock(mutex_);
  return failure_;
}

bool TlsSession::alerted() const {
  const port::MutexLock lock(mutex_);
  return alerted_;
}

}  // namespace dlsm
