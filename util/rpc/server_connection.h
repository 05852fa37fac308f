// One accepted control connection of a memory node, after its hello: reads requests, hands them to
// the handler, sends replies.
//
//   the thread in Serve(): receives; sends what Reply() could not
//   any thread:            Reply(): sends what the socket takes at once, leaves the rest
//
// So a peer that does not read its replies never blocks the thread that answers. While there is
// nothing to do, no thread need be in Serve().
//
// A client may ask for another transport of its further calls (kOpenTransport): the thread then
// serves both until the end, and the socket tells when the client has gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/server_transport.h"

namespace dlsm {

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  // `progress_timeout`: a frame that has begun, and replies that wait to be taken, are not waited
  // for longer without any progress.
  ServerConnection(TcpStream stream, std::chrono::milliseconds progress_timeout);

  int socket() const { return stream_.get(); }
  // Whether it has what Serve() needs. If not, there was no descriptor for that.
  bool can_serve() const { return wakeup_.valid(); }
  // For the hello.
  TcpStream& stream() { return stream_; }

  // Before the first Serve(). `keys` are those of its hello. `wants_serving` may be empty; it is
  // called, by any thread, when there is something to send and perhaps nobody in Serve().
  Status Begin(const FrameKeys& keys, std::function<void()> wants_serving);
  // Serves requests. OK if there has been none for `patience` and nothing is left to do; then it is
  // to be called again when the socket is readable, or wants_serving() was called. An error says
  // why the connection has ended. `transports` may be empty: there are none then. By one thread at
  // a time.
  Status Serve(const RpcPeer& peer, RpcHandler* handler, const ServerTransportFactory& transports,
               std::chrono::milliseconds patience);
  // After the last Serve(): answers of the handler that come later are dropped.
  void End() LOCKS_EXCLUDED(mutex_);

  // Makes Serve(), and whatever else waits on the socket, return soon. From any thread.
  void Stop() { stream_.Shutdown(); }

  // The memory that holds replies which the client has not taken. From any thread.
  size_t output_memory() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return output_.capacity();
  }

 private:
  Status ServeWhileBusy(const RpcPeer& peer, RpcHandler* handler,
                        const ServerTransportFactory& transports,
                        std::chrono::milliseconds patience);
  struct Events {
    bool readable = false;
    bool writable = false;
    bool idle = false;  // There was nothing, and nothing is under way.
  };
  // `may_sleep`: whether to wait for the first event, or only to look. No longer than until `idle`
  // if nothing is under way.
  Status AwaitEvents(bool may_sleep, Deadline idle, Events* events) LOCKS_EXCLUDED(mutex_);
  Status ReceiveRequests(const RpcPeer& peer, RpcHandler* handler,
                         const ServerTransportFactory& transports);
  void HandleRequest(const RpcPeer& peer, RpcHandler* handler);
  Status OpenTransport(const RpcPeer& peer, RpcHandler* handler,
                       const ServerTransportFactory& transports);
  Status PollTransport(bool* may_sleep);
  void WakeUp();
  void Reply(Method method, uint64_t call, const Status& status, const std::string& reply) noexcept
      LOCKS_EXCLUDED(mutex_);
  void MakeReply(Method method, uint64_t call, const Status& status, const std::string& reply)
      LOCKS_EXCLUDED(mutex_);
  void SendReply(std::string* frame) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status SendOutput() LOCKS_EXCLUDED(mutex_);
  Status SendSome(Slice* bytes);

  const std::chrono::milliseconds progress_timeout_;
  std::function<void()> wants_serving_;  // Constant after Begin().
  TcpStream stream_;                     // The descriptor stays open as long as this object lives.
  Socket wakeup_;                        // An eventfd: Reply() has left something to send.

  // Of the thread in Serve().
  FrameSeals seals_;  // That of what is sent is used with the mutex held.
  std::unique_ptr<FrameAssembler> assembler_;
  Deadline frame_deadline_;                     // Of the rest of a frame that has begun.
  std::shared_ptr<ServerTransport> transport_;  // Null: the socket is the only way.

  port::Mutex mutex_;  // Protects what follows; held while sending without waiting.
  bool ended_ GUARDED_BY(mutex_) = false;
  std::string output_ GUARDED_BY(mutex_);
  size_t output_sent_ GUARDED_BY(mutex_) = 0;  // Of output_.
  // Where there is output: progress_timeout_ after it began to wait, or has moved last.
  Deadline output_deadline_ GUARDED_BY(mutex_);
  size_t calls_ GUARDED_BY(mutex_) = 0;  // Not answered yet.
};

}  // namespace dlsm
