// A client's connection: its socket, what has come from it and what is to be sent to it.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/reply.h"
#include "db/serve/request_parser.h"
#include "db/serve/session.h"
#include "util/file_descriptor.h"

namespace dlsm::serve {

// Of one event loop.
class Client {
 public:
  explicit Client(FileDescriptor socket) : socket_(std::move(socket)), reply_(&out_, 2) {}

  int socket() const { return socket_.get(); }
  Session& session() { return session_; }
  Reply& reply() { return reply_; }
  std::string& out() { return out_; }

  // Takes what has come. Returns false if the other end has closed, or the connection is broken.
  bool Receive(char* scratch, size_t scratch_bytes, uint64_t* received);
  // Sends what can be sent now. Returns false if the connection is broken.
  bool Send(uint64_t* sent);
  size_t unsent() const { return out_.size() - sent_; }
  size_t unparsed() const { return in_.size() - parsed_; }

  // The next request, if it has come as a whole; without Take() the same one again. It stays until
  // the next Receive(), or, of a line, the next call of this.
  RequestParser::State Peek(std::vector<Slice>* arguments);
  void Take() { parsed_ += next_bytes_; }
  RequestParser& parser() { return parser_; }
  // Requests that were taken are not needed any more.
  void DropTaken();

  uint32_t events = EPOLLIN;  // What the loop waits for.
  bool broken = false;

 private:
  const FileDescriptor socket_;
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
