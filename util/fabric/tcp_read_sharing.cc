#include "util/fabric/tcp_read_sharing.h"

#include <algorithm>
#include <utility>

#include "util/log.h"
#include "util/thread_number.h"

namespace dlsm {
namespace {

using Clock = port::Clock;
using std::chrono::seconds;

// To connect takes a round trip or two; who does has other threads' reads waiting for its own.
constexpr seconds kConnectMost{1};
constexpr seconds kRetryAfter{1};
// A thread that serves a connection keeps up with the reads of so many processors' threads.
constexpr unsigned kProcessorsPerLane = 4;

// What leaves time to read otherwise.
Deadline PartOf(Deadline deadline, int part) {
  const Clock::time_point now = Clock::now();
  return Deadline::At(now + (deadline.time_point() - now) / part);
}

}  // namespace

TcpReadSharing::TcpReadSharing(std::shared_ptr<const TcpPeer> peer, const PollGroup& waiting,
                               std::chrono::nanoseconds poll, unsigned processors, Open open)
    : peer_(std::move(peer)),
      waiting_(waiting),
      open_(std::move(open)),
      polls_(poll, processors),
      lanes_((processors + kProcessorsPerLane - 1) / kProcessorsPerLane) {}

bool TcpReadSharing::Read(std::span<const TcpSharedReads::Read> reads, Deadline deadline) {
  Lane& lane = lanes_[ThreadNumber::Current() % lanes_.size()];
  const std::shared_ptr<TcpSharedReads> shared = Connected(lane, PartOf(deadline, 4));
  if (shared == nullptr || !shared->Run(reads, PartOf(deadline, 2)).ok()) return false;
  waits_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::shared_ptr<TcpSharedReads> TcpReadSharing::Connected(Lane& lane, Deadline deadline) {
  const Clock::time_point now = Clock::now();
  {
    const port::MutexLock lock(lane.mutex);
    if (lane.shared != nullptr && !lane.shared->closed()) return lane.shared;
    if (now < lane.not_before) return nullptr;
    lane.not_before = now + kConnectMost + kRetryAfter;
  }
  const auto until = std::min(deadline.time_point(), now + kConnectMost);
  TcpStream stream;
  std::shared_ptr<TcpSharedReads> made;
  Status status = open_(Deadline::At(until), &stream);
  if (status.ok()) status = TcpSharedReads::Start(std::move(stream), peer_, polls_, &made);
  if (!status.ok()) Log().info("threads go on reading on their own: {}", status.ToString());
  const port::MutexLock lock(lane.mutex);
  lane.not_before = Clock::now() + kRetryAfter;
  if (made != nullptr) lane.shared = made;
  return made;
}

}  // namespace dlsm
