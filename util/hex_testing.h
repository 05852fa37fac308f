// Bytes as text, for tests of formats.
#pragma once

#include <fmt/core.h>

#include <string>

#include "dLSM/slice.h"

namespace dlsm {

inline std::string Hex(const Slice& bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return hex;
}

}  // namespace dlsm
