#include "util/rpc/loopback_rpc.h"

#include <functional>
#include <utility>

#include "port/mutex.h"
#include "util/deadline.h"

namespace dlsm {
namespace {

// Shared by the caller, who may give up, and the handler, who may answer later.
struct PendingCall {
  port::Mutex mutex;
  port::CondVar answered{mutex};
  bool done GUARDED_BY(mutex) = false;
  Status status GUARDED_BY(mutex);
  std::string reply GUARDED_BY(mutex);
};

class LoopbackRpcClient final : public RpcClient {
 public:
  LoopbackRpcClient(RpcHandler* handler, RpcPeer peer)
      : handler_(handler), peer_(std::move(peer)) {}
  ~LoopbackRpcClient() override { handler_->Disconnected(peer_); }

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override {
    const auto call = std::make_shared<PendingCall>();
    handler_->Handle(peer_, method, request, [call](const Status& status, std::string answer) {
      const port::MutexLock lock(call->mutex);
      call->done = true;
      call->status = status;
      call->status.PermitUncheckedError();  // The caller may have given up.
      call->reply = std::move(answer);
      call->answered.Signal();
    });
    const port::MutexLock lock(call->mutex);
    while (!call->done) {
      const bool woken = call->answered.WaitUntil(deadline.time_point());
      if (!woken && !call->done && deadline.Passed()) {
        return Status::TimedOut("the embedded memory node did not answer in time");
      }
    }
    if (call->status.ok()) *reply = std::move(call->reply);
    return call->status;
  }
  // It does not fail.
  bool WhenDisconnected(std::function<void()> /*told*/) override { return true; }

 private:
  RpcHandler* const handler_;
  const RpcPeer peer_;
};

}  // namespace

std::unique_ptr<RpcClient> NewLoopbackRpcClient(RpcHandler* handler, RpcPeer peer) {
  return std::make_unique<LoopbackRpcClient>(handler, std::move(peer));
}

}  // namespace dlsm
