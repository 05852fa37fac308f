#include "util/rpc/faulty_rpc.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "port/clock.h"
#include "port/mutex.h"
#include "util/fabric/decorators/mangle.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Named(const char* what, Method method) { return Status::IOError(what, MethodName(method)); }

class FaultyRpcClient final : public RpcClient {
 public:
  FaultyRpcClient(std::shared_ptr<FaultInjector> faults, std::unique_ptr<RpcClient> inner)
      : faults_(std::move(faults)), inner_(std::move(inner)) {}

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override {
    const Fault fault = faults_->Decide(FaultSite::kCall);
    switch (fault.kind) {
      case FaultKind::kFail:
        return Named("an injected fault kept this call from being sent", method);
      case FaultKind::kDrop:
        port::SleepUntil(deadline.time_point());
        return Status::TimedOut("an injected fault lost this call", MethodName(method));
      case FaultKind::kDelay:
        port::SleepUntil(std::min(deadline.time_point(), Deadline::Clock::now() + fault.delay));
        break;
      default:
        break;
    }
    DLSM_RETURN_IF_ERROR(inner_->Call(method, request, reply, deadline));
    if (fault.kind == FaultKind::kDisconnect || fault.kind == FaultKind::kHalfWrite) {
      reply->clear();
      return Named("an injected fault lost the answer to this call", method);
    }
    if (fault.kind == FaultKind::kCorrupt && !reply->empty()) {
      char& byte = (*reply)[(fault.draw >> 3) % reply->size()];
      byte = static_cast<char>(byte ^ (1 << (fault.draw & 7)));
    }
    Swap(fault, reply);
    return Status::OK();
  }

  CallTotals Totals() const override { return inner_->Totals(); }
  Status lost() override { return inner_->lost(); }
  bool WhenDisconnected(std::function<void()> told) override {
    return inner_->WhenDisconnected(std::move(told));
  }

 private:
  // Remembers an answer that may be given to another call, and mangles this one if it is to be.
  void Swap(const Fault& fault, std::string* reply) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    const std::string before = std::exchange(last_reply_, *reply);
    if (fault.kind == FaultKind::kMangle) MangleAnswer(reply, before, fault.draw);
  }

  const std::shared_ptr<FaultInjector> faults_;
  const std::unique_ptr<RpcClient> inner_;

  port::Mutex mutex_;
  std::string last_reply_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<RpcClient> InjectCallFaults(std::shared_ptr<FaultInjector> faults,
                                            std::unique_ptr<RpcClient> inner) {
  if (faults == nullptr) return inner;
  return std::make_unique<FaultyRpcClient>(std::move(faults), std::move(inner));
}

Status InjectConnectFault(const std::shared_ptr<FaultInjector>& faults) {
  if (faults == nullptr) return Status::OK();
  const Fault fault = faults->Decide(FaultSite::kConnect);
  if (fault.kind == FaultKind::kNone || fault.kind == FaultKind::kDelay) return Status::OK();
  return Status::IOError("an injected fault refused this connection");
}

}  // namespace dlsm
