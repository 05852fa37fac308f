// One change of a database's account at a memory node, as a value.
//
// Every byte that is allocated belongs to one account, for one or more reasons. A change says which
// bytes get which reason and which lose one, and what else of the account changes with that. All of
// it happens together or not at all (Accounts::Apply); only that bytes without a reason are given
// to others may come later, if there is no memory for that just then. A change depends on nothing
// but the accounts before it, and a change that was applied can be applied again to the same
// accounts, with the same result: so changes can be kept and repeated, in their order.
//
// The calls, and the steps of their changes:
//
//   A database is made          allocate -> header.
//   A grant                     allocate -> held.
//   A free                      release held.
//   A new manifest              release live (all), copy held -> live.
//   A session begins            copy live (all) -> held.
//   A session ends              move held (all) -> fenced, copy header -> fenced; where it was
//                               taken over: copy live (all) -> fenced.
//   Its client's access ends    release fenced (all).
//   A merge begins              copy held -> input.
//   It makes an output          allocate -> output; free the part that it did not fill.
//   It leaves it to a session   move output (all) -> held.
//   It ends                     free output (all), release input (all).
//   A database goes             release live (all), release header (all).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/byte_ranges.h"
#include "memory_node/accounts/reader_leases.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Why bytes are allocated. database_table.h says what each kind means.
struct ByteReason {
  enum class Kind : uint8_t {
    kHeader,
    kHeld,
    kLive,
    kFenced,
    kInput,
    kReleased,  // A reason has ended. Bytes that have no other are to be retired.
    kUnused,    // An output was not kept: no reader knows these bytes.
    kOutput,
  };

  Kind kind = Kind::kHeld;
  uint64_t number = 0;  // Of the merge (kInput, kOutput), or of the session's end (kFenced).

  friend auto operator<=>(const ByteReason&, const ByteReason&) = default;
};

inline constexpr ByteReason kHeaderReason{ByteReason::Kind::kHeader, 0};
inline constexpr ByteReason kHeldReason{ByteReason::Kind::kHeld, 0};
inline constexpr ByteReason kLiveReason{ByteReason::Kind::kLive, 0};
// On the way to the free memory: the accounts' own, and no change's.
inline constexpr ByteReason kReleasedReason{ByteReason::Kind::kReleased, 0};
inline constexpr ByteReason kUnusedReason{ByteReason::Kind::kUnused, 0};
inline ByteReason InputReason(uint64_t merge) { return {ByteReason::Kind::kInput, merge}; }
inline ByteReason OutputReason(uint64_t merge) { return {ByteReason::Kind::kOutput, merge}; }
inline ByteReason FencedReason(uint64_t end) { return {ByteReason::Kind::kFenced, end}; }

// One part of a change. It is checked against the account as it was before the change, so no step
// may need what another one gives.
struct AccountStep {
  enum class Kind : uint8_t {
    kAllocate,  // `ranges`, which are free, are allocated for the reason `to`.
    kCopy,      // Bytes that have the reason `from` get `to` as well.
    kMove,      // Bytes that have the reason `from` get `to` instead.
    kRelease,   // The reason `from` ends. Bytes that have no other reason are retired.
    kFree,      // The reason `from` ends, which is their only one. No reader has ever known them.
  };

  Kind kind = Kind::kRelease;
  ByteReason from;
  ByteReason to;
  std::optional<ByteRanges> ranges;  // Unset: all bytes that have the reason `from`.

  static AccountStep Allocate(ByteReason to, ByteRange range) {
    AccountStep step{Kind::kAllocate, {}, to, ByteRanges()};
    step.ranges->Add(range);
    return step;
  }
  static AccountStep Copy(ByteReason from, ByteReason to, ByteRanges ranges) {
    return {Kind::kCopy, from, to, std::move(ranges)};
  }
  static AccountStep CopyAll(ByteReason from, ByteReason to) {
    return {Kind::kCopy, from, to, std::nullopt};
  }
  static AccountStep MoveAll(ByteReason from, ByteReason to) {
    return {Kind::kMove, from, to, std::nullopt};
  }
  static AccountStep Release(ByteReason from, ByteRanges ranges) {
    return {Kind::kRelease, from, {}, std::move(ranges)};
  }
  static AccountStep ReleaseAll(ByteReason from) {
    return {Kind::kRelease, from, {}, std::nullopt};
  }
  static AccountStep Free(ByteReason from, ByteRanges ranges) {
    return {Kind::kFree, from, {}, std::move(ranges)};
  }
  static AccountStep FreeAll(ByteReason from) { return {Kind::kFree, from, {}, std::nullopt}; }
};

struct AccountManifest {
  uint64_t version = 0;  // 0: none was ever put.
  std::string bytes;
};

struct AccountChange {
  DatabaseIncarnation account{};
  std::string made;      // The name of the account, if this change makes it; else empty.
  bool dropped = false;  // Nobody opens the database any more.
  // The next two change what ReaderLeases knows of the publications, in this order, before any
  // step.
  bool owner_gone = false;
  uint64_t unnamed_from = PublishedDatabase::kUnknown;  // kUnknown: nothing new was told.
  std::optional<AccountManifest> manifest;
  std::vector<AccountStep> steps;
};

}  // namespace dlsm
