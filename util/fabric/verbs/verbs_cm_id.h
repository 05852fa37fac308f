// Connections in the RDMA connection manager: an identifier for each, and the channel by which the
// kernel reports of them. The queue pair itself stays the caller's (VerbsEndpoint): the manager
// finds the way, exchanges the ends' addresses, and says with what attributes the queue pair comes
// into its states.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_cm_library.h"
#include "util/fabric/verbs/verbs_device.h"

namespace dlsm {

class VerbsCmId;

// A copy: so the manager's own is acknowledged at once, and no identifier's end waits for that.
struct VerbsCmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  std::unique_ptr<VerbsCmId> request;  // Of a connection request: its new identifier.
  std::string private_data;            // Of that.
  std::string text;                    // For people.
};

// Thread-safe, but for Take(), which one thread at a time calls. Its identifiers keep it alive.
class VerbsCmChannel : public std::enable_shared_from_this<VerbsCmChannel> {
 public:
  static Status Create(std::shared_ptr<VerbsCmChannel>* channel);

  Status NewId(std::unique_ptr<VerbsCmId>* id);
  // Readable when there is an event.
  int descriptor() const { return channel_->fd; }
  // Does not block. *taken is false if there is no event.
  Status Take(VerbsCmEvent* event, bool* taken);
  const VerbsCmLibrary& library() const { return library_; }

 private:
  using Channel = std::unique_ptr<rdma_event_channel, void (*)(rdma_event_channel*)>;
  VerbsCmChannel(const VerbsCmLibrary& library, Channel channel)
      : library_(library), channel_(std::move(channel)) {}

  const VerbsCmLibrary& library_;
  const Channel channel_;
};

// One thread at a time. Of an iWARP device, the connection ends with it, so it is destroyed after
// the queue pair.
class VerbsCmId {
 public:
  VerbsCmId(std::shared_ptr<VerbsCmChannel> channel, rdma_cm_id* id)
      : channel_(std::move(channel)), id_(id, channel_->library().destroy_id) {}

  VerbsCmChannel& channel() { return *channel_; }
  // Whether what it was bound or resolved to is a port of that device.
  bool IsOn(const VerbsDevice& device) const;
  // That device, for people.
  std::string DeviceName() const;

  // A memory node's end. Port 0 becomes a free one.
  Status Listen(const VerbsGid& address, uint16_t port, const VerbsDevice& device);
  uint16_t port() const;
  // Of a request: `reads` is how many of the client's this end carries out at once.
  Status Accept(const ibv_qp& queue_pair, uint8_t reads);
  void Reject();

  // A client's end, in this order; each but Establish() ends with an event.
  Status ResolveAddress(const std::optional<VerbsGid>& from, const VerbsGid& to, uint16_t port,
                        int traffic_class, std::chrono::milliseconds timeout);
  Status ResolveRoute(std::chrono::milliseconds timeout);
  Status Connect(const ibv_qp& queue_pair, uint8_t reads, const VerbsOptions& options,
                 const std::string& greeting);
  Status Establish();

  // Those with which the queue pair comes into `state`.
  Status Attributes(ibv_qp_state state, ibv_qp_attr* attributes, int* mask) const;

 private:
  const VerbsCmLibrary& library() const { return channel_->library(); }

  const std::shared_ptr<VerbsCmChannel> channel_;
  const VerbsPointer<rdma_cm_id> id_;
};

}  // namespace dlsm
