#include "util/fabric/verbs/verbs_frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr size_t kReasonBytesMax = 1024;
constexpr size_t kRemoteMemoryBytes = 32;
constexpr uint32_t k24Bits = 0xff'ffff;  // Queue pair and packet numbers have no more.
constexpr uint8_t kMtuMin = 1;
constexpr uint8_t kMtuMax = 5;

Status Malformed(const char* what) {
  return Status::Corruption(fmt::format("malformed set-up of a queue pair: {}", what));
}

void PutEnd(std::string* to, const VerbsEnd& end) {
  PutFixed32(to, end.queue_pair);
  PutFixed32(to, end.first_packet);
  to->push_back(static_cast<char>(end.lid & 0xff));
  to->push_back(static_cast<char>(end.lid >> 8));
  to->push_back(static_cast<char>(end.mtu));
  to->push_back(static_cast<char>(end.gid_type));
  to->push_back(static_cast<char>(end.reads_at_once));
  to->push_back(end.atomics ? 1 : 0);
  to->append(reinterpret_cast<const char*>(end.gid.data()), end.gid.size());
}

bool GetEnd(Slice* from, VerbsEnd* end) {
  uint8_t lid_low = 0;
  uint8_t lid_high = 0;
  uint8_t type = 0;
  uint8_t atomics = 0;
  if (!GetFixed32(from, &end->queue_pair) || !GetFixed32(from, &end->first_packet) ||
      !GetFixed8(from, &lid_low) || !GetFixed8(from, &lid_high) || !GetFixed8(from, &end->mtu) ||
      !GetFixed8(from, &type) || !GetFixed8(from, &end->reads_at_once) ||
      !GetFixed8(from, &atomics) || from->size() < end->gid.size()) {
    return false;
  }
  std::copy_n(from->data(), end->gid.size(), reinterpret_cast<char*>(end->gid.data()));
  from->remove_prefix(end->gid.size());
  end->lid = static_cast<uint16_t>(lid_low | lid_high << 8);
  end->gid_type = static_cast<GidType>(type);
  end->atomics = atomics == 1;
  return end->queue_pair <= k24Bits && end->first_packet <= k24Bits && end->mtu >= kMtuMin &&
         end->mtu <= kMtuMax && end->reads_at_once > 0 && atomics <= 1 &&
         type <= static_cast<uint8_t>(GidType::kRoceV2);
}

bool GetOne(Slice* from, VerbsRemoteMemory* memory) {
  uint32_t region = 0;
  if (!GetFixed32(from, &region) || !GetFixed32(from, &memory->key) ||
      !GetFixed64(from, &memory->offset) || !GetFixed64(from, &memory->bytes) ||
      !GetFixed64(from, &memory->address)) {
    return false;
  }
  memory->region = RegionId{region};
  // Neither range may pass the end of what its numbers can say.
  return memory->bytes > 0 && memory->offset <= UINT64_MAX - memory->bytes &&
         memory->address <= UINT64_MAX - memory->bytes;
}

}  // namespace

void PutRemoteMemory(std::string* to, const std::vector<VerbsRemoteMemory>& memory) {
  PutFixed32(to, static_cast<uint32_t>(memory.size()));
  for (const VerbsRemoteMemory& each : memory) {
    PutFixed32(to, static_cast<uint32_t>(each.region));
    PutFixed32(to, each.key);
    PutFixed64(to, each.offset);
    PutFixed64(to, each.bytes);
    PutFixed64(to, each.address);
  }
}

bool GetRemoteMemory(Slice* from, std::vector<VerbsRemoteMemory>* memory) {
  uint32_t count = 0;
  if (!GetFixed32(from, &count) || from->size() != uint64_t{count} * kRemoteMemoryBytes) {
    return false;
  }
  memory->resize(count);
  return std::all_of(memory->begin(), memory->end(),
                     [from](VerbsRemoteMemory& each) { return GetOne(from, &each); });
}

std::string EncodeVerbsFrame(VerbsFrameKind kind, const Slice& body) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kVerbsVersion));
  bytes.push_back(static_cast<char>(kind));
  bytes.append(2, '\0');
  PutFixed32(&bytes, static_cast<uint32_t>(body.size()));
  PutFixed32(&bytes, Crc32c(body));
  bytes.append(body.data(), body.size());
  return bytes;
}

Status VerbsFrameHeader::Decode(const Slice& bytes) {
  if (bytes.size() != kBytes) return Malformed("the header is cut short");
  version = static_cast<uint8_t>(bytes[0]);
  if (version != kVerbsVersion) return Status::OK();
  const auto number = static_cast<uint8_t>(bytes[1]);
  if (number < static_cast<uint8_t>(VerbsFrameKind::kOffer) ||
      number > static_cast<uint8_t>(VerbsFrameKind::kCmAnswer) || bytes[2] != 0 || bytes[3] != 0) {
    return Malformed("the header");
  }
  kind = static_cast<VerbsFrameKind>(number);
  body_bytes = DecodeFixed32(bytes.data() + 4);
  checksum = DecodeFixed32(bytes.data() + 8);
  return body_bytes <= kBodyBytesMax ? Status::OK() : Malformed("it is too long");
}

Status VerbsFrameHeader::CheckBody(const Slice& body) const {
  if (body.size() != body_bytes) return Malformed("its length");
  return Crc32c(body) == checksum ? Status::OK() : Malformed("its checksum");
}

std::string VerbsOffer::Encode() const {
  std::string body;
  PutEnd(&body, end);
  return body;
}

Status VerbsOffer::Decode(const Slice& body) {
  Slice rest = body;
  VerbsEnd decoded;
  if (!GetEnd(&rest, &decoded) || !rest.empty()) return Malformed("the offer");
  end = decoded;
  return Status::OK();
}

std::string VerbsAnswer::Encode() const {
  std::string body;
  PutEnd(&body, end);
  PutRemoteMemory(&body, memory);
  return body;
}

Status VerbsAnswer::Decode(const Slice& body) {
  Slice rest = body;
  VerbsAnswer decoded;
  if (!GetEnd(&rest, &decoded.end)) return Malformed("the answer");
  if (!GetRemoteMemory(&rest, &decoded.memory)) return Malformed("a registration in the answer");
  *this = std::move(decoded);
  return Status::OK();
}

std::string VerbsRefusal::Encode() const {
  std::string body;
  PutLengthPrefixed(&body, Slice(reason.data(), std::min(reason.size(), kReasonBytesMax)));
  return body;
}

Status VerbsRefusal::Decode(const Slice& body) {
  Slice rest = body;
  Slice text;
  if (!GetLengthPrefixed(&rest, &text) || !rest.empty() || text.size() > kReasonBytesMax) {
    return Malformed("the refusal");
  }
  reason.assign(text.data(), text.size());
  return Status::OK();
}

}  // namespace dlsm
