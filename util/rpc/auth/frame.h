// Frames: what control connections carry once the hello is over.
//
//   offset  0  magic "DLSF"               4
//           4  version of this layout     1   kFrameVersion
//           5  type                       1   1 request, 2 reply
//           6  method                     1
//           7  status code                1   0 in requests and in good replies
//           8  call id                    8   chosen by the caller, returned with the reply
//          16  bytes of the payload       4
//          20  CRC32C of the payload      4
//          24  CRC32C of bytes 0 to 23    4
//          28  payload: the request, the reply, or the message of a bad reply's Status
//              seal                      16   on sockets: frame_seal.h
//
// All integers are little-endian. A frame that breaks a rule ends its connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/rpc/auth/frame_seal.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {

inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 28;
inline constexpr size_t kFramePayloadBytesMax = kFrameBytesMax - kFrameHeaderBytes;

enum class FrameType : uint8_t { kRequest = 1, kReply = 2 };

struct FrameHeader {
  FrameType type = FrameType::kRequest;
  Method method{};  // Any value: the handler knows which ones exist.
  Status::Code code = Status::Code::kOk;
  uint64_t call = 0;
  uint32_t payload_bytes = 0;
  uint32_t payload_checksum = 0;

  // Exactly kFrameHeaderBytes.
  std::string Encode() const;
  // Corruption naming the first rule that is broken.
  Status Decode(const Slice& bytes);
};

// Header and payload in one. InvalidArgument when that exceeds kFrameBytesMax.
Status MakeFrame(FrameType type, Method method, Status::Code code, uint64_t call,
                 const Slice& payload, std::string* frame);

// Puts frames together from bytes that arrive in pieces. Never holds much more memory than has
// arrived, whatever a header claims. After an error it is of no further use.
//
//   read into Space(); Filled(); if complete(): use header(), TakePayload(); again
class FrameAssembler {
 public:
  // `seal` is what frames end with and are checked by; null: they are not sealed.
  explicit FrameAssembler(FrameSeal* seal = nullptr) : seal_(seal) { Restart(); }

  // Where the next bytes of the frame belong, and how many fit: at least one, unless complete().
  char* Space(size_t* bytes);
  // The first `bytes` of Space() have arrived.
  Status Filled(size_t bytes);

  bool complete() const { return have_header_ && filled_ == WantedBytes(); }
  // Whether the peer owes the rest of a frame.
  bool started() const { return have_header_ || filled_ > 0; }
  const FrameHeader& header() const { return header_; }
  // Makes ready for the next frame. Needs complete().
  std::string TakePayload();

 private:
  void Restart();
  Status HeaderArrived();
  // After the header.
  size_t WantedBytes() const {
    return header_.payload_bytes + (seal_ != nullptr ? FrameSeal::kBytes : 0);
  }
  Status Check();

  FrameSeal* const seal_;
  FrameHeader header_;
  std::string header_bytes_;  // As they came; where frames are sealed.
  bool have_header_ = false;
  std::string buffer_;  // The header, then what follows it.
  size_t filled_ = 0;   // Of buffer_.
};

}  // namespace dlsm
