#include "util/fabric/verbs/verbs_cm_frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint8_t kCmMtuMin = 1;
constexpr uint8_t kCmMtuMax = 5;

Status MalformedCm(const char* what) {
  return Status::Corruption(
      fmt::format("malformed set-up of a queue pair by connection manager: {}", what));
}

void PutLimits(std::string* to, const VerbsLimits& limits) {
  to->push_back(limits.iwarp ? 1 : 0);
  to->push_back(static_cast<char>(limits.mtu));
  to->push_back(static_cast<char>(limits.reads_at_once));
  to->push_back(limits.atomics ? 1 : 0);
}

bool GetLimits(Slice* from, VerbsLimits* limits) {
  uint8_t iwarp = 0;
  uint8_t atomics = 0;
  if (!GetFixed8(from, &iwarp) || !GetFixed8(from, &limits->mtu) ||
      !GetFixed8(from, &limits->reads_at_once) || !GetFixed8(from, &atomics)) {
    return false;
  }
  limits->iwarp = iwarp == 1;
  limits->atomics = atomics == 1;
  return iwarp <= 1 && atomics <= 1 && limits->mtu >= kCmMtuMin && limits->mtu <= kCmMtuMax &&
         limits->reads_at_once > 0;
}

using Bytes16 = std::array<uint8_t, 16>;

void PutBytes(std::string* to, const Bytes16& bytes) {
  to->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

bool GetBytes(Slice* from, Bytes16* bytes) {
  if (from->size() < bytes->size()) return false;
  std::copy_n(from->data(), bytes->size(), reinterpret_cast<char*>(bytes->data()));
  from->remove_prefix(bytes->size());
  return true;
}

}  // namespace

std::string VerbsCmOffer::Encode() const {
  std::string body;
  PutLimits(&body, limits);
  return body;
}

Status VerbsCmOffer::Decode(const Slice& body) {
  Slice rest = body;
  VerbsLimits decoded;
  if (!GetLimits(&rest, &decoded) || !rest.empty()) return MalformedCm("the offer");
  limits = decoded;
  return Status::OK();
}

std::string VerbsCmAnswer::Encode() const {
  std::string body;
  PutLimits(&body, limits);
  body.push_back(static_cast<char>(port & 0xff));
  body.push_back(static_cast<char>(port >> 8));
  PutBytes(&body, address);
  PutBytes(&body, nonce);
  PutRemoteMemory(&body, memory);
  return body;
}

Status VerbsCmAnswer::Decode(const Slice& body) {
  Slice rest = body;
  VerbsCmAnswer decoded;
  uint8_t low = 0;
  uint8_t high = 0;
  if (!GetLimits(&rest, &decoded.limits) || !GetFixed8(&rest, &low) || !GetFixed8(&rest, &high) ||
      !GetBytes(&rest, &decoded.address) || !GetBytes(&rest, &decoded.nonce)) {
    return MalformedCm("the answer");
  }
  decoded.port = static_cast<uint16_t>(low | high << 8);
  if (decoded.port == 0) return MalformedCm("the port in the answer");
  if (!GetRemoteMemory(&rest, &decoded.memory)) return MalformedCm("a registration in the answer");
  *this = std::move(decoded);
  return Status::OK();
}

std::string VerbsCmGreeting::Encode() const {
  std::string bytes(kPreamble);
  PutBytes(&bytes, nonce);
  PutFixed32(&bytes, Crc32c(bytes));
  return bytes;
}

Status VerbsCmGreeting::Decode(const Slice& bytes) {
  constexpr size_t kChecked = kBytes - sizeof(uint32_t);
  if (bytes.size() < kBytes) return MalformedCm("the greeting is cut short");
  if (Slice(bytes.data(), kPreamble.size()) != Slice(kPreamble.data(), kPreamble.size()) ||
      DecodeFixed32(bytes.data() + kChecked) != Crc32c(Slice(bytes.data(), kChecked))) {
    return MalformedCm("the greeting");
  }
  Slice rest(bytes.data() + kPreamble.size(), sizeof(nonce));
  return GetBytes(&rest, &nonce) ? Status::OK() : MalformedCm("the nonce");
}

}  // namespace dlsm
