// A thread of the memory node that serves TCP data connections, woken by epoll.
//
// After serving somebody it polls for a moment before it sleeps, while that pays: a client that
// waits for one reply at a time sends its next request within microseconds (adaptive_poll.h). An
// idle thread sleeps for good.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/adaptive_poll.h"
#include "util/fabric/file_descriptor.h"
#include "util/fabric/tcp_server_connection.h"
#include "util/fabric/tcp_tokens.h"

namespace dlsm {

class TcpServerThread {
 public:
  static Status Start(const RegionTable& regions, const TcpTokens& tokens, MessageOrder* order,
                      PollGroup& polls, std::unique_ptr<TcpServerThread>* thread);
  ~TcpServerThread();  // Closes its connections.

  void Adopt(TcpStream stream, const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Closes the connections that showed `token`. OK: nothing that they sent can take effect any
  // more. Otherwise the thread has not confirmed that in time.
  Status CloseAll(const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Those that it is about to register included.
  size_t connections() const { return connection_count_.load(std::memory_order_relaxed); }

 private:
  TcpServerThread(const RegionTable& regions, const TcpTokens& tokens, MessageOrder* order,
                  PollGroup& polls, FileDescriptor epoll, FileDescriptor wake);
  void Wake();
  void Run() LOCKS_EXCLUDED(mutex_);
  // As epoll_wait() does; polls before it sleeps.
  int Await(epoll_event* events);
  void Serve() LOCKS_EXCLUDED(mutex_);
  // Returns false when the thread is to end.
  bool ObeyOrders() LOCKS_EXCLUDED(mutex_);
  void Register(TcpStream stream, const std::string& token);
  void HandleUntil(std::span<epoll_event> told, Deadline::Clock::time_point until);
  void Handle(const epoll_event& event, Deadline::Clock::time_point until);
  void Watch(TcpServerConnection* connection, int operation);
  void Close(int socket);
  template <typename Condition>
  void CloseWhere(Condition condition);

  const RegionTable& regions_;
  const TcpTokens& tokens_;
  MessageOrder* const order_;
  const FileDescriptor epoll_;
  const FileDescriptor wake_;  // An eventfd: there are orders.
  std::atomic<size_t> connection_count_{0};

  struct Adopted {
    TcpStream stream;
    std::string token;
  };

  // Protects what other threads order.
  port::Mutex mutex_;
  port::CondVar obeyed_{mutex_};
  std::vector<Adopted> adopted_ GUARDED_BY(mutex_);
  std::vector<std::string> revoked_ GUARDED_BY(mutex_);
  uint64_t orders_given_ GUARDED_BY(mutex_) = 0;
  uint64_t orders_obeyed_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;  // With its connections closed.

  // The thread's own.
  std::unordered_map<int, std::unique_ptr<TcpServerConnection>> connections_;
  TcpServerConnection::Scratch scratch_;
  int left_at_ = -1;  // The socket whose turn it is, if the last round came to an end before it.
  AdaptivePoll poll_;

  port::Thread thread_;
};

}  // namespace dlsm
