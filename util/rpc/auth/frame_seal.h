// Seals: what the frames of a control connection end with, so that nobody between the two sides can
// change, insert, repeat, drop or reorder one without being noticed.
//
// The keys come from the secret and from the nonces of the connection's hello: each connection has
// its own, and each direction. A seal is a part of the HMAC-SHA-256 of the frame's number in its
// direction, counted from 0, and of the frame. It hides nothing: that is what TLS is for.
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// The keys of a connection, by who sends.
struct FrameKeys {
  std::string client;
  std::string memory_node;
};

// One direction. One thread at a time.
class FrameSeal {
 public:
  static constexpr size_t kBytes = 16;

  static Status Make(const std::string& key, std::unique_ptr<FrameSeal>* seal);

  // Adds the next seal to `frame`, which is one frame.
  Status Append(std::string* frame);
  // Corruption unless `seal` is the next one, that of this frame.
  Status Check(const Slice& header, const Slice& payload, const Slice& seal);

 private:
  struct ContextDeleter {
    void operator()(EVP_MAC_CTX* context) const;
  };

  FrameSeal() = default;
  Status Compute(const Slice& header, const Slice& payload, unsigned char* seal);

  std::unique_ptr<EVP_MAC_CTX, ContextDeleter> context_;  // Has the key.
  uint64_t next_ = 0;
};

// Both directions of one side's connection.
struct FrameSeals {
  std::unique_ptr<FrameSeal> sent;
  std::unique_ptr<FrameSeal> received;

  Status MakeForClient(const FrameKeys& keys);
  Status MakeForMemoryNode(const FrameKeys& keys);
};

}  // namespace dlsm
