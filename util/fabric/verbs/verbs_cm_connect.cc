// Steps of a connection, each of which waits for the manager's report and watches the life line:
//   1. address: which device and port lead to the memory node's address; it must be ours;
//   2. route: how the packets get there;
//   3. request and answer. InfiniBand and RoCE leave the queue pair's states to this process; an
//      iWARP device brings it into them itself.
#include "util/fabric/verbs/verbs_cm_connect.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/verbs/verbs_cm_frame.h"
#include "util/fabric/verbs/verbs_cm_id.h"
#include "util/fabric/verbs/verbs_farewells.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

// Address resolution on a network that is up takes milliseconds; the kernel retries meanwhile.
constexpr milliseconds kResolveMax{4000};
// Of InfiniBand's rejections: the other end still remembers an earlier queue pair of this number.
constexpr int kStaleConnection = 10;

class ManagerDialer {
 public:
  ManagerDialer(const std::string& peer, int life_line, Deadline deadline, VerbsEndpoint& endpoint)
      : peer_(peer), life_line_(life_line), deadline_(deadline), endpoint_(endpoint) {}

  Status Connect(const VerbsCmAnswer& answer) {
    std::shared_ptr<VerbsCmChannel> channel;
    DLSM_RETURN_IF_ERROR(VerbsCmChannel::Create(&channel));
    DLSM_RETURN_IF_ERROR(channel->NewId(&id_));
    DLSM_RETURN_IF_ERROR(Resolve(answer));
    DLSM_RETURN_IF_ERROR(Request(answer));
    endpoint_.Keep(std::move(id_));
    return Status::OK();
  }

 private:
  const VerbsDevice& device() const { return endpoint_.domain().device(); }

  Status Resolve(const VerbsCmAnswer& answer) {
    where_ = GidToString(answer.address);
    const VerbsOptions& options = device().options();
    DLSM_RETURN_IF_ERROR(id_->ResolveAddress(device().address(), answer.address, answer.port,
                                             options.traffic_class, Patience()));
    DLSM_RETURN_IF_ERROR(Await(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED));
    if (!id_->IsOn(device())) {
      return Status::InvalidArgument(fmt::format(
          "the way to {}, at {} on its RDMA network, is {}, not {} port {}; choose that device",
          peer_, where_, id_->DeviceName(), device().name(), device().port()));
    }
    DLSM_RETURN_IF_ERROR(id_->ResolveRoute(Patience()));
    return Await(RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED);
  }

  Status Request(const VerbsCmAnswer& answer) {
    DLSM_RETURN_IF_ERROR(endpoint_.InitialiseBy(*id_));
    DLSM_RETURN_IF_ERROR(id_->Connect(*endpoint_.queue_pair(), endpoint_.ReadsWith(answer.limits),
                                      device().options(), VerbsCmGreeting{answer.nonce}.Encode()));
    if (device().is_iwarp()) {
      DLSM_RETURN_IF_ERROR(Await(RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED));
      return endpoint_.ConnectBy(*id_, answer.limits);
    }
    DLSM_RETURN_IF_ERROR(Await(RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED));
    DLSM_RETURN_IF_ERROR(endpoint_.ConnectBy(*id_, answer.limits));
    return id_->Establish();
  }

  milliseconds Patience() const {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_.Remaining());
    return std::clamp(left, milliseconds(1), kResolveMax);
  }

  // One of the two is what comes next, or it is an error.
  Status Await(rdma_cm_event_type wanted, rdma_cm_event_type as_good) {
    while (true) {
      VerbsCmEvent event;
      bool taken = false;
      DLSM_RETURN_IF_ERROR(id_->channel().Take(&event, &taken));
      if (taken && (event.type == wanted || event.type == as_good)) return Status::OK();
      if (taken) return Failed(event);
      if (LifeLineEnded(life_line_)) {
        return Status::IOError(peer_ + " gave up a connection over RDMA; its log says why");
      }
      if (deadline_.Passed()) {
        return Status::TimedOut(fmt::format(
            "{} does not answer at {}: is its RDMA network reachable from here?", peer_, where_));
      }
      Sleep();
    }
  }

  void Sleep() const {
    constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
    const int64_t remaining = deadline_.Remaining().count();
    timespec timeout{};
    timeout.tv_sec = remaining / kNanosecondsPerSecond;
    timeout.tv_nsec = remaining % kNanosecondsPerSecond;
    pollfd entries[2] = {{id_->channel().descriptor(), POLLIN, 0}, {life_line_, POLLIN, 0}};
    (void)::ppoll(entries, 2, &timeout, nullptr);
  }

  Status Failed(const VerbsCmEvent& event) const {
    const char* remedy = "is that network up, and reachable from here?";
    if (event.type == RDMA_CM_EVENT_REJECTED) {
      remedy = event.status == kStaleConnection
                   ? "its device remembers an earlier queue pair; try again"
                   : "its log says why; if it has no word of it, another program answers there";
    }
    return Status::IOError(fmt::format("cannot connect to {} at {} over RDMA ({}): {}", peer_,
                                       where_, event.text, remedy));
  }

  const std::string& peer_;
  const int life_line_;
  const Deadline deadline_;
  VerbsEndpoint& endpoint_;
  std::unique_ptr<VerbsCmId> id_;
  std::string where_;
};

}  // namespace

Status ArrangeByManager(const std::string& peer, const std::string& token, int life_line,
                        Deadline deadline, VerbsEndpoint* endpoint,
                        std::vector<VerbsRemoteMemory>* memory) {
  VerbsCmOffer offer;
  DLSM_RETURN_IF_ERROR(endpoint->DescribeLimits({}, &offer.limits));
  const std::string greeting = std::string(kVerbsPreamble) + token +
                               EncodeVerbsFrame(VerbsFrameKind::kCmOffer, offer.Encode());
  DLSM_RETURN_IF_ERROR(SendWhole(peer, life_line, greeting, deadline));
  std::string body;
  VerbsCmAnswer answer;
  DLSM_RETURN_IF_ERROR(
      ReceiveVerbsAnswer(peer, life_line, deadline, VerbsFrameKind::kCmAnswer, &body));
  DLSM_RETURN_IF_ERROR(answer.Decode(body));
  DLSM_RETURN_IF_ERROR(ManagerDialer(peer, life_line, deadline, *endpoint).Connect(answer));
  *memory = std::move(answer.memory);
  return Status::OK();
}

}  // namespace dlsm
