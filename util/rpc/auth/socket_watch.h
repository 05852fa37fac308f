// A thread that waits for sockets, so that a connection over which nothing comes costs none, and
// its end is noticed all the same. Clients receive answers in it, over all control connections of
// the process; a memory node learns from it which control connection wants to be served.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Thread-safe.
class SocketWatch {
 public:
  // Something with a socket.
  class Source {
   public:
    enum class Outcome : uint8_t {
      kWait,   // For the socket to be readable.
      kMore,   // There may be more, which comes after others' turn.
      kEnded,  // Never again.
    };
    virtual ~Source() = default;
    // The socket is readable, or has ended. Called by the watch's thread; waits for nothing, and is
    // not at it for long.
    virtual Outcome Ready() noexcept = 0;
  };

  // The clients' one in this process, which all who ask for it share; it ends with the last of
  // them. A process that was forked has another one than its parent. As Start().
  static Status OfClients(std::shared_ptr<SocketWatch>* watch);
  // `name` is its thread's. An error if the system has no descriptors; std::system_error if it has
  // no thread.
  static Status Start(const std::string& name, std::shared_ptr<SocketWatch>* watch);

  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  enum class Calls : uint8_t {
    kAlways,  // Whenever the socket is readable.
    kOnce,    // When it is; after that not before Resume().
  };
  // `source` is called from now on. *id is for the other calls; it is set before the first call.
  Status Add(int socket, Calls calls, Source* source, uint64_t* id) LOCKS_EXCLUDED(mutex_);
  // Once more, of one that is called once.
  void Resume(uint64_t id) LOCKS_EXCLUDED(mutex_);
  // It is not called any more. Before the socket is closed; not by the source itself.
  void Remove(uint64_t id) LOCKS_EXCLUDED(mutex_);

 private:
  struct Added {
    Source* source;
    int socket;
    uint32_t events;  // As epoll names them.
    bool has_more = false;
  };

  explicit SocketWatch(std::string name) : name_(std::move(name)) {}
  Status Open();
  void Run() LOCKS_EXCLUDED(mutex_);
  // Returns whether the source has more.
  bool Call(uint64_t id) LOCKS_EXCLUDED(mutex_);
  // Each that has more, once. Returns whether any still has.
  bool CallForMore() LOCKS_EXCLUDED(mutex_);

  static constexpr uint64_t kStop = 0;  // In the place of an id.

  const std::string name_;
  FileDescriptor epoll_;
  FileDescriptor stop_;  // An eventfd that becomes readable at the end.

  port::Mutex mutex_;  // Not held while a source is called.
  port::CondVar called_{mutex_};
  uint64_t last_id_ GUARDED_BY(mutex_) = kStop;
  std::map<uint64_t, Added> sources_ GUARDED_BY(mutex_);
  uint64_t calling_ GUARDED_BY(mutex_) = kStop;  // Whose source is being called.

  port::Thread thread_;  // Last: it uses all of the above.
};

}  // namespace dlsm
