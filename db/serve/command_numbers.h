// Commands have numbers, by which is kept what there is for each of them.
#pragma once

#include <cstddef>

namespace dlsm::serve {

// More than there are commands. A multiple of 64, for sets of them are words of bits.
inline constexpr size_t kCommandNumbers = 192;

}  // namespace dlsm::serve
