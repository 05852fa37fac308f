// Sizes in messages for people.
#pragma once

#include <cstdint>
#include <string>

namespace dlsm {

// "0 bytes", "1023 bytes", "1.0 KB", "16.0 MB", "2.5 GB": units of 1024, one decimal.
std::string FormatBytes(uint64_t bytes);

}  // namespace dlsm
