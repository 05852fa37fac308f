// The channel of the tcp transport: frames over the control connection itself. Answers are received
// by a thread that all channels of the process share (socket_watch.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/deadline.h"
#include "util/rpc/auth/control_stream.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/socket_watch.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/channel/rpc_channel.h"

namespace dlsm {

class SocketChannel final : public RpcChannel, private SocketWatch::Source {
 public:
  // `where` names the memory node in messages. `ended`, which may be empty, is called when the
  // connection has failed, however idle it was; by any thread, before the destructor returns.
  // std::system_error if there is no thread for it.
  static Status Open(ControlStream control, std::string where, std::function<void()> ended,
                     std::shared_ptr<RpcChannel>* channel);
  ~SocketChannel() override;

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override;

  bool failed() override LOCKS_EXCLUDED(mutex_);

 private:
  // A caller that sleeps; lives on its stack.
  struct Waiter {
    explicit Waiter(port::Mutex& mutex) : wakeup(mutex) {}
    port::CondVar wakeup;
    bool done = false;
    Status status;
    std::string reply;
  };

  // Seals and sends one frame at a time. TimedOut, with nothing sent, if its turn does not come.
  Status Send(std::string frame, Deadline deadline) LOCKS_EXCLUDED(mutex_);
  Status AwaitTurn(Deadline deadline) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status AwaitReply(Waiter* waiter, Deadline deadline) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SocketChannel(ControlStream control, std::string where, std::function<void()> ended);

  Outcome Ready() noexcept override LOCKS_EXCLUDED(mutex_);
  Status ReceiveSome(Outcome* outcome) LOCKS_EXCLUDED(mutex_);
  Status DeliverComplete() LOCKS_EXCLUDED(mutex_);
  void Deliver(const FrameHeader& header, std::string payload) LOCKS_EXCLUDED(mutex_);
  void Fail(const Status& why) noexcept LOCKS_EXCLUDED(mutex_);

  const std::string where_;
  const std::function<void()> ended_;
  TcpStream stream_;  // The descriptor stays open as long as the channel lives.
  // Each is used by one thread at a time: whose turn it is to send, and the reader.
  FrameSeals seals_;

  port::Mutex mutex_;  // Protects what follows; not held while sending or receiving.
  port::CondVar turn_{mutex_};
  bool sending_ GUARDED_BY(mutex_) = false;
  uint64_t next_call_ GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Waiter*> waiters_ GUARDED_BY(mutex_);
  Status failure_ GUARDED_BY(mutex_);

  FrameAssembler assembler_;  // The reader's.
  std::shared_ptr<SocketWatch> watch_;
  uint64_t watched_ = 0;  // By that.
};

}  // namespace dlsm
