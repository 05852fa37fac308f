#include "util/fabric/tcp/tcp_frame.h"

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

bool IsOpcode(uint8_t byte) {
  return byte >= static_cast<uint8_t>(TcpOpcode::kHello) &&
         byte <= static_cast<uint8_t>(TcpOpcode::kFetchAdd);
}

bool IsCode(uint8_t byte) { return byte <= static_cast<uint8_t>(TcpCode::kTooMany); }

uint8_t Byte(const char* at) { return static_cast<uint8_t>(*at); }

}  // namespace

void TcpRequest::Encode(char* to) const {
  to[0] = static_cast<char>(kTcpVersion);
  to[1] = static_cast<char>(opcode);
  to[2] = to[3] = 0;
  EncodeFixed32(to + 4, static_cast<uint32_t>(region));
  EncodeFixed64(to + 8, offset);
  EncodeFixed64(to + 16, operand);
  EncodeFixed64(to + 24, desired);
  EncodeFixed32(to + 32, sequence);
  EncodeFixed32(to + 36, Crc32c(to, 36));
}

TcpCode TcpRequest::Decode(const char* from) {
  // Before the checksum: another version may keep it elsewhere.
  if (Byte(from) != kTcpVersion) return TcpCode::kOtherVersion;
  if (DecodeFixed32(from + 36) != Crc32c(from, 36)) return TcpCode::kMalformed;
  if (!IsOpcode(Byte(from + 1)) || from[2] != 0 || from[3] != 0) return TcpCode::kMalformed;
  opcode = static_cast<TcpOpcode>(Byte(from + 1));
  region = RegionId{DecodeFixed32(from + 4)};
  offset = DecodeFixed64(from + 8);
  operand = DecodeFixed64(from + 16);
  desired = DecodeFixed64(from + 24);
  sequence = DecodeFixed32(from + 32);
  return TcpCode::kOk;
}

void TcpReply::Encode(char* to) const {
  to[0] = static_cast<char>(kTcpVersion);
  to[1] = static_cast<char>(opcode);
  to[2] = static_cast<char>(code);
  to[3] = 0;
  EncodeFixed32(to + 4, sequence);
  EncodeFixed64(to + 8, value);
  EncodeFixed32(to + 16, Crc32c(to, 16));
}

TcpCode TcpReply::Decode(const char* from) {
  if (Byte(from) != kTcpVersion) return TcpCode::kOtherVersion;
  if (DecodeFixed32(from + 16) != Crc32c(from, 16)) return TcpCode::kMalformed;
  if (!IsOpcode(Byte(from + 1)) || !IsCode(Byte(from + 2)) || from[3] != 0) {
    return TcpCode::kMalformed;
  }
  opcode = static_cast<TcpOpcode>(Byte(from + 1));
  code = static_cast<TcpCode>(Byte(from + 2));
  sequence = DecodeFixed32(from + 4);
  value = DecodeFixed64(from + 8);
  return TcpCode::kOk;
}

}  // namespace dlsm
