// Requests and replies as bytes, for tests that speak the protocol of tcp themselves.
#pragma once

#include <string>

#include "util/fabric/tcp/tcp_frame.h"

namespace dlsm {

// Of a request or a reply.
template <typename Frame>
std::string Encoded(const Frame& frame) {
  typename Frame::Encoded bytes;
  frame.Encode(bytes.data());
  return std::string(bytes.data(), bytes.size());
}

}  // namespace dlsm
