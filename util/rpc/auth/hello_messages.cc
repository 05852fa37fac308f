#include "util/rpc/auth/hello_messages.h"

#include <fmt/core.h>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/secret_proof.h"

namespace dlsm {
namespace {

constexpr size_t kShmPathBytesMax = 1024;
constexpr size_t kReasonBytesMax = 1024;

Status Malformed(const char* what) {
  return Status::Corruption(fmt::format("malformed hello: {}", what));
}

bool GetString(Slice* from, size_t bytes_min, size_t bytes_max, std::string* value) {
  Slice bytes;
  if (!GetLengthPrefixed(from, &bytes)) return false;
  if (bytes.size() < bytes_min || bytes.size() > bytes_max) return false;
  value->assign(bytes.data(), bytes.size());
  return true;
}

bool GetVerdict(Slice* from, Verdict* verdict) {
  uint8_t byte = 0;
  if (!GetFixed8(from, &byte) || byte > static_cast<uint8_t>(Verdict::kRefused)) return false;
  *verdict = static_cast<Verdict>(byte);
  return true;
}

bool GetRegion(Slice* from, RegionInfo* region) {
  uint32_t id = 0;
  if (!GetFixed32(from, &id) || !GetFixed64(from, &region->bytes)) return false;
  region->id = RegionId{id};
  return GetString(from, 0, kShmPathBytesMax, &region->shm_path);
}

}  // namespace

std::string EncodeGreeting(uint32_t version) {
  std::string bytes(kControlPreamble, kPreambleBytes);
  PutFixed32(&bytes, version);
  return bytes;
}

Status DecodeGreeting(const Slice& bytes, uint32_t* version) {
  if (bytes.size() != kGreetingBytes || !bytes.starts_with(kControlPreamble)) {
    return Status::Corruption("the peer does not speak dLSM's protocol");
  }
  *version = DecodeFixed32(bytes.data() + kPreambleBytes);
  return Status::OK();
}

std::string EncodeHelloMessage(const Slice& body) {
  std::string bytes;
  PutFixed32(&bytes, static_cast<uint32_t>(body.size()));
  PutFixed32(&bytes, Crc32c(body));
  bytes.append(body.data(), body.size());
  return bytes;
}

Status DecodeHelloHeader(const Slice& header, uint32_t* body_bytes, uint32_t* checksum) {
  if (header.size() != kHelloHeaderBytes) return Malformed("header is cut short");
  *body_bytes = DecodeFixed32(header.data());
  *checksum = DecodeFixed32(header.data() + 4);
  if (*body_bytes > kHelloBodyBytesMax) return Malformed("message is too long");
  return Status::OK();
}

std::string ClientOpening::Encode() const {
  std::string body;
  PutLengthPrefixed(&body, nonce);
  PutLengthPrefixed(&body, name);
  PutLengthPrefixed(&body, access_name);
  return body;
}

Status ClientOpening::Decode(const Slice& body) {
  Slice rest = body;
  if (!GetString(&rest, kNonceBytes, kNonceBytes, &nonce) ||
      !GetString(&rest, 0, kClientNameBytesMax, &name) ||
      !GetString(&rest, 0, kClientNameBytesMax, &access_name) || !rest.empty()) {
    return Malformed("opening");
  }
  return Status::OK();
}

std::string NodeChallenge::Encode() const {
  std::string body(1, static_cast<char>(verdict));
  PutLengthPrefixed(&body, nonce);
  PutLengthPrefixed(&body, reason);
  return body;
}

Status NodeChallenge::Decode(const Slice& body) {
  Slice rest = body;
  if (!GetVerdict(&rest, &verdict)) return Malformed("challenge");
  const size_t nonce_bytes = verdict == Verdict::kGoOn ? kNonceBytes : 0;
  if (!GetString(&rest, nonce_bytes, nonce_bytes, &nonce) ||
      !GetString(&rest, 0, kReasonBytesMax, &reason) || !rest.empty()) {
    return Malformed("challenge");
  }
  return Status::OK();
}

std::string ClientProof::Encode() const {
  std::string body;
  PutFixed64(&body, static_cast<uint64_t>(boot));
  PutLengthPrefixed(&body, data_token);
  PutLengthPrefixed(&body, proof);
  return body;
}

Status ClientProof::Decode(const Slice& body) {
  Slice rest = body;
  uint64_t boot_number = 0;
  if (!GetFixed64(&rest, &boot_number) || !GetString(&rest, 0, kDataTokenBytes, &data_token) ||
      !(data_token.empty() || data_token.size() == kDataTokenBytes) ||
      !GetString(&rest, kProofBytes, kProofBytes, &proof) || !rest.empty()) {
    return Malformed("proof");
  }
  boot = BootId{boot_number};
  return Status::OK();
}

std::string NodeInfo::Encode() const {
  std::string body;
  PutFixed32(&body, static_cast<uint32_t>(node));
  PutFixed64(&body, static_cast<uint64_t>(contents));
  PutFixed64(&body, static_cast<uint64_t>(boot));
  PutFixed64(&body, static_cast<uint64_t>(persistence));
  body.push_back(has_files ? '\1' : '\0');
  body.push_back(static_cast<char>(fabric));
  PutLengthPrefixed(&body, data_token);
  PutFixed32(&body, static_cast<uint32_t>(regions.size()));
  for (const RegionInfo& region : regions) {
    PutFixed32(&body, static_cast<uint32_t>(region.id));
    PutFixed64(&body, region.bytes);
    PutLengthPrefixed(&body, region.shm_path);
  }
  return body;
}

Status NodeInfo::Decode(const Slice& body) {
  Slice rest = body;
  uint32_t node_number = 0;
  uint64_t contents_number = 0;
  uint64_t boot_number = 0;
  uint64_t persistence_number = 0;
  uint8_t files = 0;
  uint8_t fabric_number = 0;
  uint32_t count = 0;
  if (!GetFixed32(&rest, &node_number) || !GetFixed64(&rest, &contents_number) ||
      !GetFixed64(&rest, &boot_number) || !GetFixed64(&rest, &persistence_number) ||
      !GetFixed8(&rest, &files) || files > 1 || !GetFixed8(&rest, &fabric_number) ||
      fabric_number > static_cast<uint8_t>(FabricKind::kVerbs) ||
      !GetString(&rest, kDataTokenBytes, kDataTokenBytes, &data_token) ||
      !GetFixed32(&rest, &count) || count > kRegionsMax) {
    return Malformed("description of the memory node");
  }
  node = NodeId{node_number};
  contents = ContentsId{contents_number};
  boot = BootId{boot_number};
  persistence = PersistenceId{persistence_number};
  has_files = files != 0;
  fabric = static_cast<FabricKind>(fabric_number);
  regions.clear();
  for (uint32_t i = 0; i < count; ++i) {
    if (!GetRegion(&rest, &regions.emplace_back())) return Malformed("description of a region");
  }
  return rest.empty() ? Status::OK() : Malformed("trailing bytes");
}

std::string NodeWelcome::Encode() const {
  std::string body(1, static_cast<char>(verdict));
  PutLengthPrefixed(&body, proof);
  PutLengthPrefixed(&body, info);
  return body;
}

Status NodeWelcome::Decode(const Slice& body) {
  Slice rest = body;
  if (!GetVerdict(&rest, &verdict)) return Malformed("welcome");
  const size_t proof_bytes = verdict == Verdict::kGoOn ? kProofBytes : 0;
  if (!GetString(&rest, proof_bytes, proof_bytes, &proof) ||
      !GetString(&rest, 0, kHelloBodyBytesMax, &info) || !rest.empty()) {
    return Malformed("welcome");
  }
  return Status::OK();
}

}  // namespace dlsm
