// What can be chosen about the verbs fabric, and its one-line form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dLSM/status.h"

namespace dlsm {

// How the two ends of a queue pair are connected (doc/verbs.md).
enum class VerbsConnect : uint8_t {
  kAuto,   // kCm where the device is iWARP, else kHello; a memory node takes either.
  kHello,  // Each end tells the other its own address over TCP.
  kCm,     // By the RDMA connection manager.
};

struct VerbsOptions {
  // A device ("mlx5_0"), one of its ports ("mlx5_0:2"), a network interface ("eth0") or one of this
  // machine's addresses ("10.0.0.7"); empty: the first port that is active.
  std::string device;

  VerbsConnect connect = VerbsConnect::kAuto;
  int cm_port = 0;  // Of a memory node: where the connection manager listens; 0: any free one.

  // RoCE: the entry of the port's GID table to send from; -1: RoCE v2 before RoCE v1, and the
  // address of `device` or of the connection to the memory node before any other.
  int gid_index = -1;
  // Of a packet's payload, 256 to 4096; 0: the smaller of both ports' active one.
  int mtu_bytes = 0;
  int service_level = 0;
  int traffic_class = 0;  // RoCE: holds the DSCP.

  // A request that is not acknowledged within 4.096 us * 2^ack_timeout is sent again, so many
  // times. 16 is 268 ms: a peer that died is noticed by its closed socket long before.
  int ack_timeout = 16;
  int retries = 7;
  // When the peer is not ready to receive: 7 retries for ever, 12 waits 0.64 ms.
  int rnr_retries = 7;
  int rnr_timer = 12;

  uint32_t send_queue_depth = 256;  // Work requests under way on one queue pair.
  uint32_t reads_at_once = 16;      // Reads and atomics that the device has on the wire.
  uint32_t inline_bytes = 256;      // Writes up to this go out with their work request.
  // Of a connection to one memory node; threads beyond it share one more under a mutex.
  uint32_t queue_pairs_max = 256;
  uint32_t spin_us = 100;  // How long a wait polls before it sleeps.

  // Below what the device allows; 0: that.
  uint64_t message_bytes_max = 0;
  uint64_t registration_bytes_max = 0;
};

// Reads "DEVICE[,NAME=VALUE]..." or "NAME=VALUE[,...]", such as "mlx5_0:1,gid_index=3,mtu=1024".
// The names: connection (hello, cm, auto), cm_port, gid_index, mtu, sl, traffic_class, ack_timeout,
// retries, rnr_retries, rnr_timer, depth, reads_at_once, inline, queue_pairs, spin_us, message_max,
// registration_max. InvalidArgument names what is wrong; *options is then as it was.
Status ParseVerbsOptions(std::string_view text, VerbsOptions* options);

}  // namespace dlsm
