#include "table/block_table_index.h"

#include <cassert>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kCrcBytes = 4;
constexpr size_t kAlignment = 64;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint32_t At32(const char* array, uint32_t i) {
  return DecodeFixed32(array + size_t{i} * sizeof(uint32_t));
}

Status Malformed(const char* what) { return Status::Corruption("index of a block table", what); }

}  // namespace

void BlockTableIndexBuilder::Add(const Slice& separator, uint64_t end) {
  keys_.append(separator.data(), separator.size());
  key_ends_.push_back(static_cast<uint32_t>(keys_.size()));
  block_ends_.push_back(static_cast<uint32_t>(end));
}

uint64_t BlockTableIndexBuilder::BytesBound() const {
  return kHeaderBytes + key_ends_.size() * 2 * sizeof(uint32_t) + keys_.size() + kAlignment +
         kCrcBytes;
}

void BlockTableIndexBuilder::Finish(std::string* to) const {
  const size_t start = to->size();
  PutFixed32(to, kVersion);
  PutFixed32(to, static_cast<uint32_t>(key_ends_.size()));
  PutFixed32(to, static_cast<uint32_t>(keys_.size()));
  for (const uint32_t end : key_ends_) PutFixed32(to, end);
  for (const uint32_t end : block_ends_) PutFixed32(to, end);
  to->append(keys_);
  to->resize(start + RoundUp(to->size() - start + kCrcBytes) - kCrcBytes);
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

Status BlockTableIndex::Open(const Slice& bytes, uint64_t data_bytes) {
  if (bytes.size() < kHeaderBytes + kCrcBytes) return Malformed("too short");
  const size_t covered = bytes.size() - kCrcBytes;
  if (Crc32c(bytes.data(), covered) != DecodeFixed32(bytes.data() + covered)) {
    return Malformed("wrong checksum");
  }
  if (At32(bytes.data(), 0) != kVersion) return Malformed("unknown version");
  blocks_ = At32(bytes.data(), 1);
  const uint64_t key_bytes = At32(bytes.data(), 2);
  const uint64_t array_bytes = uint64_t{blocks_} * sizeof(uint32_t);
  if (RoundUp(kHeaderBytes + 2 * array_bytes + key_bytes + kCrcBytes) != bytes.size()) {
    return Malformed("its parts do not add up");
  }
  key_ends_ = bytes.data() + kHeaderBytes;
  block_ends_ = key_ends_ + array_bytes;
  keys_ = block_ends_ + array_bytes;
  uint32_t key_end = 0;
  uint32_t block_end = 0;
  for (uint32_t block = 0; block < blocks_; ++block) {
    if (At32(key_ends_, block) < key_end || At32(key_ends_, block) > key_bytes ||
        At32(block_ends_, block) <= block_end) {
      return Malformed("offsets out of order");
    }
    key_end = At32(key_ends_, block);
    block_end = At32(block_ends_, block);
    if (!IsValidInternalKey(Key(block))) return Malformed("invalid key");
  }
  if (key_end != key_bytes || block_end != data_bytes) return Malformed("out of bounds");
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
  uint32_t low = 0;
  uint32_t high = blocks_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (comparator_.Compare(Key(middle), internal_key) < 0) {
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
