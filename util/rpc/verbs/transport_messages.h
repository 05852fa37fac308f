// What client and memory node tell each other to call over RDMA: the offer and the answer that
// arrange it, as payloads of kOpenTransport's frames, and the head of every request afterwards.
//
//   offer    version 1 | transport 1 | end (length-prefixed) | salt 8 | state's address 8 | key 4
//   answer   end (length-prefixed) | ring's address 8 | key 4 | segments 4 | request bytes 4
//
//   request  0  kind                      1
//            1  flags                     1   bit 0: the reply comes with an immediate
//            2  slot                      2   the immediate; one slot, one call
//            4  segments of the place     4
//            8  address of the place      8   where the reply is written: a message of rpc_ring.h
//           16  key of the place          4
//           20  key of the payload        4   kRemote only
//           24  address of the payload    8   kRemote only
//           32  CRC32C of bytes 0 to 31   4
//           36  a frame of frame.h: with its payload (kInline), or its header alone
//
// A reply is a message whose body is a frame, with the call's id as its number. If that does not
// fit the place, a message of kind kTooLarge with the frame's header comes instead, and the memory
// node keeps the reply until the client has asked for it with a larger place (kFetch), or uses the
// slot for another call.
//
// The state is a word of the client's memory that the memory node writes: see ring_sleep.h.
//
// Integers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/verbs/rpc_transport.h"

namespace dlsm {

inline constexpr uint8_t kTransportVersion = 2;

// Calls of one connection that are under way, at most.
inline constexpr size_t kRpcSlots = 64;
// The largest reply message that a place holds.
inline constexpr size_t kReplySegmentsMax = (kFrameBytesMax >> 7) + 2;

// Decode() of all of these sets *this only when it returns OK.
struct TransportOffer {
  RpcTransport transport = RpcTransport::kVerbs;
  VerbsEnd end;
  uint64_t salt = 0;
  uint64_t state_address = 0;
  uint32_t state_key = 0;

  std::string Encode() const;
  // NotSupported if it is of another version.
  Status Decode(const Slice& bytes);
};

struct TransportAnswer {
  VerbsEnd end;
  uint64_t ring_address = 0;
  uint32_t ring_key = 0;
  uint32_t ring_segments = 0;      // 0: there is none.
  uint32_t request_bytes_max = 0;  // Of one request message.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

enum class RequestKind : uint8_t { kInline = 1, kRemote = 2, kFetch = 3 };

inline constexpr size_t kRequestHeadBytes = 36;

struct RequestHead {
  RequestKind kind = RequestKind::kInline;
  bool immediate = false;
  uint16_t slot = 0;
  uint32_t place_segments = 0;
  uint64_t place_address = 0;
  uint32_t place_key = 0;
  uint32_t payload_key = 0;
  uint64_t payload_address = 0;

  // Writes kRequestHeadBytes.
  void EncodeTo(char* to) const;
};

// A whole request, checked.
struct RequestMessage {
  RequestHead head;
  FrameHeader frame;
  Slice payload;  // In the bytes that were decoded; of kInline.

  Status Decode(const Slice& bytes);
};

}  // namespace dlsm
