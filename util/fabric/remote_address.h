// Where bytes lie in a memory node. Addresses are relative (node, region, offset): virtual
// addresses and keys are looked up by the fabric, so metadata that holds these survives a restart
// of either side and can be shipped to others.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace dlsm {

enum class NodeId : uint32_t {};

// What a memory node's memory holds, told by a number. It is drawn at random together with the
// contents, so other contents have another number; it outlives the process where the contents do.
// Whatever means "is this still the memory that it was?" compares contents.
enum class ContentsId : uint64_t {};

// How much of what was stored in a memory node's memory is still there, told by a number. It stays
// the same as long as everything is. After a power failure, which takes what was not persisted, and
// with other contents it is another one.
enum class PersistenceId : uint64_t {};

// One run of a memory node's process, told by a number that is drawn at random when it starts.
// Sessions, grants, data tokens, numbers of requests and registered regions end with the boot.
// Whatever means "is this still the process that it was?" compares boots. Other contents are always
// another boot as well. A call that speaks of bytes is of the boot in which they were written: in
// another boot it is void.
enum class BootId : uint64_t {};

enum class RegionId : uint32_t {};

struct RemoteSpan {
  NodeId node{};
  RegionId region{};
  uint64_t offset = 0;
  uint64_t bytes = 0;

  // `count` bytes of this span, from `start` on.
  RemoteSpan Sub(uint64_t start, uint64_t count) const {
    assert(start <= bytes && count <= bytes - start);
    return RemoteSpan{node, region, offset + start, count};
  }
  friend bool operator==(const RemoteSpan&, const RemoteSpan&) = default;
};

// Local memory that takes part in a transfer. `local_key` is 0 on fabrics that need no
// registration.
struct LocalSpan {
  char* data = nullptr;
  size_t bytes = 0;
  uint32_t local_key = 0;

  LocalSpan Sub(size_t start, size_t count) const {
    assert(start <= bytes && count <= bytes - start);
    return LocalSpan{data + start, count, local_key};
  }
};

}  // namespace dlsm
