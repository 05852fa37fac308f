// The channel of the tcp transport: frames over the control connection itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/deadline.h"
#include "util/rpc/control_stream.h"
#include "util/rpc/frame.h"
#include "util/rpc/rpc.h"
#include "util/rpc/rpc_channel.h"

namespace dlsm {

class SocketChannel final : public RpcChannel {
 public:
  // `where` names the memory node in messages.
  SocketChannel(ControlStream control, std::string where);
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

  void ReadReplies();
  Status ReadFrame(FrameAssembler* assembler);
  void Deliver(const FrameHeader& header, std::string payload) LOCKS_EXCLUDED(mutex_);
  void Fail(const Status& why) noexcept LOCKS_EXCLUDED(mutex_);

  const std::string where_;
  TcpStream stream_;  // The descriptor stays open as long as the channel lives.
  // Each is used by one thread at a time: whose turn it is to send, and the reader.
  FrameSeals seals_;

  port::Mutex mutex_;  // Protects what follows; not held while sending or receiving.
  port::CondVar turn_{mutex_};
  bool sending_ GUARDED_BY(mutex_) = false;
  uint64_t next_call_ GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Waiter*> waiters_ GUARDED_BY(mutex_);
  Status failure_ GUARDED_BY(mutex_);

  port::Thread reader_;  // Last: it uses all of the above.
};

}  // namespace dlsm
