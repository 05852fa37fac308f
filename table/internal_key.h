// Internal keys: what tables and memtables are ordered by.
//
//   internal key = user key | trailer (8 bytes, little-endian): sequence number << 8 | type
//
// Order: user key ascending by the user's comparator, then sequence number descending, then type
// descending; so the newest version of a key comes first.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/comparator.h"
#include "dLSM/slice.h"
#include "util/coding.h"
#include "util/hash.h"

namespace dlsm {

using SequenceNumber = uint64_t;
inline constexpr SequenceNumber kSequenceNumberMax = (uint64_t{1} << 56) - 1;

// Part of the formats of tables and of the log. A range tombstone is an entry of a batch and of the
// log alone: its key is where the range begins, its value where it ends. No internal key has it.
enum class ValueType : uint8_t { kDeletion = 0, kValue = 1, kRangeTombstone = 2 };
// The type that sorts first among equal (user key, sequence number): used to seek.
inline constexpr ValueType kValueTypeForSeek = ValueType::kValue;

inline constexpr size_t kTrailerBytes = 8;

inline uint64_t PackTrailer(SequenceNumber sequence, ValueType type) {
  assert(sequence <= kSequenceNumberMax);
  return sequence << 8 | static_cast<uint64_t>(type);
}
inline SequenceNumber TrailerSequence(uint64_t trailer) { return trailer >> 8; }
inline ValueType TrailerType(uint64_t trailer) { return static_cast<ValueType>(trailer & 0xff); }

inline Slice ExtractUserKey(const Slice& internal_key) {
  assert(internal_key.size() >= kTrailerBytes);
  return Slice(internal_key.data(), internal_key.size() - kTrailerBytes);
}
inline uint64_t ExtractTrailer(const Slice& internal_key) {
  assert(internal_key.size() >= kTrailerBytes);
  return DecodeFixed64(internal_key.data() + internal_key.size() - kTrailerBytes);
}

// False when `internal_key`, which came from a wire or a remote memory, is too short or of an
// unknown type.
inline bool IsValidInternalKey(const Slice& internal_key) {
  return internal_key.size() >= kTrailerBytes &&
         static_cast<uint8_t>(internal_key[internal_key.size() - kTrailerBytes]) <= 1;
}

inline void AppendInternalKey(std::string* to, const Slice& user_key, SequenceNumber sequence,
                              ValueType type) {
  to->append(user_key.data(), user_key.size());
  PutFixed64(to, PackTrailer(sequence, type));
}

// Not a Comparator: internal keys have an order of their own. Cheap to copy; thread-safe.
class InternalKeyComparator {
 public:
  explicit InternalKeyComparator(const Comparator* user)
      : user_(user), bytewise_(user == BytewiseComparator()) {}

  int Compare(const Slice& a, const Slice& b) const {
    const int order = CompareUserKeys(ExtractUserKey(a), ExtractUserKey(b));
    if (order != 0) return order;
    const uint64_t a_trailer = ExtractTrailer(a);
    const uint64_t b_trailer = ExtractTrailer(b);
    return a_trailer > b_trailer ? -1 : (a_trailer < b_trailer ? 1 : 0);
  }
  int CompareUserKeys(const Slice& a, const Slice& b) const {
    return bytewise_ ? a.compare(b) : user_->Compare(a, b);
  }
  const Comparator* user_comparator() const { return user_; }
  bool bytewise() const { return bytewise_; }

 private:
  const Comparator* user_;
  bool bytewise_;
};

// A user key together with the sequence number to look it up at, as one internal key.
class LookupKey {
 public:
  LookupKey(const Slice& user_key, SequenceNumber sequence)
      : hash_(Hash64(user_key)), user_bytes_(user_key.size()) {
    const size_t needed = user_key.size() + kTrailerBytes;
    if (needed > sizeof(inline_)) heap_ = std::make_unique_for_overwrite<char[]>(needed);
    data_ = heap_ != nullptr ? heap_.get() : inline_;
    if (user_bytes_ != 0) std::memcpy(data_, user_key.data(), user_bytes_);
    EncodeFixed64(data_ + user_bytes_, PackTrailer(sequence, kValueTypeForSeek));
  }
  LookupKey(const LookupKey&) = delete;
  LookupKey& operator=(const LookupKey&) = delete;

  Slice user_key() const { return Slice(data_, user_bytes_); }
  Slice internal_key() const { return Slice(data_, user_bytes_ + kTrailerBytes); }
  SequenceNumber sequence() const { return DecodeFixed64(data_ + user_bytes_) >> 8; }
  // Hash64() of the user key.
  uint64_t hash() const { return hash_; }

 private:
  const uint64_t hash_;
  size_t user_bytes_;
  std::unique_ptr<char[]> heap_;
  char* data_;
  char inline_[112];
};

}  // namespace dlsm
