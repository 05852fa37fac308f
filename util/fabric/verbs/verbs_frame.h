// What the two ends of a queue pair tell each other, over TCP, before it can carry anything.
//
//   client                                        server
//     "DLSMRDMA" (8) | token (32)                   the hello gave the token out
//     frame: offer                         ->
//                                          <-       frame: answer, or refusal
//     (nothing more; the connection stays open as the queue pair's life line: whoever closes it, or
//     dies, tells the other end so)
//
//   frame     0        1       2        4              8          12
//             | version| kind  | 0 (2)  | body's bytes | its CRC  | body
//
//   end       queue pair 4 | packet 4 | LID 2 | MTU 1 | GID type 1 | reads 1 | atomics 1 | GID 16
//   offer     end
//   answer    end | registrations 4 | { region 4 | key 4 | offset 8 | bytes 8 | address 8 } ...
//   refusal   length-prefixed text
//
// Where the RDMA connection manager connects them, offer and answer are those of verbs_cm_frame.h.
//
// Integers are little-endian, the GID is in network order, `CRC` is the CRC32C of the body, the MTU
// is the device's code for it (1: 256 bytes, ... 5: 4096).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/fabric/remote_address.h"
#include "util/fabric/verbs/verbs_gid.h"

namespace dlsm {

inline constexpr std::string_view kVerbsPreamble = "DLSMRDMA";
inline constexpr size_t kVerbsTokenBytes = 32;
inline constexpr uint8_t kVerbsVersion = 1;

enum class VerbsFrameKind : uint8_t { kOffer = 1, kAnswer, kRefusal, kCmOffer, kCmAnswer };

struct VerbsFrameHeader {
  static constexpr size_t kBytes = 12;
  // Of some thousand registrations: more than a memory node of any size needs.
  static constexpr uint32_t kBodyBytesMax = 256 << 10;

  uint8_t version = kVerbsVersion;
  VerbsFrameKind kind = VerbsFrameKind::kOffer;
  uint32_t body_bytes = 0;
  uint32_t checksum = 0;

  // Reads kBytes. With another version than this one's nothing but that is set.
  Status Decode(const Slice& bytes);
  // Whether this is `body`'s header.
  Status CheckBody(const Slice& body) const;
};

// A whole frame.
std::string EncodeVerbsFrame(VerbsFrameKind kind, const Slice& body);

// One end of a queue pair.
struct VerbsEnd {
  uint32_t queue_pair = 0;
  uint32_t first_packet = 0;  // Its sequence number.
  uint16_t lid = 0;           // InfiniBand only.
  uint8_t mtu = 0;
  GidType gid_type = GidType::kInfiniBand;
  uint8_t reads_at_once = 0;  // Asked for; in the answer: granted.
  bool atomics = false;       // Its device carries them out.
  VerbsGid gid{};

  friend bool operator==(const VerbsEnd&, const VerbsEnd&) = default;
};

// A part of a region that the client may reach.
struct VerbsRemoteMemory {
  RegionId region{};
  uint32_t key = 0;
  uint64_t offset = 0;   // In the region.
  uint64_t bytes = 0;    // At least one.
  uint64_t address = 0;  // What the device calls that offset.

  friend bool operator==(const VerbsRemoteMemory&, const VerbsRemoteMemory&) = default;
};

// "registrations" of the answers. False: malformed.
void PutRemoteMemory(std::string* to, const std::vector<VerbsRemoteMemory>& memory);
bool GetRemoteMemory(Slice* from, std::vector<VerbsRemoteMemory>* memory);

// The bodies. Decode() sets *this only when it returns OK.
struct VerbsOffer {
  VerbsEnd end;
  std::string Encode() const;
  Status Decode(const Slice& body);
};

struct VerbsAnswer {
  VerbsEnd end;
  std::vector<VerbsRemoteMemory> memory;
  std::string Encode() const;
  Status Decode(const Slice& body);
};

struct VerbsRefusal {
  std::string reason;  // For people.
  std::string Encode() const;
  Status Decode(const Slice& body);
};

}  // namespace dlsm
