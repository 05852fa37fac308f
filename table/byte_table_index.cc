#include "table/byte_table_index.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "port/prefetch.h"
#include "table/byte_table_index_format.h"
#include "table/key_prefix.h"
#include "util/checksum.h"
#include "util/status_macros.h"

namespace dlsm {

using namespace byte_table_index;  // NOLINT: the constants of this format.

namespace {

Status MalformedByteIndex(const char* what) {
  return Status::Corruption("index of a byte-addressable table", what);
}

}  // namespace

Status ByteTableIndex::Open(const Slice& bytes, uint64_t data_bytes, uint64_t entries) {
  if (bytes.size() < kHeaderBytes + kCrcBytes) return MalformedByteIndex("too short");
  const size_t covered = bytes.size() - kCrcBytes;
  if (Crc32c(bytes.data(), covered) != DecodeFixed32(bytes.data() + covered)) {
    return MalformedByteIndex("wrong checksum");
  }
  DLSM_RETURN_IF_ERROR(Layout(bytes, entries));
  DLSM_RETURN_IF_ERROR(CheckArrays(data_bytes));
  Sample();
  return Status::OK();
}

Status ByteTableIndex::Layout(const Slice& bytes, uint64_t entries) {
  const char* const header = bytes.data();
  const auto field = [header](size_t i) { return DecodeFixed32(header + i * sizeof(uint32_t)); };
  if (field(0) != kVersion)
    return MalformedByteIndex("unknown version: written by another release");
  whole_keys_ = (field(1) & kWholeKeys) != 0;
  if (whole_keys_ == comparator_.bytewise())
    return MalformedByteIndex("made with another comparator");
  groups_ = field(2);
  const uint64_t prefix_bytes = field(3);
  const uint64_t entry_bytes = field(4);
  const uint64_t group_bytes = (uint64_t{groups_} + 1) * kGroupBytes;
  const uint64_t size = kHeaderBytes + group_bytes + prefix_bytes + entry_bytes + kCrcBytes;
  if (RoundUp(size) != bytes.size()) return MalformedByteIndex("its parts do not add up");
  if ((entries + kGroupRecords - 1) / kGroupRecords != groups_) {
    return MalformedByteIndex("another number of records");
  }
  last_group_records_ = static_cast<uint32_t>((entries - 1) % kGroupRecords + 1);
  group_array_ = header + kHeaderBytes;
  prefix_ = Slice(group_array_ + group_bytes, prefix_bytes);
  entries_ = prefix_.data() + prefix_bytes;
  if (EntryOffset(groups_) != entry_bytes) return MalformedByteIndex("entries out of bounds");
  return Status::OK();
}

Status ByteTableIndex::CheckArrays(uint64_t data_bytes) const {
  if (DataOffset(0) != 0 || EntryOffset(0) != 0) return MalformedByteIndex("a gap");
  if (DataOffset(groups_) != data_bytes) return MalformedByteIndex("data out of bounds");
  for (uint32_t group = 0; group < groups_; ++group) {
    if (DataOffset(group) >= DataOffset(group + 1) ||
        EntryOffset(group) >= EntryOffset(group + 1)) {
      return MalformedByteIndex("offsets out of order");
    }
    if (!whole_keys_ && group != 0 && DigestAt(group - 1) > DigestAt(group)) {
      return MalformedByteIndex("digests out of order");
    }
  }
  return Status::OK();
}

bool ByteTableIndex::ReadFirst(uint32_t group, FirstEntry* first) const {
  const char* at = entries_ + EntryOffset(group);
  const char* const limit = EntriesEnd(group);
  first->same = (static_cast<uint8_t>(*at++) & kSame) != 0;  // No group is empty.
  at = DecodeVarint32(at, limit, &first->tail_bytes);
  if (at == nullptr) return false;
  at = DecodeVarint32(at, limit, &first->record_bytes);
  if (at == nullptr) return false;
  if (first->same) {
    if (static_cast<size_t>(limit - at) < sizeof(uint64_t)) return false;
    first->trailer = DecodeFixed64(at);
    at += sizeof(uint64_t);
  }
  const size_t elsewhere = whole_keys_ ? 0 : kDigestBytes;
  const size_t rest = first->tail_bytes > elsewhere ? first->tail_bytes - elsewhere : 0;
  if (static_cast<size_t>(limit - at) < rest) return false;
  first->rest = Slice(at, rest);
  first->at = at + rest;
  return true;
}

// A lookup spends most of its instructions here.
template <bool kWhole>
[[gnu::always_inline]] inline const char* ByteTableIndex::ReadEntry(const char* at,
                                                                    const char* limit,
                                                                    Entry* entry) {
  if (at >= limit) return nullptr;
  const auto control = static_cast<uint8_t>(*at++);
  entry->same = (control & kSame) != 0;
  uint32_t add = sizeof(entry->trailer);
  if (!entry->same) [[likely]] {
    entry->drop = control & kInVarint;
    const uint8_t add_field = (control >> kAddShift) & kInVarint;
    add = kWhole ? add_field : add_field + 1U;
    if (entry->drop == kInVarint) [[unlikely]] {
      at = DecodeVarint32(at, limit, &entry->drop);
      if (at == nullptr) return nullptr;
    }
    if (add_field == kInVarint) [[unlikely]] {
      at = DecodeVarint32(at, limit, &add);
      if (at == nullptr) return nullptr;
    }
  }
  if ((control & kLength) != 0) {
    at = DecodeVarint32(at, limit, &entry->record_bytes);
    if (at == nullptr) return nullptr;
  }
  if (limit - at < static_cast<ptrdiff_t>(add)) return nullptr;
  if (entry->same) [[unlikely]] {
    entry->trailer = DecodeFixed64(at);
  } else {
    entry->added = Slice(at, add);
  }
  return at + add;
}

// The group's first separator against the target, as far as a memcmp tells. Bytewise, the caller
// has found that the digests are equal.
int ByteTableIndex::CompareTails(uint32_t group, const FirstEntry& first,
                                 const Target& target) const {
  if (whole_keys_) return comparator_.CompareUserKeys(first.rest, target.tail);
  assert(DigestAt(group) == target.digest);
  (void)group;
  if (first.tail_bytes > kDigestBytes && target.tail.size() > kDigestBytes) {
    return first.rest.compare(After(target.tail, kDigestBytes));
  }
  // One is a prefix of the other, zeros included.
  return first.tail_bytes < target.tail.size() ? -1 : first.tail_bytes > target.tail.size();
}

// Whether the target's record is in this group or later.
bool ByteTableIndex::AtOrBefore(uint32_t group, const Target& target, bool* malformed) const {
  FirstEntry first;
  if (!ReadFirst(group, &first)) {
    *malformed = true;
    return false;
  }
  const int order = CompareTails(group, first, target);
  if (order != 0) return order < 0;
  // Further versions of the target's key: it is here unless the version before suits already.
  return !first.same || first.trailer > target.trailer;
}

void ByteTableIndex::Sample() {
  const uint32_t samples = whole_keys_ ? 0 : (groups_ + kSampledGroups - 1) / kSampledGroups;
  samples_.Build(samples,
                 [this](size_t i) { return DigestAt(static_cast<uint32_t>(i) * kSampledGroups); });
}

// The number of samples below `digest`, or not above it. Asks for the lines where DigestsBelow()
// goes on.
uint32_t ByteTableIndex::SamplesBelow(uint64_t digest, bool or_equal) const {
  const bool all = or_equal && ++digest == 0;
  const auto samples = static_cast<uint32_t>(all ? samples_.size() : samples_.CountBelow(digest));
  if (samples == 0) return 0;
  const uint32_t first = (samples - 1) * kSampledGroups;
  // Where the last group's entries end is told by the one behind it.
  const uint32_t count = std::min(kSampledGroups, groups_ - first) + 1;
  port::PrefetchBytes(AtGroup(first), count * kGroupBytes);
  return samples;
}

// The number of digests below `digest`, or not above it, like the `samples`.
uint32_t ByteTableIndex::DigestsBelow(uint64_t digest, bool or_equal, uint32_t samples) const {
  if (samples == 0) return 0;
  const uint32_t first = (samples - 1) * kSampledGroups;
  const uint32_t count = std::min(kSampledGroups, groups_ - first);
  const char* const behind_sample = AtGroup(first + 1);
  if (or_equal && ++digest == 0) return first + count;
  // All at once: their lines are here, and no load waits for a comparison.
  uint32_t below = 1;
  for (uint32_t i = 0; i < count - 1; ++i) {
    below += DecodeFixed64(behind_sample + i * kGroupBytes) < digest ? 1 : 0;
  }
  return first + below;
}

// Of the groups in [low, high), how many are at or before the target, plus `low`.
uint32_t ByteTableIndex::CountAtOrBefore(uint32_t low, uint32_t high, const Target& target,
                                         bool* malformed) const {
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (AtOrBefore(middle, target, malformed)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint32_t ByteTableIndex::Approach(const Slice& user_key) const {
  if (whole_keys_ || groups_ == 0 || !user_key.starts_with(prefix_)) return kUnknown;
  return SamplesBelow(Digest(After(user_key, prefix_.size())), true);
}

uint32_t ByteTableIndex::ApproachFurther(const Slice& user_key, uint32_t samples) const {
  if (samples == kUnknown) return kUnknown;
  return DigestsBelow(Digest(After(user_key, prefix_.size())), true, samples);
}

void ByteTableIndex::AskForEntries(uint32_t groups) const {
  if (groups == kUnknown || groups == 0) return;
  const char* const entries = entries_ + EntryOffset(groups - 1);
  // Mostly all of them; the processor goes on by itself where keys are long.
  port::PrefetchBytes(entries, static_cast<size_t>(EntriesEnd(groups - 1) - entries),
                      2 * port::kCacheLineBytes);
}

// Which of a group's fingerprints are the one that is looked for, in two words: at each such byte
// its highest bit is set.
struct ByteTableIndex::Matches {
  uint32_t count() const { return static_cast<uint32_t>(std::popcount(low) + std::popcount(high)); }
  uint32_t first() const {
    return static_cast<uint32_t>(low != 0 ? std::countr_zero(low) : 64 + std::countr_zero(high)) /
           8;
  }

  uint64_t low;
  uint64_t high;
};

namespace {

uint64_t EqualBytes(uint64_t bytes, uint8_t byte) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLowBits = 0x7f * kOnes;
  const uint64_t differ = bytes ^ byte * kOnes;
  // No carry leaves its byte, so unlike shorter ways this one makes no mistakes.
  return ~(((differ & kLowBits) + kLowBits) | differ | kLowBits);
}

}  // namespace

ByteTableIndex::Matches ByteTableIndex::MatchesIn(uint32_t group, uint8_t fingerprint) const {
  const char* const fingerprints = AtGroup(group) + kFingerprintsAt;
  return {EqualBytes(DecodeFixed64(fingerprints), fingerprint),
          EqualBytes(DecodeFixed64(fingerprints + sizeof(uint64_t)), fingerprint)};
}

// Of the only match in a group. False if the place does not follow from its number.
bool ByteTableIndex::PlaceTheMatch(uint32_t group, const Matches& matches, Place* place) const {
  const uint32_t ordinal = matches.first();
  // Behind the last record there are zeros.
  if (!IsUniform(group) || ordinal >= RecordsIn(group)) return false;
  const uint64_t offset = DataOffset(group);
  const uint64_t all = DataOffset(group + 1) - offset;
  // A division by a constant is a shift, and only the last group needs another.
  const uint64_t bytes = group + 1 < groups_ ? all / kGroupRecords : all / last_group_records_;
  *place = Place{group, ordinal, offset + ordinal * bytes, bytes, /*may_hold=*/true};
  return true;
}

ByteTableIndex::Answer ByteTableIndex::AskFingerprints(const Slice& user_key, uint64_t hash,
                                                       uint32_t groups, Place* place) const {
  if (groups == kUnknown) return Answer::kUnsure;
  if (groups == 0) return Answer::kAbsent;
  uint32_t group = groups - 1;
  const uint8_t fingerprint = Fingerprint(hash);
  Matches matches = MatchesIn(group, fingerprint);
  uint32_t count = matches.count();
  // Where the digests are equal, the key may be before the group's first separator.
  const uint64_t digest = Digest(After(user_key, prefix_.size()));
  if (group > 0 && DigestAt(group) == digest) {
    if (DigestAt(group - 1) == digest) return Answer::kUnsure;
    const Matches before = MatchesIn(group - 1, fingerprint);
    if (count == 0) {
      matches = before;
      --group;
    }
    count += before.count();
  }
  if (count == 0) return Answer::kAbsent;
  return count == 1 && PlaceTheMatch(group, matches, place) ? Answer::kPlaced : Answer::kUnsure;
}

// `high`: the digests at or below the target's; kUnknown if they have not been counted.
uint32_t ByteTableIndex::GroupsAtOrBefore(const Target& target, uint32_t high,
                                          bool* malformed) const {
  if (whole_keys_) return CountAtOrBefore(0, groups_, target, malformed);
  const auto digests_below = [&](bool or_equal) {
    return DigestsBelow(target.digest, or_equal, SamplesBelow(target.digest, or_equal));
  };
  if (high == kUnknown) high = digests_below(true);
  if (high == 0 || DigestAt(high - 1) != target.digest) return high;
  if (high == 1 || DigestAt(high - 2) != target.digest) {
    return AtOrBefore(high - 1, target, malformed) ? high : high - 1;
  }
  return CountAtOrBefore(digests_below(false), high, target, malformed);
}

ByteTableIndex::Outcome ByteTableIndex::LocateWith(const uint8_t* fingerprint,
                                                   const Slice& user_key, uint64_t trailer,
                                                   Place* place, uint32_t groups) const {
  if (groups_ == 0) return Outcome::kBeforeAll;
  if (!user_key.starts_with(prefix_)) {
    return user_key.compare(prefix_) < 0 ? Outcome::kBeforeAll : PlaceLast(place);
  }
  Target target;
  target.tail = After(user_key, prefix_.size());
  target.digest = whole_keys_ ? 0 : Digest(target.tail);
  target.trailer = trailer;
  bool malformed = false;
  groups = GroupsAtOrBefore(target, groups, &malformed);
  if (malformed) return Outcome::kMalformed;
  if (groups == 0) return Outcome::kBeforeAll;
  if (fingerprint != nullptr) {
    // If the table has the key, this group has the version, whatever others have.
    const Matches matches = MatchesIn(groups - 1, *fingerprint);
    const uint32_t count = matches.count();
    place->may_hold = count > 0;
    if (count == 0 || (count == 1 && PlaceTheMatch(groups - 1, matches, place))) {
      return Outcome::kPlaced;
    }
  }
  return whole_keys_ ? LocateInGroup<true>(groups - 1, target, place)
                     : LocateInGroup<false>(groups - 1, target, place);
}

namespace {

// Follows separators without putting them together: all it keeps of the last one that was at or
// before the target is its length and how much of it the target shares.
class SeparatorCursor {
 public:
  enum class Order { kAtOrBefore, kAfter, kMalformed };

  SeparatorCursor(const Slice& target, size_t separator_bytes, size_t shared)
      : target_(target), separator_bytes_(separator_bytes), match_(shared) {}

  // The next separator, greater than the last one, drops and adds that much.
  Order Next(size_t drop, const Slice& added) {
    if (drop > separator_bytes_) return Order::kMalformed;
    const size_t kept = separator_bytes_ - drop;
    separator_bytes_ = kept + added.size();
    // It parts from the target where the last one did, and that one was before it.
    if (kept > match_) return Order::kAtOrBefore;
    // It parts from the last one where that one equals the target, upwards.
    if (kept < match_) return Order::kAfter;
    const size_t comparable = std::min(added.size(), target_.size() - match_);
    const size_t same = CommonPrefix(added.data(), target_.data() + match_, comparable);
    const bool whole = same == added.size();  // All of the separator is a prefix of the target.
    if (!whole && (same == comparable || Byte(added, same) > Byte(target_, match_ + same))) {
      return Order::kAfter;
    }
    match_ += same;
    return Order::kAtOrBefore;
  }

  // Whether the target begins with the last separator that was not after it.
  bool TargetBeginsWithIt() const { return match_ == separator_bytes_; }

 private:
  static unsigned char Byte(const Slice& bytes, size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  }

  const Slice target_;
  size_t separator_bytes_;
  size_t match_;
};

// How much of the target the first separator of a group shares, which is at or before it.
size_t SharedWithFirst(uint64_t digest, uint64_t target_digest, size_t tail_bytes,
                       const Slice& rest, const Slice& target) {
  const uint64_t differ = digest ^ target_digest;
  const size_t shorter = std::min(tail_bytes, target.size());
  if (differ != 0) return std::min(static_cast<size_t>(std::countl_zero(differ)) / 8, shorter);
  if (shorter <= kDigestBytes) return shorter;
  return kDigestBytes + CommonPrefix(rest, After(target, kDigestBytes));
}

}  // namespace

// Steps over the group's entries as long as they are at or before the target.
template <bool kWhole>
ByteTableIndex::Outcome ByteTableIndex::LocateInGroup(uint32_t group, const Target& target,
                                                      Place* place) const {
  FirstEntry first;
  if (!ReadFirst(group, &first)) return Outcome::kMalformed;
  const size_t shared = kWhole ? 0
                               : SharedWithFirst(DigestAt(group), target.digest, first.tail_bytes,
                                                 first.rest, target.tail);
  SeparatorCursor cursor(target.tail, first.tail_bytes, shared);
  const char* at = first.at;
  const char* const limit = EntriesEnd(group);
  const uint32_t records = RecordsIn(group);
  uint64_t offset = DataOffset(group);
  Entry entry;
  entry.record_bytes = first.record_bytes;
  // Copied to *place in the end: as locals they stay in registers.
  Place last{group, 0, offset, first.record_bytes, kWhole || cursor.TargetBeginsWithIt()};
  bool decided = false;  // The candidate is the version to take, if it has the target's key.
  for (uint32_t ordinal = 1; ordinal < records; ++ordinal) {
    offset += entry.record_bytes;
    at = ReadEntry<kWhole>(at, limit, &entry);
    if (at == nullptr) return Outcome::kMalformed;
    if (entry.same) [[unlikely]] {
      decided = decided || entry.trailer <= target.trailer;
      if (decided) continue;
    } else if constexpr (kWhole) {
      if (comparator_.CompareUserKeys(entry.added, target.tail) > 0) break;
      decided = false;
    } else {
      const auto order = cursor.Next(entry.drop, entry.added);
      if (order == SeparatorCursor::Order::kMalformed) return Outcome::kMalformed;
      if (order == SeparatorCursor::Order::kAfter) break;
      decided = false;
      last.may_hold = cursor.TargetBeginsWithIt();
    }
    last.ordinal = ordinal;
    last.offset = offset;
    last.bytes = entry.record_bytes;
  }
  *place = last;
  const bool inside = last.offset + last.bytes <= DataOffset(group + 1);
  return inside ? Outcome::kPlaced : Outcome::kMalformed;
}

ByteTableIndex::Outcome ByteTableIndex::PlaceLast(Place* place) const {
  GroupOffsets offsets;
  const uint32_t group = groups_ - 1;
  if (!Offsets(group, &offsets)) return Outcome::kMalformed;
  const uint32_t last = offsets.records - 1;
  *place = Place{group, last, offsets.offsets[last],
                 offsets.offsets[last + 1] - offsets.offsets[last], /*may_hold=*/false};
  return Outcome::kPlaced;
}

bool ByteTableIndex::Offsets(uint32_t group, GroupOffsets* offsets) const {
  assert(group < groups_);
  FirstEntry first;
  if (!ReadFirst(group, &first)) return false;
  Entry entry;
  entry.record_bytes = first.record_bytes;
  const char* at = first.at;
  offsets->records = RecordsIn(group);
  offsets->offsets[0] = DataOffset(group);
  for (uint32_t i = 1; i < offsets->records; ++i) {
    offsets->offsets[i] = offsets->offsets[i - 1] + entry.record_bytes;
    if (entry.record_bytes == 0) return false;
    at = whole_keys_ ? ReadEntry<true>(at, EntriesEnd(group), &entry)
                     : ReadEntry<false>(at, EntriesEnd(group), &entry);
    if (at == nullptr) return false;
  }
  if (entry.record_bytes == 0) return false;
  offsets->offsets[offsets->records] = offsets->offsets[offsets->records - 1] + entry.record_bytes;
  return offsets->offsets[offsets->records] == DataOffset(group + 1);
}

uint32_t ByteTableIndex::GroupAt(uint64_t offset) const {
  uint32_t low = 0;
  uint32_t high = groups_;  // The group is in [low, high).
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (DataOffset(middle) <= offset) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace dlsm
