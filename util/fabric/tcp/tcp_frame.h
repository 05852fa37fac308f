// What travels on a TCP data connection.
//
//   client                                        server
//     "DLSMDATA" (8)                       ->       tells data from control connections
//     hello                               <->       tcp_hello.h
//     request: hello                       ->
//                                          <-       reply
//     request [payload of a write] ...     ->
//                                          <-       reply [payload of a read] ...
//
// Replies come in the order of their requests; any number of requests may be under way. A reply
// whose code is not kOk has no payload, and the server closes the connection after it.
//
//   request   0        1        2         4         8          16         24         32      36
//             | version| opcode | 0 (2)   | region  | offset   | operand  | desired  | seq.  | CRC
//             |
//   reply     0        1        2        3         4         8          16      20
//             | version| opcode | code   | 0 (1)   | seq.    | value    | CRC   |
//
// All integers are little-endian. `seq.` is the low half of the request's number on its connection;
// the reply repeats it. `CRC` is the CRC32C of all bytes before it. `operand` and `value` by
// opcode:
//
//   opcode             operand            desired   value of the reply
//   hello              0                  0         0
//   read               bytes              0         bytes, which follow
//   write              bytes, which follow 0        bytes
//   compare-and-swap   expected           desired   the word before
//   fetch-and-add      addend             0         the word before
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "util/fabric/remote_address.h"

namespace dlsm {

inline constexpr std::string_view kTcpPreamble = "DLSMDATA";
inline constexpr size_t kTcpTokenBytes = 32;
inline constexpr uint8_t kTcpVersion = 1;

enum class TcpOpcode : uint8_t { kHello = 1, kRead, kWrite, kCompareAndSwap, kFetchAdd };

enum class TcpCode : uint8_t {
  kOk = 0,
  kMalformed,     // The checksum or a field of the request is wrong.
  kOtherVersion,  // The server speaks the version in its reply's header.
  kOutOfBounds,   // There is no such region, or the range is not inside it.
  kForbidden,     // The range belongs to a database that is not the client's.
  kNoDescriptor,  // The answer to a hello: the server has no descriptor for the connection.
  kTooMany,       // Likewise: it has as many connections as it takes.
};

struct TcpRequest {
  static constexpr size_t kBytes = 40;
  using Encoded = std::array<char, kBytes>;

  TcpOpcode opcode = TcpOpcode::kHello;
  uint32_t sequence = 0;
  RegionId region{};
  uint64_t offset = 0;
  uint64_t operand = 0;
  uint64_t desired = 0;

  void Encode(char* to) const;
  // Reads kBytes. Sets *this only when it returns kOk.
  TcpCode Decode(const char* from);

  friend bool operator==(const TcpRequest&, const TcpRequest&) = default;
};

struct TcpReply {
  static constexpr size_t kBytes = 20;
  using Encoded = std::array<char, kBytes>;

  TcpOpcode opcode = TcpOpcode::kHello;
  TcpCode code = TcpCode::kOk;
  uint32_t sequence = 0;
  uint64_t value = 0;

  void Encode(char* to) const;
  // Reads kBytes. Returns whether they are a reply of this version, kOk if so, and only then sets
  // *this; the reply's own verdict is its `code`.
  TcpCode Decode(const char* from);

  friend bool operator==(const TcpReply&, const TcpReply&) = default;
};

}  // namespace dlsm
