// A connection that an RpcServer has accepted, from its first byte to its end.
//
// A thread of its own sees a stranger through the hello. A control connection then is a task of the
// server's threads, which serve it while there is something to do; a data connection is the
// fabric's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/rpc/auth/access_list.h"
#include "util/rpc/auth/failure_limiter.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/auth/socket_watch.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/server_connection.h"
#include "util/thread_pool.h"

namespace dlsm {

struct ServedConnection final : private SocketWatch::Source {
  // A stranger becomes trusted, on its own thread, or is evicted, on the accepting one; not both.
  enum class Standing { kStranger, kTrusted, kEvicted };

  ServedConnection(Socket socket, std::chrono::milliseconds progress_timeout)
      : connection(
            std::make_shared<ServerConnection>(TcpStream(std::move(socket)), progress_timeout)) {}

  // Of a control connection, once the hello is over: from now on the watch has it served, by
  // `serve` in a thread of the pool.
  Status BeServed(std::shared_ptr<SocketWatch> by, ThreadPool* pool, ThreadPool::Task::Run serve) {
    serving = std::make_unique<ThreadPool::Task>(pool, 1, std::move(serve));
    watch = std::move(by);
    return watch->Add(connection->socket(), SocketWatch::Calls::kOnce, this, &watched);
  }

  // Nothing more comes of it.
  void NoteDone() LOCKS_EXCLUDED(mutex) {
    const port::MutexLock lock(mutex);
    // Pairs with the load of the thread that reaps it: what was done is visible then.
    done.store(true, std::memory_order_release);
    changed.SignalAll();
  }
  void AwaitDone() LOCKS_EXCLUDED(mutex) {
    const port::MutexLock lock(mutex);
    while (!done.load(std::memory_order_relaxed)) changed.Wait();
  }

  // Whether the client has lost its place in the access list since it proved itself.
  bool IsRevoked() LOCKS_EXCLUDED(mutex) {
    const port::MutexLock lock(mutex);
    return rights != nullptr && rights->revoked();
  }

  bool Become(Standing next) {
    Standing stranger = Standing::kStranger;
    return standing.compare_exchange_strong(stranger, next);
  }
  // False: it is no stranger any more.
  bool Evict() LOCKS_EXCLUDED(mutex) {
    if (!Become(Standing::kEvicted)) return false;
    connection->Stop();
    // Under the mutex: Pause() has either seen it, or sleeps.
    const port::MutexLock lock(mutex);
    changed.SignalAll();
    return true;
  }
  // Sleeps, until it is evicted at most: its thread is not kept for somebody who has to go.
  void Pause(FailureLimiter::Clock::duration duration) LOCKS_EXCLUDED(mutex) {
    const Deadline deadline = Deadline::In(duration);
    const port::MutexLock lock(mutex);
    while (standing.load(std::memory_order_relaxed) != Standing::kEvicted && !deadline.Passed()) {
      static_cast<void>(changed.WaitUntil(deadline.time_point()));
    }
  }

  const std::shared_ptr<ServerConnection> connection;
  std::atomic<Standing> standing{Standing::kStranger};
  std::atomic<bool> thread_done{false};  // That of the hello.
  std::atomic<bool> done{false};

  port::Mutex mutex;
  port::CondVar changed{mutex};           // Evicted, or done.
  ClientRights rights GUARDED_BY(mutex);  // Null: not known yet, or the cluster's.

  port::Thread thread;  // Of the accepting one.

  // Of a control connection, set before it is the watch's; constant then.
  RpcPeer peer;
  std::string token;
  std::shared_ptr<SocketWatch> watch;  // Null: it was never to be added.
  uint64_t watched = 0;
  std::unique_ptr<ThreadPool::Task> serving;  // Last: it uses the others.

 private:
  Outcome Ready() noexcept override {
    serving->Wake();
    return Outcome::kWait;
  }
};

}  // namespace dlsm
