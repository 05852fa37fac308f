#include "table/block_table_index.h"

#include <cassert>

#include "table/key_prefix.h"
#include "table/short_keys.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint32_t kBlockIndexVersion = 1;
constexpr uint32_t kVersionWithPrefix = 2;
constexpr size_t kBlockHeaderBytes = 12;
constexpr size_t kPrefixFieldBytes = 4;
// A shorter one is not taken off: it does not pay, and other releases read the index.
constexpr size_t kPrefixBytesMin = kShortKeyBytes;
constexpr size_t kBlockCrcBytes = 4;
constexpr size_t kBlockAlignment = 64;

uint64_t RoundUpToAlignment(uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

uint32_t At32(const char* array, uint32_t i) {
  return DecodeFixed32(array + size_t{i} * sizeof(uint32_t));
}

Status MalformedIndex(const char* what) {
  return Status::Corruption("index of a block table", what);
}

}  // namespace

void BlockTableIndexBuilder::Add(const Slice& separator, uint64_t end) {
  keys_.append(separator.data(), separator.size());
  key_ends_.push_back(static_cast<uint32_t>(keys_.size()));
  block_ends_.push_back(static_cast<uint32_t>(end));
}

uint64_t BlockTableIndexBuilder::BytesBound() const {
  return kBlockHeaderBytes + kPrefixFieldBytes + key_ends_.size() * 2 * sizeof(uint32_t) +
         keys_.size() + kBlockAlignment + kBlockCrcBytes;
}

Slice BlockTableIndexBuilder::Key(size_t block) const {
  const size_t begin = block == 0 ? 0 : key_ends_[block - 1];
  return Slice(keys_.data() + begin, key_ends_[block] - begin);
}

// Of user keys in order, what the first and the last have in common all of them have.
size_t BlockTableIndexBuilder::PrefixBytes() const {
  if (key_ends_.size() < 2 || !OrdersByBytes(comparator_)) return 0;
  const size_t common =
      CommonPrefix(ExtractUserKey(Key(0)), ExtractUserKey(Key(key_ends_.size() - 1)));
  return common < kPrefixBytesMin ? 0 : common;
}

void BlockTableIndexBuilder::Finish(std::string* to) const {
  const size_t start = to->size();
  const size_t prefix_bytes = PrefixBytes();
  PutFixed32(to, prefix_bytes > 0 ? kVersionWithPrefix : kBlockIndexVersion);
  PutFixed32(to, static_cast<uint32_t>(key_ends_.size()));
  PutFixed32(to, static_cast<uint32_t>(keys_.size() - key_ends_.size() * prefix_bytes));
  if (prefix_bytes > 0) PutFixed32(to, static_cast<uint32_t>(prefix_bytes));
  for (size_t block = 0; block < key_ends_.size(); ++block) {
    PutFixed32(to, static_cast<uint32_t>(key_ends_[block] - (block + 1) * prefix_bytes));
  }
  for (const uint32_t end : block_ends_) PutFixed32(to, end);
  to->append(keys_, 0, prefix_bytes);
  for (size_t block = 0; block < key_ends_.size(); ++block) {
    const Slice tail = After(Key(block), prefix_bytes);
    to->append(tail.data(), tail.size());
  }
  to->resize(start + RoundUpToAlignment(to->size() - start + kBlockCrcBytes) - kBlockCrcBytes);
  PutFixed32(to, Crc32c(to->data() + start, to->size() - start));
}

std::string SeparatorBetween(const InternalKeyComparator& comparator, const Slice& last,
                             const Slice& next) {
  const Slice last_user = ExtractUserKey(last);
  const Slice next_user = ExtractUserKey(next);
  std::string separator = last_user.ToString();
  comparator.user_comparator()->FindShortestSeparator(&separator, next_user);
  // Only a user key strictly between the two leaves no doubt about sequence numbers. A comparator
  // that breaks its contract is not believed.
  if (separator.size() < last_user.size() && comparator.CompareUserKeys(last_user, separator) < 0 &&
      comparator.CompareUserKeys(separator, next_user) < 0) {
    PutFixed64(&separator, PackTrailer(kSequenceNumberMax, kValueTypeForSeek));
    return separator;
  }
  return last.ToString();
}

std::string SeparatorBehind(const InternalKeyComparator& comparator, const Slice* first,
                            const Slice& last) {
  const Slice last_user = ExtractUserKey(last);
  const Slice first_user = first == nullptr ? Slice() : ExtractUserKey(*first);
  std::string separator = ShortKeyBehind(comparator, last_user, kShortKeyBytes,
                                         first == nullptr ? nullptr : &first_user);
  if (separator.size() >= last_user.size()) return last.ToString();
  PutFixed64(&separator, PackTrailer(kSequenceNumberMax, kValueTypeForSeek));
  return separator;
}

Status BlockTableIndex::Open(const Slice& bytes, uint64_t data_bytes) {
  if (bytes.size() < kBlockHeaderBytes + kBlockCrcBytes) return MalformedIndex("too short");
  const size_t covered = bytes.size() - kBlockCrcBytes;
  if (Crc32c(bytes.data(), covered) != DecodeFixed32(bytes.data() + covered)) {
    return MalformedIndex("wrong checksum");
  }
  const bool has_prefix = At32(bytes.data(), 0) == kVersionWithPrefix;
  if (!has_prefix && At32(bytes.data(), 0) != kBlockIndexVersion)
    return MalformedIndex("unknown version");
  if (has_prefix && !OrdersByBytes(comparator_))
    return MalformedIndex("made with another comparator");
  blocks_ = At32(bytes.data(), 1);
  const uint64_t key_bytes = At32(bytes.data(), 2);
  const uint64_t prefix_bytes = has_prefix ? At32(bytes.data(), 3) : 0;
  const uint64_t header_bytes = kBlockHeaderBytes + (has_prefix ? kPrefixFieldBytes : 0);
  const uint64_t array_bytes = uint64_t{blocks_} * sizeof(uint32_t);
  if (RoundUpToAlignment(header_bytes + 2 * array_bytes + prefix_bytes + key_bytes +
                         kBlockCrcBytes) != bytes.size()) {
    return MalformedIndex("its parts do not add up");
  }
  key_ends_ = bytes.data() + header_bytes;
  block_ends_ = key_ends_ + array_bytes;
  prefix_ = Slice(block_ends_ + array_bytes, prefix_bytes);
  keys_ = prefix_.data() + prefix_bytes;
  uint32_t key_end = 0;
  uint32_t block_end = 0;
  for (uint32_t block = 0; block < blocks_; ++block) {
    if (At32(key_ends_, block) < key_end || At32(key_ends_, block) > key_bytes ||
        At32(block_ends_, block) <= block_end) {
      return MalformedIndex("offsets out of order");
    }
    key_end = At32(key_ends_, block);
    block_end = At32(block_ends_, block);
    if (!IsValidInternalKey(Key(block))) return MalformedIndex("invalid key");
  }
  if (key_end != key_bytes || block_end != data_bytes) return MalformedIndex("out of bounds");
  return Status::OK();
}

Slice BlockTableIndex::Key(uint32_t block) const {
  const uint32_t begin = block == 0 ? 0 : At32(key_ends_, block - 1);
  return Slice(keys_ + begin, At32(key_ends_, block) - begin);
}

uint64_t BlockTableIndex::BlockEnd(uint32_t block) const {
  assert(block < blocks_);
  return At32(block_ends_, block);
}

uint32_t BlockTableIndex::BlockFor(const Slice& internal_key) const {
  const Slice user_key = ExtractUserKey(internal_key);
  if (!user_key.starts_with(prefix_)) {
    return comparator_.CompareUserKeys(prefix_, user_key) < 0 ? blocks_ : 0;
  }
  const Slice target = After(internal_key, prefix_.size());
  uint32_t low = 0;
  uint32_t high = blocks_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (comparator_.Compare(Key(middle), target) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint32_t BlockTableIndex::BlockAt(uint64_t offset) const {
  uint32_t low = 0;
  uint32_t high = blocks_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (BlockEnd(middle) <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace dlsm
