// What the two sides of a control connection tell each other in the hello: layouts and their bounds
// checks. hello.h has the conversation.
//
//   greeting, from both sides, the same in every version for ever:
//       "DLSMCTRL" 8 | protocol version 5
//   every message after that:
//       bytes of the body 4 | CRC32C of the body 4 | body
//
// Integers are little-endian; strings have a varint32 length before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/fabric/fabric.h"

namespace dlsm {

inline constexpr uint32_t kProtocolVersion = 17;

inline constexpr size_t kPreambleBytes = 8;
inline constexpr char kControlPreamble[] = "DLSMCTRL";
inline constexpr char kDataPreamble[] = "DLSMDATA";
inline constexpr char kQueuePairPreamble[] = "DLSMRDMA";
inline constexpr size_t kGreetingBytes = kPreambleBytes + 4;

std::string EncodeGreeting(uint32_t version);
// Corruption if it is not dLSM's at all; any version is fine here.
Status DecodeGreeting(const Slice& bytes, uint32_t* version);

// Before a peer has proved itself it cannot make us hold more than this.
inline constexpr size_t kHelloBodyBytesMax = size_t{16} << 10;
inline constexpr size_t kHelloHeaderBytes = 8;
inline constexpr size_t kClientNameBytesMax = 256;
inline constexpr size_t kRegionsMax = 256;

// The frame around a body.
std::string EncodeHelloMessage(const Slice& body);
Status DecodeHelloHeader(const Slice& header, uint32_t* body_bytes, uint32_t* checksum);

// Client to memory node: first.
struct ClientOpening {
  std::string nonce;  // kNonceBytes.
  std::string name;
  std::string access_name;  // In the memory node's access list; empty: the cluster's secret.

  std::string Encode() const;
  Status Decode(const Slice& body);
};

// Every answer of the memory node starts with one byte that tells whether it goes on.
enum class Verdict : uint8_t { kGoOn = 0, kSecretRefused = 1, kBusy = 2, kRefused = 3 };

// Memory node to client: a nonce to prove the secret with, or why it will not talk.
struct NodeChallenge {
  Verdict verdict = Verdict::kGoOn;
  std::string nonce;   // kNonceBytes if it goes on.
  std::string reason;  // For people, if it does not.

  std::string Encode() const;
  Status Decode(const Slice& body);
};

// Client to memory node: the proof, and the data token that it already has from an earlier
// connection (empty: none), with the boot that gave it.
struct ClientProof {
  BootId boot{};
  std::string data_token;
  std::string proof;  // Of kClient, over name, boot and token.

  std::string Encode() const;
  Status Decode(const Slice& body);
};

// What a memory node tells to those who know the secret.
struct NodeInfo {
  NodeId node{};
  ContentsId contents{};
  BootId boot{};
  PersistenceId persistence{};
  bool has_files = false;
  FabricKind fabric = FabricKind::kTcp;  // The one it serves besides tcp.
  std::vector<RegionInfo> regions;
  std::string data_token;

  std::string Encode() const;
  Status Decode(const Slice& body);
};

// Memory node to client: last. With a refusal it holds nothing but the verdict.
struct NodeWelcome {
  Verdict verdict = Verdict::kGoOn;
  std::string proof;  // Of kMemoryNode, over `info`.
  std::string info;   // An encoded NodeInfo.

  std::string Encode() const;
  Status Decode(const Slice& body);
};

}  // namespace dlsm
