// How a queue pair over RDMA ends: what of, and that nothing that it began takes effect after that.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <utility>

#include "port/allocation_point.h"
#include "port/cpu.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/fabric/verbs/verbs_datapath.h"
#include "util/log.h"
#include "util/out_of_memory.h"

namespace dlsm {
namespace {

// A device flushes a stopped queue pair at once; the bound is for one that is broken.
constexpr std::chrono::milliseconds kFlushMax{2000};
// A memory node that is alive takes its end down within a millisecond or so.
constexpr std::chrono::milliseconds kFarewellMax{500};

}  // namespace

Status FarewellPending(const std::string& peer, const VerbsFarewells& farewells) {
  port::AllocationPoint("farewell pending");
  if (farewells.broken()) {
    return Status::IOError(
        fmt::format("this machine's RDMA device has not destroyed an earlier queue pair to {}, "
                    "whose requests could still take effect: look for its driver's messages in the "
                    "kernel's log, and open the database again",
                    peer));
  }
  return Status::IOError(
      fmt::format("an earlier queue pair to {} has not been taken down, and its requests could "
                  "still take effect: is the memory node overloaded, or its network down?",
                  peer));
}

Status VerbsQueuePair::Lost() const {
  return Status::IOError(
      fmt::format("the queue pair to {} is lost (the memory node closed it): is its Server still "
                  "running, or has this client's session ended?",
                  peer_->name));
}

Status VerbsQueuePair::Failed(const ibv_wc& completion) const {
  port::AllocationPoint("failed transfer");
  if (LifeLineEnded(life_line_.get())) return Lost();
  if (endpoint_->health().broken()) return endpoint_->health().why();
  const VerbsEvents& events = endpoint_->domain().device().events();
  const char* const text = endpoint_->domain().library().wc_status_str(completion.status);
  switch (completion.status) {
    case IBV_WC_REM_ACCESS_ERR:
      return Status::InvalidArgument(fmt::format(
          "{} refused a transfer ({}): it is not inside what this client may reach; has it "
          "restarted?",
          peer_->name, text));
    case IBV_WC_RETRY_EXC_ERR:
      return Status::IOError(
          fmt::format("{} does not answer over RDMA ({}): is its network up, and its port's state "
                      "active on both ends?{}",
                      peer_->name, text, events.PortTrouble()));
    case IBV_WC_LOC_PROT_ERR:
      return Status::InvalidArgument(
          fmt::format("a transfer with {} used local memory that is not registered with this "
                      "connection ({})",
                      peer_->name, text));
    default:
      return Status::IOError(
          fmt::format("a transfer with {} failed: {} (vendor error {:#x}); are the RDMA ports of "
                      "both ends active?",
                      peer_->name, text, completion.vendor_err));
  }
}

Status VerbsQueuePair::Close(Status why) {
  if (DeviceHasFailed()) {
    why.PermitUncheckedError();  // It follows from that: a time-out, too.
    why = endpoint_->domain().device().events().device();
  }
  Drain();
  posted_.clear();
  in_flight_.clear();
  error_ = std::move(why);
  IfMemoryPermits([this] { Log().Info("queue pair closed: {}", error_.ToString()); });
  return error_;
}

bool VerbsQueuePair::DeviceHasFailed() const {
  return endpoint_->health().broken() && !endpoint_->domain().device().events().device().ok();
}

// First here: the queue pair is stopped, and the device completes everything that it was given,
// signaled or not, unless it has failed as a whole. Then there: the memory node takes its end down
// when the life line ends, and closes it when that is done. Requests that were on their way may
// still take effect until then, so a life line that stays open stops its connection.
void VerbsQueuePair::Drain() {
  const Deadline flushed_by = Deadline::In(kFlushMax);
  endpoint_->Fail();
  while (retired_ < reported_ && !DeviceHasFailed()) {
    std::array<ibv_wc, kCompletionsPerPoll> completions;
    const int count =
        ibv_poll_cq(endpoint_->completions(), kCompletionsPerPoll, completions.data());
    if (count > 0) retired_ = completions[static_cast<size_t>(count - 1)].wr_id;
    if (count < 0 || flushed_by.Passed()) {
      Log().Error("RDMA device {} does not flush a stopped queue pair",
                  endpoint_->domain().device().name());
      break;
    }
    if (count == 0) port::CpuRelax();
  }
  if (!endpoint_->DestroyQueuePair()) {
    bounce_.Abandon();
    farewells_.Break();
  }
  endpoint_.reset();
  (void)::shutdown(life_line_.get(), SHUT_WR);
  const Deadline farewell_by = Deadline::In(kFarewellMax);
  while (!LifeLineEnded(life_line_.get())) {
    if (farewell_by.Passed()) {
      Log().Warn(
          "{} has not taken down its end of a queue pair: no transfer to it until it has, because "
          "an old one could land after that",
          peer_->name);
      farewells_.Add(std::move(life_line_));
      return;
    }
    PollSocket(life_line_.get(), POLLIN, farewell_by);
  }
  life_line_.Close();
}

}  // namespace dlsm
