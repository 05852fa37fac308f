#include "util/rpc/verbs/transport_messages.h"

#include <fmt/core.h>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint8_t kImmediateFlag = 1;
constexpr size_t kChecksummedBytes = kRequestHeadBytes - sizeof(uint32_t);

void PutEnd(const VerbsEnd& end, std::string* to) {
  VerbsOffer offer;
  offer.end = end;
  PutLengthPrefixed(to, offer.Encode());
}

bool GetEnd(Slice* from, VerbsEnd* end) {
  Slice bytes;
  VerbsOffer offer;
  if (!GetLengthPrefixed(from, &bytes) || !offer.Decode(bytes).ok()) return false;
  *end = offer.end;
  return true;
}

}  // namespace

std::string TransportOffer::Encode() const {
  std::string bytes;
  bytes.push_back(static_cast<char>(kTransportVersion));
  bytes.push_back(static_cast<char>(transport));
  PutEnd(end, &bytes);
  PutFixed64(&bytes, salt);
  PutFixed64(&bytes, state_address);
  PutFixed32(&bytes, state_key);
  return bytes;
}

Status TransportOffer::Decode(const Slice& bytes) {
  Slice rest = bytes;
  uint8_t version = 0;
  uint8_t kind = 0;
  TransportOffer made;
  if (!GetFixed8(&rest, &version)) return Status::Corruption("the offer of a transport is empty");
  if (version != kTransportVersion) {
    return Status::NotSupported(
        fmt::format("the offer of a transport has version {}, this memory node speaks {}; run the "
                    "same release on both",
                    version, kTransportVersion));
  }
  if (!GetFixed8(&rest, &kind) || !GetEnd(&rest, &made.end) || !GetFixed64(&rest, &made.salt) ||
      !GetFixed64(&rest, &made.state_address) || !GetFixed32(&rest, &made.state_key) ||
      !rest.empty()) {
    return Status::Corruption("the offer of a transport is malformed");
  }
  made.transport = static_cast<RpcTransport>(kind);
  if (made.transport != RpcTransport::kVerbs && made.transport != RpcTransport::kRing) {
    return Status::InvalidArgument(fmt::format("there is no transport number {}", kind));
  }
  *this = made;
  return Status::OK();
}

std::string TransportAnswer::Encode() const {
  std::string bytes;
  PutEnd(end, &bytes);
  PutFixed64(&bytes, ring_address);
  PutFixed32(&bytes, ring_key);
  PutFixed32(&bytes, ring_segments);
  PutFixed32(&bytes, request_bytes_max);
  return bytes;
}

Status TransportAnswer::Decode(const Slice& bytes) {
  Slice rest = bytes;
  TransportAnswer made;
  if (!GetEnd(&rest, &made.end) || !GetFixed64(&rest, &made.ring_address) ||
      !GetFixed32(&rest, &made.ring_key) || !GetFixed32(&rest, &made.ring_segments) ||
      !GetFixed32(&rest, &made.request_bytes_max) || !rest.empty()) {
    return Status::Corruption("the answer about a transport is malformed");
  }
  // The client has memory of these sizes.
  constexpr uint32_t kRequestBytesMax = 1 << 20;
  constexpr uint32_t kRingSegmentsMax = 1 << 20;
  if (made.request_bytes_max < kRequestHeadBytes + kFrameHeaderBytes ||
      made.request_bytes_max > kRequestBytesMax || made.ring_segments > kRingSegmentsMax) {
    return Status::Corruption("the answer about a transport has impossible sizes");
  }
  *this = made;
  return Status::OK();
}

void RequestHead::EncodeTo(char* to) const {
  to[0] = static_cast<char>(kind);
  to[1] = static_cast<char>(immediate ? kImmediateFlag : 0);
  to[2] = static_cast<char>(slot & 0xff);
  to[3] = static_cast<char>(slot >> 8);
  EncodeFixed32(to + 4, place_segments);
  EncodeFixed64(to + 8, place_address);
  EncodeFixed32(to + 16, place_key);
  EncodeFixed32(to + 20, payload_key);
  EncodeFixed64(to + 24, payload_address);
  EncodeFixed32(to + kChecksummedBytes, Crc32c(to, kChecksummedBytes));
}

Status RequestMessage::Decode(const Slice& bytes) {
  constexpr size_t kHeadersBytes = kRequestHeadBytes + kFrameHeaderBytes;
  if (bytes.size() < kHeadersBytes) return Status::Corruption("a request is cut short");
  const char* const from = bytes.data();
  if (Crc32c(from, kChecksummedBytes) != DecodeFixed32(from + kChecksummedBytes)) {
    return Status::Corruption("the head of a request has a wrong checksum");
  }
  RequestMessage made;
  made.head.kind = static_cast<RequestKind>(from[0]);
  made.head.immediate = (from[1] & kImmediateFlag) != 0;
  made.head.slot = static_cast<uint16_t>(DecodeFixed32(from) >> 16);
  made.head.place_segments = DecodeFixed32(from + 4);
  made.head.place_address = DecodeFixed64(from + 8);
  made.head.place_key = DecodeFixed32(from + 16);
  made.head.payload_key = DecodeFixed32(from + 20);
  made.head.payload_address = DecodeFixed64(from + 24);
  if (made.head.kind != RequestKind::kInline && made.head.kind != RequestKind::kRemote &&
      made.head.kind != RequestKind::kFetch) {
    return Status::Corruption("a request of unknown kind");
  }
  if (made.head.slot >= kRpcSlots) return Status::Corruption("a request names a slot too high");
  if (made.head.place_segments == 0 || made.head.place_segments > kReplySegmentsMax) {
    return Status::Corruption("a request's place for its reply is empty or too large");
  }
  if (Status status = made.frame.Decode(Slice(from + kRequestHeadBytes, kFrameHeaderBytes));
      !status.ok()) {
    return status;
  }
  if (made.frame.type != FrameType::kRequest) {
    return Status::Corruption("the client sent a reply where a request belongs");
  }
  made.payload = Slice(from + kHeadersBytes, bytes.size() - kHeadersBytes);
  const size_t expected = made.head.kind == RequestKind::kInline ? made.frame.payload_bytes : 0;
  if (made.payload.size() != expected) {
    return Status::Corruption("a request has another length than it claims");
  }
  if (made.head.kind == RequestKind::kInline &&
      Crc32c(made.payload) != made.frame.payload_checksum) {
    return Status::Corruption("frame payload has a wrong checksum");
  }
  *this = made;
  return Status::OK();
}

}  // namespace dlsm
