// What has become of the answers to a session's merges: by this a memory node knows which outputs
// nobody will ever use. Part of heartbeats, and of requests for merges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"

namespace dlsm {

// A session's client numbers its merges upwards from 1, each with a number of its own, and asks for
// each once. It tells of all of them together:
//
//   `next` and above   have not been given out
//   in `awaited`       the answer may still come; the request may not even have arrived
//   in `lost`          no answer came, or none that is of use, and none is waited for: what the
//                      merge has made, or is about to make, nobody knows
//   all others         the answer is there, and what it names is the client's
//
// The last two are *settled*, for good. A number stays in `lost` until the memory node has answered
// a message that has it there, and so has let go of its outputs; so messages may be lost, come
// twice, or overtake each other.
struct MergeAnswers {
  // Of either list.
  static constexpr size_t kNumbersMax = 1024;

  uint64_t next = 1;
  // Ascending, below `next`.
  std::vector<uint64_t> awaited{};
  std::vector<uint64_t> lost{};

  bool IsLost(uint64_t number) const;

  void EncodeTo(std::string* to) const;
  // False if `from` does not begin with them, whole and in order.
  bool DecodeFrom(Slice* from);
};

// How a request for a merge is numbered, and what is told with it of the others.
struct MergeNumber {
  uint64_t own = 0;  // 0: none. What it makes stays until the session ends, heard of or not.
  MergeAnswers answers{};

  void EncodeTo(std::string* to) const;
  bool DecodeFrom(Slice* from);
};

}  // namespace dlsm
