// One end of a reliable connection: the device's queue pair and its completion queue, from creation
// to the states in which it sends and receives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_cm_frame.h"
#include "util/fabric/verbs/verbs_cm_id.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/fabric/verbs/verbs_memory.h"

namespace dlsm {

// Not thread-safe. When it is destroyed, the device neither reads nor writes through it any more.
class VerbsEndpoint {
 public:
  ~VerbsEndpoint();
  // Which side of one-sided access it is; kPeer is both, and receives messages too.
  enum class Role { kClient, kServer, kPeer };
  // What a peer sends is of several callers, who must not wait for each other: its send queue is no
  // shorter, whatever the options say, if the device can do that.
  static constexpr uint32_t kPeerDepthMin = 64;

  // `receives`: how many receive buffers can be posted at once.
  static Status Create(std::shared_ptr<const VerbsDomain> domain, Role role,
                       std::unique_ptr<VerbsEndpoint>* endpoint, uint32_t receives = 1);

  // What the other end has to know. `peer` is that end, if it is known already; `address` is this
  // machine's on the connection over which the ends talk.
  Status Describe(const std::optional<VerbsEnd>& peer, const std::optional<VerbsGid>& address,
                  VerbsEnd* own);
  // Makes it ready to send (client) and to be reached (server). Describe() came before. What both
  // ends can do, whichever of them is less, is taken.
  Status Connect(const VerbsEnd& peer);

  // The same by the connection manager, which knows where the peer is. `peer`: the client's, if
  // this is a memory node's end.
  Status DescribeLimits(const std::optional<VerbsLimits>& peer, VerbsLimits* own);
  // Before the client's request, and before the memory node accepts it.
  Status InitialiseBy(const VerbsCmId& manager);
  // When the client's request was answered; and, of the memory node, before it accepts.
  Status ConnectBy(const VerbsCmId& manager, const VerbsLimits& peer);
  // How many reads and atomics there are at once with that peer.
  uint8_t ReadsWith(const VerbsLimits& peer) const;
  // It ends with this.
  void Keep(std::unique_ptr<VerbsCmId> manager) { manager_ = std::move(manager); }

  // Everything under way ends with an error, and nothing more can be posted.
  void Fail();
  // The device neither reads nor writes through it any more, at once. False: it may still.
  bool Stop();
  // The same, for good: the end of its requests is not reported any more. What has failed can be
  // tried again; what has been done is done.
  bool DestroyQueuePair();

  // What the device reports of it, until it is destroyed.
  VerbsHealth& health() const { return *health_; }
  const VerbsDomain& domain() const { return *domain_; }
  ibv_qp* queue_pair() const { return queue_pair_.get(); }
  ibv_cq* completions() const { return completions_.get(); }
  // Not of a server: becomes readable when a completion comes after ibv_req_notify_cq().
  ibv_comp_channel* events() const { return events_.get(); }
  uint32_t depth() const { return depth_; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  bool peer_has_atomics() const { return peer_has_atomics_; }  // Once connected.

 private:
  explicit VerbsEndpoint(std::shared_ptr<const VerbsDomain> domain, Role role)
      : domain_(std::move(domain)), role_(role) {}
  // The device's events are not for it any more.
  void LeaveEvents();
  Status MakeCompletions();
  Status MakeQueuePair();
  uint8_t OwnMtu(const ibv_port_attr& port) const;
  // Of a client and a peer, how many it sends at once; of a server, how many it answers. Of a peer
  // it is the same number, within both of the device's bounds.
  uint8_t OwnReads(std::optional<uint8_t> peer) const;
  // How many of the other end's this one answers, where there are `reads` at once. A client's end
  // answers none.
  uint8_t Answers(uint8_t reads) const;
  unsigned AccessFlags() const;
  // By what it is known to its peer, of which the manager has told the way to it.
  Status NoteAddress(const ibv_ah_attr& path);
  Status Initialise();
  Status ReadyToReceive(const VerbsEnd& peer);
  Status ReadyToSend(const VerbsEnd& peer);
  Status Modify(ibv_qp_attr* attributes, int mask, const char* what);

  const std::shared_ptr<const VerbsDomain> domain_;
  const Role role_;
  uint32_t receives_ = 1;
  uint32_t depth_ = 0;
  uint32_t inline_bytes_ = 0;
  bool peer_has_atomics_ = false;
  bool initialised_ = false;  // Has left the state in which it was created.
  VerbsEnd own_;
  uint32_t gid_index_ = 0;

  // In the order in which they need each other.
  std::unique_ptr<VerbsCmId> manager_;  // Null if connected without.
  VerbsPointer<ibv_comp_channel> events_{nullptr, nullptr};
  VerbsPointer<ibv_cq> completions_{nullptr, nullptr};
  VerbsPointer<ibv_qp> queue_pair_{nullptr, nullptr};
  std::shared_ptr<VerbsHealth> health_;
};

}  // namespace dlsm
