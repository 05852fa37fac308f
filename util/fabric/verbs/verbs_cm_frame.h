// What the two ends of a queue pair tell each other where the RDMA connection manager connects it.
//
//   client                                        server
//     "DLSMRDMA" (8) | token (32)                   over TCP, as in verbs_frame.h
//     frame: offer                         ->
//                                          <-       frame: answer, or refusal
//     connection request with a greeting   ->       over the RDMA network
//                                          <-       accepted, or rejected
//     (the TCP connection stays open as the queue pair's life line)
//
//   limits    iWARP 1 | MTU 1 | reads 1 | atomics 1
//   offer     limits
//   answer    limits | port 2 | address 16 | nonce 16 | registrations, as in verbs_frame.h
//   greeting  "DLSMRDCM" (8) | nonce 16 | CRC32C of both 4
//
// The server draws a nonce for each answer, and lets in one request that shows it: so the token
// itself is never sent over the RDMA network, and a request belongs to the TCP connection whose
// client has shown its token. A request carries at least 56 bytes on every transport, and comes
// with zeros up to the transport's own length; so the greeting says itself where it ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_frame.h"

namespace dlsm {

using VerbsCmNonce = std::array<uint8_t, 16>;

// What the connection manager does not arrange: each end takes the less of both.
struct VerbsLimits {
  bool iwarp = false;
  uint8_t mtu = 1;            // As in VerbsEnd.
  uint8_t reads_at_once = 1;  // Asked for; in the answer: granted.
  bool atomics = false;       // Its device carries them out.

  friend bool operator==(const VerbsLimits&, const VerbsLimits&) = default;
};

// The bodies. Decode() sets *this only when it returns OK.
struct VerbsCmOffer {
  VerbsLimits limits;
  std::string Encode() const;
  Status Decode(const Slice& body);
};

struct VerbsCmAnswer {
  VerbsLimits limits;
  uint16_t port = 0;
  VerbsGid address{};
  VerbsCmNonce nonce{};
  std::vector<VerbsRemoteMemory> memory;
  std::string Encode() const;
  Status Decode(const Slice& body);
};

struct VerbsCmGreeting {
  static constexpr std::string_view kPreamble = "DLSMRDCM";
  static constexpr size_t kBytes = kPreamble.size() + sizeof(VerbsCmNonce) + 4;

  VerbsCmNonce nonce{};
  std::string Encode() const;
  // What follows kBytes is not looked at.
  Status Decode(const Slice& bytes);
};

}  // namespace dlsm
