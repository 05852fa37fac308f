// How the connection manager brings a queue pair into its states. On InfiniBand and RoCE it says
// with what attributes, and this process takes it there; what both ends must agree on, and what the
// options say, is put over those. An iWARP device goes there by itself once the connection stands.
#include <algorithm>

#include "util/fabric/verbs/verbs_cm_id.h"
#include "util/fabric/verbs/verbs_endpoint.h"
#include "util/status_macros.h"

namespace dlsm {

Status VerbsEndpoint::DescribeLimits(const std::optional<VerbsLimits>& peer, VerbsLimits* own) {
  const VerbsDevice& device = domain_->device();
  ibv_port_attr port;
  DLSM_RETURN_IF_ERROR(device.QueryPort(&port));
  std::optional<uint8_t> peer_reads;
  if (peer.has_value()) peer_reads = peer->reads_at_once;
  own_.mtu = OwnMtu(port);
  own_.reads_at_once = OwnReads(peer_reads);
  own_.atomics = device.has_atomics();
  *own = VerbsLimits{device.is_iwarp(), own_.mtu, own_.reads_at_once, own_.atomics};
  return Status::OK();
}

uint8_t VerbsEndpoint::ReadsWith(const VerbsLimits& peer) const {
  return std::min(own_.reads_at_once, peer.reads_at_once);
}

Status VerbsEndpoint::InitialiseBy(const VerbsCmId& manager) {
  ibv_qp_attr attributes;
  int mask = 0;
  DLSM_RETURN_IF_ERROR(manager.Attributes(IBV_QPS_INIT, &attributes, &mask));
  attributes.qp_access_flags = AccessFlags();
  return Modify(&attributes, mask | IBV_QP_ACCESS_FLAGS, "initialise");
}

Status VerbsEndpoint::NoteAddress(const ibv_ah_attr& path) {
  const VerbsDevice& device = domain_->device();
  ibv_port_attr port;
  DLSM_RETURN_IF_ERROR(device.QueryPort(&port));
  VerbsOwnAddress own;
  own.lid = port.lid;
  if (path.is_global != 0) {
    own.gid_index = gid_index_ = path.grh.sgid_index;
    DLSM_RETURN_IF_ERROR(device.GidAt(own.gid_index, &own.gid));
  }
  device.events().SetAddress(queue_pair_.get(), own);
  return Status::OK();
}

Status VerbsEndpoint::ConnectBy(const VerbsCmId& manager, const VerbsLimits& peer) {
  peer_has_atomics_ = peer.atomics;
  const VerbsDevice& device = domain_->device();
  if (device.is_iwarp()) return Status::OK();
  const VerbsOptions& options = device.options();
  ibv_qp_attr attributes;
  int mask = 0;
  DLSM_RETURN_IF_ERROR(manager.Attributes(IBV_QPS_RTR, &attributes, &mask));
  DLSM_RETURN_IF_ERROR(NoteAddress(attributes.ah_attr));
  // The manager has told both ends the same, and so have they each other.
  const auto agreed = static_cast<ibv_mtu>(std::min(own_.mtu, peer.mtu));
  attributes.path_mtu = std::min(attributes.path_mtu, agreed);
  attributes.max_dest_rd_atomic = Answers(ReadsWith(peer));
  attributes.min_rnr_timer = static_cast<uint8_t>(options.rnr_timer);
  if (options.service_level != 0) {
    attributes.ah_attr.sl = static_cast<uint8_t>(options.service_level);
  }
  DLSM_RETURN_IF_ERROR(Modify(&attributes, mask, "reach its peer's"));
  // The server's end only answers.
  if (role_ == Role::kServer) return Status::OK();
  DLSM_RETURN_IF_ERROR(manager.Attributes(IBV_QPS_RTS, &attributes, &mask));
  attributes.timeout = static_cast<uint8_t>(options.ack_timeout);
  attributes.retry_cnt = static_cast<uint8_t>(options.retries);
  attributes.rnr_retry = static_cast<uint8_t>(options.rnr_retries);
  attributes.max_rd_atomic = ReadsWith(peer);
  return Modify(&attributes, mask, "send");
}

}  // namespace dlsm
