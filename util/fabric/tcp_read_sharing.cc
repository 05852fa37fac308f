#include "util/fabric/tcp_read_sharing.h"

#include <algorithm>
#include <utility>

#include "util/log.h"

namespace dlsm {
namespace {

using Clock = port::Clock;
using std::chrono::seconds;

// To connect takes a round trip or two; who does has other threads' reads waiting for its own.
constexpr seconds kConnectMost{1};
constexpr seconds kRetryAfter{1};

}  // namespace

TcpReadSharing::TcpReadSharing(std::shared_ptr<const TcpPeer> peer, const PollGroup& waiting,
                               std::chrono::nanoseconds poll, unsigned processors, Open open)
    : peer_(std::move(peer)), waiting_(waiting), open_(std::move(open)), polls_(poll, processors) {}

bool TcpReadSharing::Read(std::span<const TcpSharedReads::Read> reads, Deadline deadline) {
  const std::shared_ptr<TcpSharedReads> shared = Connected(deadline);
  if (shared == nullptr || !shared->Run(reads, deadline).ok()) return false;
  waits_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::shared_ptr<TcpSharedReads> TcpReadSharing::Connected(Deadline deadline) {
  const Clock::time_point now = Clock::now();
  {
    const port::MutexLock lock(mutex_);
    if (shared_ != nullptr && !shared_->closed()) return shared_;
    if (now < not_before_) return nullptr;
    not_before_ = now + kConnectMost + kRetryAfter;
  }
  const auto until = std::min(deadline.time_point(), now + kConnectMost);
  TcpStream stream;
  std::shared_ptr<TcpSharedReads> made;
  Status status = open_(Deadline::At(until), &stream);
  if (status.ok()) status = TcpSharedReads::Start(std::move(stream), peer_, polls_, &made);
  if (!status.ok()) Log().info("threads go on reading on their own: {}", status.ToString());
  const port::MutexLock lock(mutex_);
  not_before_ = Clock::now() + kRetryAfter;
  if (made != nullptr) shared_ = made;
  return made;
}

}  // namespace dlsm
