#include "util/fabric/verbs/verbs_cm_id.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "port/error_text.h"
#include "util/file_descriptor.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Clients that connect at the same moment.
constexpr int kBacklog = 128;

Status Failed(const char* what) {
  const int error = errno;
  return Status::IOError(fmt::format(
      "the RDMA connection manager {}: {}{}", what, port::ErrorText(error),
      error == ENOENT || error == ENODEV ? "; is the kernel module rdma_ucm loaded?" : ""));
}

sockaddr* Generic(sockaddr_storage* address) { return reinterpret_cast<sockaddr*>(address); }

// A reason of an InfiniBand rejection, or an errno.
std::string Describe(const rdma_cm_event& event, const char* name) {
  if (event.status >= 0) return fmt::format("{}, reason {}", name, event.status);
  return fmt::format("{}: {}", name, port::ErrorText(-event.status));
}

}  // namespace

Status VerbsCmChannel::Create(std::shared_ptr<VerbsCmChannel>* channel) {
  const VerbsCmLibrary* library = nullptr;
  DLSM_RETURN_IF_ERROR(VerbsCmLibrary::Get(&library));
  OccupyStandardDescriptors();
  Channel made(library->create_event_channel(), library->destroy_event_channel);
  if (made == nullptr) return Failed("gives no event channel");
  const int flags = ::fcntl(made->fd, F_GETFL);
  if (flags < 0 || ::fcntl(made->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Failed("gives no event channel that does not block");
  }
  channel->reset(new VerbsCmChannel(*library, std::move(made)));
  return Status::OK();
}

Status VerbsCmChannel::NewId(std::unique_ptr<VerbsCmId>* id) {
  rdma_cm_id* made = nullptr;
  if (library_.create_id(channel_.get(), &made, nullptr, RDMA_PS_TCP) != 0) {
    return Failed("gives no identifier");
  }
  *id = std::make_unique<VerbsCmId>(shared_from_this(), made);
  return Status::OK();
}

Status VerbsCmChannel::Take(VerbsCmEvent* event, bool* taken) {
  *taken = false;
  rdma_cm_event* reported = nullptr;
  if (library_.get_cm_event(channel_.get(), &reported) != 0) {
    const bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return none ? Status::OK() : Failed("does not report");
  }
  VerbsCmEvent copy;
  copy.type = reported->event;
  copy.status = reported->status;
  try {
    copy.text = Describe(*reported, library_.event_str(reported->event));
    if (reported->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      copy.request = std::make_unique<VerbsCmId>(shared_from_this(), reported->id);
      const rdma_conn_param& request = reported->param.conn;
      if (request.private_data != nullptr) {
        copy.private_data.assign(static_cast<const char*>(request.private_data),
                                 request.private_data_len);
      }
    }
  } catch (const std::bad_alloc&) {
    library_.ack_cm_event(reported);  // Who ends the connection waits for that.
    throw;
  }
  library_.ack_cm_event(reported);
  *event = std::move(copy);
  *taken = true;
  return Status::OK();
}

bool VerbsCmId::IsOn(const VerbsDevice& device) const {
  // The manager opens devices itself, so only their names can be compared.
  return id_->verbs != nullptr && id_->port_num == device.port() &&
         device.name() == device.library().get_device_name(id_->verbs->device);
}

std::string VerbsCmId::DeviceName() const {
  if (id_->verbs == nullptr) return "no RDMA device";
  return fmt::format("RDMA device {} port {}", id_->verbs->device->name, id_->port_num);
}

Status VerbsCmId::Listen(const VerbsGid& address, uint16_t port, const VerbsDevice& device) {
  sockaddr_storage at = SocketAddressOfGid(address, port);
  if (library().bind_addr(id_.get(), Generic(&at)) != 0) return Failed("does not bind an address");
  if (!IsOn(device)) return Status::InvalidArgument(DeviceName() + " has that address");
  if (library().listen(id_.get(), kBacklog) != 0) return Failed("does not listen");
  return Status::OK();
}

uint16_t VerbsCmId::port() const { return ntohs(library().get_src_port(id_.get())); }

Status VerbsCmId::Accept(const ibv_qp& queue_pair, uint8_t reads) {
  rdma_conn_param answer{};
  answer.responder_resources = reads;
  answer.initiator_depth = 1;  // It sends none, but not every device takes 0.
  answer.qp_num = queue_pair.qp_num;
  return library().accept(id_.get(), &answer) == 0 ? Status::OK() : Failed("does not accept");
}

void VerbsCmId::Reject() {
  if (library().reject(id_.get(), nullptr, 0) == 0) return;
  Log().Debug("a request was not rejected, but dropped: {}", port::ErrorText(errno));
}

Status VerbsCmId::ResolveAddress(const std::optional<VerbsGid>& from, const VerbsGid& to,
                                 uint16_t port, int traffic_class,
                                 std::chrono::milliseconds timeout) {
  auto type_of_service = static_cast<uint8_t>(traffic_class);
  if (traffic_class != 0 && library().set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
                                                 &type_of_service, sizeof(type_of_service)) != 0) {
    return Failed("does not take a traffic class");
  }
  sockaddr_storage source{};
  if (from.has_value()) source = SocketAddressOfGid(*from, 0);
  sockaddr_storage destination = SocketAddressOfGid(to, port);
  const int error =
      library().resolve_addr(id_.get(), from.has_value() ? Generic(&source) : nullptr,
                             Generic(&destination), static_cast<int>(timeout.count()));
  return error == 0 ? Status::OK() : Failed("does not look for an address");
}

Status VerbsCmId::ResolveRoute(std::chrono::milliseconds timeout) {
  const int error = library().resolve_route(id_.get(), static_cast<int>(timeout.count()));
  return error == 0 ? Status::OK() : Failed("does not look for a route");
}

Status VerbsCmId::Connect(const ibv_qp& queue_pair, uint8_t reads, const VerbsOptions& options,
                          const std::string& greeting) {
  rdma_conn_param request{};
  request.private_data = greeting.data();
  request.private_data_len = static_cast<uint8_t>(greeting.size());
  request.responder_resources = 1;  // It carries out none, but not every device takes 0.
  request.initiator_depth = reads;
  request.retry_count = static_cast<uint8_t>(options.retries);
  request.rnr_retry_count = static_cast<uint8_t>(options.rnr_retries);
  request.qp_num = queue_pair.qp_num;
  return library().connect(id_.get(), &request) == 0 ? Status::OK() : Failed("does not connect");
}

Status VerbsCmId::Establish() {
  return library().establish(id_.get()) == 0 ? Status::OK()
                                             : Failed("does not end a connection's set-up");
}

Status VerbsCmId::Attributes(ibv_qp_state state, ibv_qp_attr* attributes, int* mask) const {
  // Bits beyond are some kernels' own, and not for queue pairs.
  constexpr int kKnown = (IBV_QP_DEST_QPN << 1) - 1;
  *attributes = {};
  *mask = 0;
  attributes->qp_state = state;
  if (library().init_qp_attr(id_.get(), attributes, mask) != 0) {
    return Failed("does not tell a queue pair's attributes");
  }
  *mask &= kKnown;
  return Status::OK();
}

}  // namespace dlsm
