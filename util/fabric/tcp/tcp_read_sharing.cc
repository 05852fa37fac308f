#include "util/fabric/tcp/tcp_read_sharing.h"

#include <algorithm>
#include <utility>

#include "port/allocation_point.h"
#include "util/log.h"

namespace dlsm {
namespace {

using Clock = port::Clock;
using std::chrono::seconds;

// To connect takes a round trip or two; who does has other threads' reads waiting for its own.
constexpr seconds kConnectMost{1};
constexpr seconds kRetryAfter{1};
// How often a reader gives up the processor before it sleeps; mostly its answer is there at the
// first or second time.
constexpr uint32_t kTurns = 3;
constexpr seconds kTurnsMost{1};
// A thread that serves a connection keeps up with the reads of so many processors' threads.
constexpr unsigned kProcessorsPerLane = 4;

// Two at least, where two threads can run: so the memory node answers one connection's reads while
// others go out over the other one.
unsigned LaneCount(unsigned processors) {
  return std::max(std::min(processors, 2u),
                  (processors + kProcessorsPerLane - 1) / kProcessorsPerLane);
}

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
      poll_(poll),
      open_(std::move(open)),
      polls_(poll, processors),
      lanes_(LaneCount(processors)) {}

WaitCounts TcpReadSharing::Waits() const {
  WaitCounts waits;
  for (const Lane& lane : lanes_) {
    waits.polled += lane.gauges.polled.load(std::memory_order_relaxed);
    waits.slept += lane.gauges.slept.load(std::memory_order_relaxed);
  }
  waits.shared = waits.polled + waits.slept;
  return waits;
}

TcpReadSharing::Reader::Reader(TcpReadSharing& sharing)
    : sharing_(sharing),
      lane_(sharing.lanes_[sharing.next_lane_.fetch_add(1, std::memory_order_relaxed) %
                           sharing.lanes_.size()]),
      turns_group_(sharing.poll_.count() == 0 ? seconds(0) : kTurnsMost, UINT32_MAX),
      turns_(turns_group_) {}

bool TcpReadSharing::Reader::Pays() const {
  uint32_t sharing = 0;
  for (const Lane& lane : sharing_.lanes_) {
    sharing += lane.gauges.crowd.load(std::memory_order_relaxed);
  }
  return sharing_.waiting_.crowded(sharing);
}

bool TcpReadSharing::Reader::Read(std::span<const TcpSharedReads::Read> reads, Deadline deadline) {
  if (shared_ == nullptr || shared_->closed()) {
    shared_ = sharing_.Connected(lane_, PartOf(deadline, 4));
    if (shared_ == nullptr) return false;
  }
  turns_.Begin();
  turns_.LookAtMost(kTurns);
  const bool arrived = shared_->Run(reads, PartOf(deadline, 2), turns_).ok();
  turns_.End();
  return arrived;
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
  port::AllocationPoint("shared reads: connection");
  TcpStream stream;
  std::shared_ptr<TcpSharedReads> made;
  Status status = open_(Deadline::At(until), &stream);
  if (status.ok())
    status = TcpSharedReads::Start(std::move(stream), peer_, polls_, lane.gauges, &made);
  if (!status.ok()) Log().Info("threads go on reading on their own: {}", status.ToString());
  const port::MutexLock lock(lane.mutex);
  lane.not_before = Clock::now() + kRetryAfter;
  if (made != nullptr) lane.shared = made;
  return made;
}

}  // namespace dlsm
