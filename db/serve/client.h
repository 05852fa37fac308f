// A client's connection: its socket, what has come from it and what is to be sent to it.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/reply.h"
#include "db/serve/request_parser.h"
#include "db/serve/session.h"
#include "util/fabric/tls/tls_session.h"
#include "util/file_descriptor.h"

namespace dlsm::serve {

// Of one event loop.
class Client {
 public:
  // `tls`: the connection's, which has not begun; null if it has none.
  Client(FileDescriptor socket, std::unique_ptr<TlsSession> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)), reply_(&out_, 2) {}

  int socket() const { return socket_.get(); }
  Session& session() { return session_; }
  Reply& reply() { return reply_; }
  std::string& out() { return out_; }

  // Takes what has come. Returns false if the other end has closed, or the connection is broken.
  bool Receive(char* scratch, size_t scratch_bytes, uint64_t* received);
  // Sends what can be sent now. Returns false if the connection is broken.
  bool Send(uint64_t* sent);
  size_t unsent() const { return out_.size() - sent_; }
  // Whether it is to be looked at when the socket takes bytes.
  bool wants_to_send() const { return unsent() > 0 || handshake_waits_to_send_; }
  size_t unparsed() const { return in_.size() - parsed_; }

  // The next request, if it has come as a whole; without Take() the same one again. It stays until
  // the next Receive(), or, of a line, the next call of this.
  RequestParser::State Peek(std::vector<Slice>* arguments);
  void Take() { parsed_ += next_bytes_; }
  // How many bytes have been taken; and back to there: what was taken since is looked at again.
  size_t taken() const { return parsed_; }
  void GiveBackTo(size_t taken) {
    parsed_ = taken;
    parser_.Restart();
  }
  RequestParser& parser() { return parser_; }
  // Requests that were taken are not needed any more.
  void DropTaken();

  uint32_t events = EPOLLIN;  // What the loop waits for.
  bool broken = false;

 private:
  // Returns false if the connection is broken. *moved is 0 if nothing can be received now.
  bool ReceiveSome(char* to, size_t bytes, size_t* moved);
  bool SendSome(const char* from, size_t bytes, size_t* moved);
  bool GoOnWithHandshake();

  const FileDescriptor socket_;
  const std::unique_ptr<TlsSession> tls_;
  bool handshake_is_done_ = false;
  bool handshake_waits_to_send_ = false;
  Session session_;
  RequestParser parser_;
  std::string in_;
  size_t parsed_ = 0;
  size_t next_bytes_ = 0;
  std::string out_;
  size_t sent_ = 0;
  Reply reply_;
};

}  // namespace dlsm::serve
