#include "util/rpc/auth/frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint32_t kMagic = 0x46534c44;  // "DLSF"
constexpr size_t kChecksummedBytes = kFrameHeaderBytes - sizeof(uint32_t);

// A payload's buffer grows by this much, or doubles, as its bytes arrive.
constexpr size_t kGrowthBytes = size_t{64} << 10;

}  // namespace

std::string FrameHeader::Encode() const {
  std::string bytes;
  PutFixed32(&bytes, kMagic);
  bytes.push_back(static_cast<char>(kFrameVersion));
  bytes.push_back(static_cast<char>(type));
  bytes.push_back(static_cast<char>(method));
  bytes.push_back(static_cast<char>(code));
  PutFixed64(&bytes, call);
  PutFixed32(&bytes, payload_bytes);
  PutFixed32(&bytes, payload_checksum);
  PutFixed32(&bytes, Crc32c(bytes));
  assert(bytes.size() == kFrameHeaderBytes);
  return bytes;
}

Status FrameHeader::Decode(const Slice& bytes) {
  if (bytes.size() != kFrameHeaderBytes) return Status::Corruption("frame header is cut short");
  const char* from = bytes.data();
  if (DecodeFixed32(from) != kMagic) return Status::Corruption("not a frame: wrong magic");
  if (Crc32c(from, kChecksummedBytes) != DecodeFixed32(from + kChecksummedBytes)) {
    return Status::Corruption("frame header has a wrong checksum");
  }
  if (static_cast<uint8_t>(from[4]) != kFrameVersion) {
    return Status::Corruption(fmt::format("frame has version {}, this side speaks {}",
                                          static_cast<uint8_t>(from[4]), kFrameVersion));
  }
  type = static_cast<FrameType>(from[5]);
  if (type != FrameType::kRequest && type != FrameType::kReply) {
    return Status::Corruption("frame is neither request nor reply");
  }
  method = static_cast<Method>(from[6]);
  code = static_cast<Status::Code>(from[7]);
  if (type == FrameType::kRequest && code != Status::Code::kOk) {
    return Status::Corruption("request carries a status code");
  }
  call = DecodeFixed64(from + 8);
  payload_bytes = DecodeFixed32(from + 16);
  payload_checksum = DecodeFixed32(from + 20);
  if (payload_bytes > kFramePayloadBytesMax) {
    return Status::Corruption(fmt::format("frame claims {} bytes, the limit is {}", payload_bytes,
                                          kFramePayloadBytesMax));
  }
  return Status::OK();
}

Status MakeFrame(FrameType type, Method method, Status::Code code, uint64_t call,
                 const Slice& payload, std::string* frame) {
  if (payload.size() > kFramePayloadBytesMax) {
    return Status::InvalidArgument(fmt::format("message of {} bytes exceeds the limit of {}",
                                               payload.size(), kFramePayloadBytesMax));
  }
  FrameHeader header;
  header.type = type;
  header.method = method;
  header.code = code;
  header.call = call;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_checksum = Crc32c(payload);
  frame->clear();
  frame->reserve(kFrameHeaderBytes + payload.size());
  frame->append(header.Encode());
  frame->append(payload.data(), payload.size());
  return Status::OK();
}

void FrameAssembler::Restart() {
  have_header_ = false;
  filled_ = 0;
  buffer_.resize(kFrameHeaderBytes);
}

char* FrameAssembler::Space(size_t* bytes) {
  const size_t wanted = have_header_ ? WantedBytes() : kFrameHeaderBytes;
  if (filled_ == buffer_.size() && filled_ < wanted) {
    buffer_.resize(std::min(wanted, filled_ + std::max(filled_, kGrowthBytes)));
  }
  *bytes = buffer_.size() - filled_;
  return buffer_.data() + filled_;
}

Status FrameAssembler::Filled(size_t bytes) {
  assert(bytes <= buffer_.size() - filled_);
  filled_ += bytes;
  if (!have_header_ && filled_ == kFrameHeaderBytes) DLSM_RETURN_IF_ERROR(HeaderArrived());
  return complete() ? Check() : Status::OK();
}

Status FrameAssembler::Check() {
  const Slice payload(buffer_.data(), header_.payload_bytes);
  if (Crc32c(payload) != header_.payload_checksum) {
    return Status::Corruption("frame payload has a wrong checksum");
  }
  if (seal_ == nullptr) return Status::OK();
  return seal_->Check(header_bytes_, payload, Slice(payload.end(), FrameSeal::kBytes));
}

Status FrameAssembler::HeaderArrived() {
  DLSM_RETURN_IF_ERROR(header_.Decode(buffer_));
  have_header_ = true;
  if (seal_ != nullptr) header_bytes_ = buffer_;
  filled_ = 0;
  buffer_.clear();
  return Status::OK();
}

std::string FrameAssembler::TakePayload() {
  assert(complete());
  std::string payload = std::move(buffer_);
  payload.resize(header_.payload_bytes);
  buffer_ = std::string();
  Restart();
  return payload;
}

}  // namespace dlsm
