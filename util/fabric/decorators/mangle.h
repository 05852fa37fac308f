// What a memory node that is broken, or means harm, may answer: bytes with nothing right about
// them, or nearly everything. The same draw makes the same of the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dlsm {

// Puts other bytes in place of some or all: flipped bits, numbers at the ends of their ranges,
// parts moved elsewhere, random ones.
void MangleBytes(char* data, size_t bytes, uint64_t draw);

// The same of an answer, which may also become shorter or longer, or what `other` is: an answer to
// something else.
void MangleAnswer(std::string* answer, const std::string& other, uint64_t draw);

}  // namespace dlsm
