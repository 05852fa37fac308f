// The header of a database: a block in its memory node's region, made zero when the database is
// made there and given back when it goes. Compute nodes reach it one-sided.
//
//   offset   0                     64                                     4096
//            | ownership word | 0  | publications                          |
//
// The ownership word is who may write the database, by its memory node's leave:
//
//   bits 63                32 31            0
//        | epoch              | owner's tag  |       0: nobody has ever had it
//
// Every word's epoch is larger than those before it. A memory node gives out the word that a
// session would have; the client puts it in place by compare-and-swap of the one before. The memory
// node reads the word, but writes it only when the header is made, and when it begins with contents
// of its directory, before any client comes: so one order of all owners is that of the swaps.
#pragma once

#include <cstdint>

#include "util/fabric/remote_address.h"

namespace dlsm {

inline constexpr uint64_t kDatabaseHeaderBytes = 4096;

inline constexpr uint64_t kOwnershipWordOffset = 0;
inline constexpr uint64_t kPublicationsOffset = 64;
inline constexpr uint64_t kPublicationsBytes = kDatabaseHeaderBytes - kPublicationsOffset;

struct OwnershipWord {
  uint32_t epoch = 0;
  uint32_t tag = 0;

  static OwnershipWord Of(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
  }
  uint64_t bits() const { return uint64_t{epoch} << 32 | tag; }
  friend bool operator==(const OwnershipWord&, const OwnershipWord&) = default;
};

inline RemoteSpan OwnershipWordIn(const RemoteSpan& header) {
  return header.Sub(kOwnershipWordOffset, sizeof(uint64_t));
}

inline RemoteSpan PublicationsIn(const RemoteSpan& header) {
  return header.Sub(kPublicationsOffset, kPublicationsBytes);
}

}  // namespace dlsm
