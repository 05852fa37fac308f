// The resident, ordered index of a byte-addressable table: from a key to the one record that can
// hold it, in about four bytes a key. Everything is used in place. It answers in two ways: by
// fingerprints whether the table has a key and where, in one group's few bytes; by separators,
// where any key belongs, the table's or not.
//
//   | header | groups | prefix | entries | zeros | CRC32C: 4 |
//
//   header    version: 4 | flags: 4 | groups: 4 | prefix bytes: 4 | entry bytes: 4 | zeros: 12
//   groups    32 bytes each, and once more for the end:
//             digest: 8 | offset of its first record in the data: 4 | of its first entry: 4 |
//             fingerprints: 16
//   prefix    what all user keys have in common, as far as the first separator has it
//   zeros     so that the size is a multiple of 64: filters like their lines aligned
//
// A digest lies beside the offsets and fingerprints of its group: so who has searched the digests
// has them all in the processor's caches, where each miss would have to wait for the one before.
//
// A fingerprint is a byte of the hash of a record's user key; zeros stand where the last group has
// no more records. Versions of one key have one fingerprint. A group is UNIFORM if its records are
// as long as one another: then the place of a record follows from its number, and a lookup needs no
// entries if one fingerprint matches. The lowest bit of the entries' offset says so; entries
// of a group begin at even offsets, behind a zero where need be.
//
// A group is kGroupRecords records, the last group maybe fewer. Each record has an entry with its
// SEPARATOR: the shortest prefix of its user key that is greater than the user key before it (for
// the first record of the table: as much as tells it from the second key, and no less than
// kFirstSeparatorBytes). So the last record whose separator is at or before a key is the only one
// that can hold that key.
//
// The first entry of a group stands alone:
//
//   | control: 1 | tail bytes: varint32 | record bytes: varint32 | [trailer: 8] | rest of tail |
//
// The tail is the separator without the table's prefix. Its first eight bytes are the group's
// digest (big-endian, zeros where the tail is shorter), which is all that a binary search touches;
// what is longer follows as its rest.
//
// The other entries say how their separator differs from the one before:
//
//   | control: 1 | [drop: varint32] | [add: varint32] | [record bytes: varint32] | added bytes |
//   | control: 1 | [record bytes: varint32] | trailer: 8 |           a further version: kSame
//
//   control: bits 0-2  bytes dropped from the end of the separator before; 7: in a varint
//            bits 3-5  bytes added, less one; 7: in a varint
//            bit 6     kLength: the record is not as long as the one before
//            bit 7     kSame: the user key of the record before
//
// kSame entries store the trailer of the record BEFORE, so that a lookup knows by one entry of
// look-ahead whether that version is too new for it. A group that starts with one stores the whole
// user key as its separator, so that a search can tell "later versions of this key" from "another
// key with this prefix".
//
// With a comparator other than the bytewise one a prefix means nothing: then the flag kWholeKeys is
// set, digests and fingerprints are zero, the common prefix is empty, every separator is the whole
// user key, nothing is dropped, bits 3-5 are the number of bytes itself, and the search goes by the
// comparator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/byte_table_index_format.h"
#include "table/digest_tree.h"
#include "table/internal_key.h"
#include "util/coding.h"

namespace dlsm {

inline constexpr uint32_t kGroupRecords = 16;
// Offsets of records are 32 bits wide.
inline constexpr uint64_t kByteTableDataBytesMax = UINT32_MAX;

class ByteTableIndexBuilder {
 public:
  explicit ByteTableIndexBuilder(const InternalKeyComparator& comparator)
      : whole_keys_(!comparator.bytewise()) {}

  // Of the next record, which starts at `offset` of the data. `last_key`: the internal key of the
  // record before, empty for the first one. `hash`: Hash64() of the user key. `same`: the user key
  // is that of the record before.
  void Add(const Slice& last_key, const Slice& internal_key, uint64_t hash, bool same,
           uint64_t offset, uint32_t record_bytes);

  // No less than the index's bytes if it were finished now, and than what one more key adds.
  uint64_t BytesBound() const;
  static uint64_t KeyBytesBound(size_t user_key_bytes) { return user_key_bytes + kEntryBytesMax; }

  // `last_key`: the internal key of the last record.
  void Finish(const Slice& last_key, uint64_t data_bytes, std::string* to) const;

 private:
  // All of an entry, its group's share of the arrays included, but for bytes of keys.
  static constexpr uint64_t kEntryBytesMax = 64;

  struct Group {
    uint32_t data_offset;
    uint32_t record_bytes;  // Of the first record, like the next two.
    uint64_t trailer;       // Of the record before; means something if `same`.
    bool same;
    bool uniform;
    size_t separator_end;  // In separators_.
    size_t rest_end;       // In rest_.
    std::array<uint8_t, kGroupRecords> fingerprints;
  };

  void StartGroup(const Slice& user_key, size_t separator_bytes, bool same, uint64_t last_trailer,
                  uint64_t offset, uint32_t record_bytes);
  void LengthenFirstSeparator(size_t bytes);
  void AddSeparator(const Slice& user_key, size_t shared, size_t separator_bytes,
                    uint32_t record_bytes);
  void AddSame(uint32_t record_bytes, uint64_t last_trailer);
  void PutFirstEntry(size_t group, size_t prefix_bytes, std::string* to) const;
  Slice Separator(size_t group) const;

  const bool whole_keys_;
  uint64_t entries_ = 0;
  uint64_t later_keys_ = 0;          // User keys behind the first one.
  std::string first_key_;            // A user key.
  size_t last_separator_bytes_ = 0;  // The separator is that many bytes of the last user key.
  uint32_t last_record_bytes_ = 0;
  std::vector<Group> groups_;
  std::string separators_;  // The groups' first, whole: the prefix is known only at the end.
  std::string rest_;        // All other entries.
};

// Immutable after Open(); the bytes are the caller's. They are hostile until proven otherwise: what
// Open() has not checked is checked in every call.
class ByteTableIndex {
 public:
  // A record, by its group and its number within it.
  struct Place {
    uint32_t group = 0;
    uint32_t ordinal = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    // Whether the record's key begins with as much as the index knows of it. If not, the table does
    // not hold the key that was looked for, and nothing need be fetched to know.
    bool may_hold = true;
  };
  enum class Outcome { kPlaced, kBeforeAll, kMalformed };

  // Where the records of one group start, and in the end where the last one ends.
  struct GroupOffsets {
    uint32_t records = 0;
    uint64_t offsets[kGroupRecords + 1];
  };

  explicit ByteTableIndex(const InternalKeyComparator& comparator) : comparator_(comparator) {}

  // Corruption if the bytes are not an index of `entries` records in `data_bytes`.
  Status Open(const Slice& bytes, uint64_t data_bytes, uint64_t entries);

  // The only record that can be the newest version of `user_key` with a trailer of at most
  // `trailer`. If it has another user key (the table does not hold `user_key`), it is one of that
  // key's versions: the first one for kNewest, the last one for kOldest; all versions of keys
  // before that one are before `user_key`, all of keys after it are after `user_key`.
  static constexpr uint64_t kNewest = UINT64_MAX;
  static constexpr uint64_t kOldest = 0;
  // `groups`: what ApproachFurther(user_key) has said, if that was called.
  Outcome Locate(const Slice& user_key, uint64_t trailer, Place* place,
                 uint32_t groups = kUnknown) const {
    return LocateWith(/*fingerprint=*/nullptr, user_key, trailer, place, groups);
  }
  // The same if nothing but that key is looked for: the group's fingerprints may say that it is not
  // there (!may_hold, and the rest of *place means nothing) or where it is; entries are decoded
  // only where they do not tell.
  Outcome LocateKey(const Slice& user_key, uint64_t hash, uint64_t trailer, Place* place,
                    uint32_t groups) const {
    const uint8_t fingerprint = byte_table_index::Fingerprint(hash);
    return LocateWith(whole_keys_ ? nullptr : &fingerprint, user_key, trailer, place, groups);
  }

  // The first two parts of Locate(). Approach() counts the samples of the digests that are at or
  // before the key's digest, and prefetches the digests behind the last of them; with these,
  // ApproachFurther() counts all digests at or before it. kUnknown: only Locate() itself can tell.
  static constexpr uint32_t kUnknown = UINT32_MAX;
  uint32_t Approach(const Slice& user_key) const;
  uint32_t ApproachFurther(const Slice& user_key, uint32_t samples) const;
  // Prefetches the cache lines that Locate() with that many `groups` will touch.
  void AskForEntries(uint32_t groups) const;

  enum class Answer { kAbsent, kPlaced, kUnsure };
  // Where the only record is that can have `user_key`, whatever its version, or that there is none;
  // by the fingerprints of the one or two groups in which it could be. kUnsure: only LocateKey()
  // can tell. `hash`: Hash64() of the key. `groups`: what ApproachFurther() has said.
  Answer AskFingerprints(const Slice& user_key, uint64_t hash, uint32_t groups, Place* place) const;

  uint32_t groups() const { return groups_; }
  // What it takes itself, beside the bytes.
  size_t own_bytes() const { return samples_.resident_bytes(); }
  // False: malformed.
  bool Offsets(uint32_t group, GroupOffsets* offsets) const;
  // The group whose records cover `offset`, which is within the data.
  uint32_t GroupAt(uint64_t offset) const;
  uint64_t DataOffset(uint32_t group) const {
    return DecodeFixed32(AtGroup(group) + kDataOffsetAt);
  }

 private:
  struct FirstEntry {
    bool same = false;
    uint64_t trailer = 0;
    uint32_t tail_bytes = 0;
    uint32_t record_bytes = 0;
    Slice rest;                // Of the tail; all of it with whole keys.
    const char* at = nullptr;  // The group's second entry.
  };
  struct Entry {
    bool same = false;
    uint64_t trailer = 0;
    uint32_t drop = 0;
    uint32_t record_bytes = 0;  // Kept from the entry before if this one does not say.
    Slice added;
  };
  // What a lookup searches for.
  struct Target {
    Slice tail;  // The user key without the table's prefix.
    uint64_t digest = 0;
    uint64_t trailer = 0;
  };

  // What is told of a group, and where.
  static constexpr size_t kGroupBytes = byte_table_index::kGroupBytes;
  static constexpr size_t kDataOffsetAt = 8;
  static constexpr size_t kEntryOffsetAt = 12;
  static constexpr size_t kFingerprintsAt = 16;

  const char* AtGroup(uint32_t group) const { return group_array_ + size_t{group} * kGroupBytes; }
  uint64_t DigestAt(uint32_t group) const { return DecodeFixed64(AtGroup(group)); }
  uint32_t EntryOffset(uint32_t group) const {
    return DecodeFixed32(AtGroup(group) + kEntryOffsetAt) & ~byte_table_index::kUniform;
  }
  bool IsUniform(uint32_t group) const {
    return (DecodeFixed32(AtGroup(group) + kEntryOffsetAt) & byte_table_index::kUniform) != 0;
  }
  uint32_t RecordsIn(uint32_t group) const {
    return group + 1 < groups_ ? kGroupRecords : last_group_records_;
  }
  const char* EntriesEnd(uint32_t group) const { return entries_ + EntryOffset(group + 1); }

  Status Layout(const Slice& bytes, uint64_t entries);
  Status CheckArrays(uint64_t data_bytes) const;
  bool ReadFirst(uint32_t group, FirstEntry* first) const;
  // kWhole: whole_keys_.
  template <bool kWhole>
  static const char* ReadEntry(const char* at, const char* limit, Entry* entry);
  int CompareTails(uint32_t group, const FirstEntry& first, const Target& target) const;
  bool AtOrBefore(uint32_t group, const Target& target, bool* malformed) const;
  void Sample();
  uint32_t SamplesBelow(uint64_t digest, bool or_equal) const;
  uint32_t DigestsBelow(uint64_t digest, bool or_equal, uint32_t samples) const;
  uint32_t CountAtOrBefore(uint32_t low, uint32_t high, const Target& target,
                           bool* malformed) const;
  uint32_t GroupsAtOrBefore(const Target& target, uint32_t high, bool* malformed) const;
  template <bool kWhole>
  Outcome LocateInGroup(uint32_t group, const Target& target, Place* place) const;
  Outcome PlaceLast(Place* place) const;
  // Locate() and LocateKey(). `fingerprint`: of the key, if nothing but that key is looked for;
  // null if its place is wanted where the table does not have it, too.
  Outcome LocateWith(const uint8_t* fingerprint, const Slice& user_key, uint64_t trailer,
                     Place* place, uint32_t groups) const;
  struct Matches;
  Matches MatchesIn(uint32_t group, uint8_t fingerprint) const;
  bool PlaceTheMatch(uint32_t group, const Matches& matches, Place* place) const;

  const InternalKeyComparator comparator_;
  bool whole_keys_ = false;
  uint32_t groups_ = 0;
  uint32_t last_group_records_ = 0;
  const char* group_array_ = nullptr;
  // Every kSampledGroups-th digest. A search touches these, which stay in the processor's caches
  // because they are few, and then the lines between two of them, all of which it asks for at once.
  static constexpr uint32_t kSampledGroups = 8;
  DigestTree samples_;
  Slice prefix_;
  const char* entries_ = nullptr;
};

}  // namespace dlsm
