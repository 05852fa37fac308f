#include "util/fabric/span_check.h"

#include <fmt/core.h>

namespace dlsm {

Status SpanCheck::SizesDiffer(const RemoteSpan& remote, const LocalSpan& local) {
  return Status::InvalidArgument(
      fmt::format("a transfer has {} remote bytes and {} local ones", remote.bytes, local.bytes));
}

Status SpanCheck::NotAWord(const RemoteSpan& word) {
  return Status::InvalidArgument(fmt::format(
      "an atomic needs 8 bytes at a multiple of 8, not {} bytes at {}", word.bytes, word.offset));
}

Status SpanCheck::OtherNode(const RemoteSpan& remote) const {
  return Status::InvalidArgument(
      fmt::format("an address on memory node {} was given to memory "
                  "node {}",
                  static_cast<uint32_t>(remote.node), static_cast<uint32_t>(node_)));
}

}  // namespace dlsm
