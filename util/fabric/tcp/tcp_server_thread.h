// A thread of the memory node that serves TCP data connections, woken by epoll.
//
// After serving somebody it polls for a moment before it sleeps, while that pays: a client that
// waits for one reply at a time sends its next request within microseconds (adaptive_poll.h). An
// idle thread sleeps for good.
//
// A thread that is told of several connections at once hands one of them to a thread that has
// nothing to do, where it stays: so the few that are busy come apart, wherever they began. A new
// connection says nothing about how busy it will be, and most of a client's are not at a time.
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
#include "util/fabric/tcp/tcp_server_connection.h"
#include "util/fabric/tcp/tcp_tokens.h"
#include "util/file_descriptor.h"

namespace dlsm {

class TcpServerThread {
 public:
  static Status Start(const RegionTable& regions, const TcpTokens& tokens, MessageOrder* order,
                      PollGroup& polls, std::unique_ptr<TcpServerThread>* thread);
  ~TcpServerThread();  // Stops.
  // The thread has ended, and its connections are closed, when this returns. Others may still hand
  // connections to it, which nobody serves: so all stop before one is destroyed.
  void Stop() LOCKS_EXCLUDED(mutex_);
  // Those that it may hand connections to, until it has stopped; as soon as it has another one.
  void SetPeers(std::vector<TcpServerThread*> peers) LOCKS_EXCLUDED(mutex_);

  void Adopt(TcpStream stream, const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Closes the connections that showed `token`. OK: nothing that they sent can take effect any
  // more. Otherwise the thread has not confirmed that in time.
  Status CloseAll(const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Those that it is about to register included.
  size_t connections() const { return connection_count_.load(std::memory_order_relaxed); }
  // It waits for something to do; as it is now, or was a moment ago.
  bool idle() const { return idle_.load(std::memory_order_relaxed); }
  // Connections that it has given to others.
  uint64_t handed_over() const { return handed_over_count_.load(std::memory_order_relaxed); }
  TcpTraffic traffic() const {
    return {received_bytes_.load(std::memory_order_relaxed),
            sent_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  TcpServerThread(const RegionTable& regions, const TcpTokens& tokens, MessageOrder* order,
                  PollGroup& polls, FileDescriptor epoll, FileDescriptor wake);
  void Wake();
  void Run() LOCKS_EXCLUDED(mutex_);
  // As epoll_wait() does; polls before it sleeps. What came after *asked_at may not be among the
  // events.
  int Await(epoll_event* events, Deadline::Clock::time_point* asked_at);
  int Ask(epoll_event* events, int timeout_ms);
  void Serve() LOCKS_EXCLUDED(mutex_);
  // Returns false when the thread is to end.
  bool ObeyOrders() LOCKS_EXCLUDED(mutex_);
  void Register(TcpStream stream, const std::string& token);
  void TakeOver(std::unique_ptr<TcpServerConnection> connection);
  void Keep(std::unique_ptr<TcpServerConnection> connection);
  // One of several that are to be served, if a peer has nothing to do.
  void HandOverOneOf(std::span<const epoll_event> told, Deadline::Clock::time_point now);
  void Accept(std::unique_ptr<TcpServerConnection> connection) LOCKS_EXCLUDED(mutex_);
  void HandleUntil(std::span<epoll_event> told, Deadline::Clock::time_point until);
  void Handle(const epoll_event& event, Deadline::Clock::time_point until);
  // False: it is to be closed.
  bool Serves(TcpServerConnection* connection, Deadline::Clock::time_point until);
  void CountTraffic(TcpServerConnection* connection);
  void Watch(TcpServerConnection* connection, int operation);
  void Close(int socket);
  template <typename Condition>
  void CloseWhere(Condition condition);
  // Before it is closed: who accepted it may have another descriptor of it for a moment, and as
  // long the epoll instance would go on telling of it, by a number that is the next connection's.
  void Forget(int socket);

  const RegionTable& regions_;
  const TcpTokens& tokens_;
  MessageOrder* const order_;
  const FileDescriptor epoll_;
  const FileDescriptor wake_;  // An eventfd: there are orders.
  std::atomic<size_t> connection_count_{0};
  std::atomic<uint64_t> handed_over_count_{0};
  std::atomic<uint64_t> received_bytes_{0};
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> idle_{false};

  struct Adopted {
    TcpStream stream;
    std::string token;
  };

  // Protects what other threads order.
  port::Mutex mutex_;
  port::CondVar obeyed_{mutex_};
  std::vector<Adopted> adopted_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<TcpServerConnection>> handed_over_ GUARDED_BY(mutex_);
  std::vector<TcpServerThread*> new_peers_ GUARDED_BY(mutex_);
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
  std::vector<TcpServerThread*> peers_;
  Deadline::Clock::time_point hand_over_again_at_;

  port::Thread thread_;
};

}  // namespace dlsm
