// One accepted control connection of a memory node, after its hello: reads requests, hands them to
// the handler, sends replies.
//
//   the connection's own thread: Serve(): receives; sends what Reply() could not
//   any thread:                  Reply(): sends what the socket takes at once, leaves the rest
//
// So a peer that does not read its replies never blocks the thread that answers.
//
// A client may ask for another transport of its further calls (kOpenTransport): the same thread
// then serves both, and the socket tells when the client has gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/tcp_stream.h"
#include "util/rpc/frame.h"
#include "util/rpc/rpc.h"
#include "util/rpc/server_transport.h"
#include "util/rpc/socket.h"

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

  // Serves requests until the connection ends; returns why. The handler's answers may come later
  // than that: they are dropped. `transports` may be empty: there are none then. `keys` are those
  // of its hello.
  Status Serve(const RpcPeer& peer, const FrameKeys& keys, RpcHandler* handler,
               const ServerTransportFactory& transports);

  // Makes Serve(), and whatever else waits on the socket, return soon. From any thread.
  void Stop() { stream_.Shutdown(); }

  // The memory that holds replies which the client has not taken. From any thread.
  size_t output_memory() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return output_.capacity();
  }

 private:
  Status ServeUntilTheEnd(const RpcPeer& peer, RpcHandler* handler,
                          const ServerTransportFactory& transports);
  // `may_sleep`: whether to wait for the first event, or only to look.
  Status AwaitEvents(bool may_sleep, bool* readable, bool* writable) LOCKS_EXCLUDED(mutex_);
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
  TcpStream stream_;  // The descriptor stays open as long as this object lives.
  Socket wakeup_;     // An eventfd: Reply() has left something to send.

  // Of the own thread.
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
