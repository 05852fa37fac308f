// Blocks of block-based tables. As stored:
//
//   | payload, compressed or not | compression type: 1 | CRC32C of all before: 4 |
//
// The payload holds entries in internal key order, each without the bytes that its key shares with
// the key before. Every restart_interval entries one stands alone, for binary search:
//
//   | entry | ... | offset of each restart: 4 | number of restarts: 4 |
//
//   entry:  | shared key bytes: varint32 | other key bytes: varint32 | value bytes: varint32 |
//           | other key bytes | value |
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/internal_key.h"

namespace dlsm {

inline constexpr size_t kBlockTrailerBytes = 5;

class BlockBuilder {
 public:
  explicit BlockBuilder(int restart_interval)
      : restart_interval_(restart_interval < 1 ? 1 : static_cast<uint32_t>(restart_interval)) {}

  void Add(const Slice& internal_key, const Slice& value);

  bool empty() const { return entries_ == 0; }
  // Of the payload, if it were finished now.
  uint64_t PayloadBytes() const {
    return payload_.size() + (restarts_.size() + 1) * sizeof(uint32_t);
  }
  static uint64_t EntryBytesBound(size_t internal_key_bytes, size_t value_bytes) {
    return 3 * kVarint32BytesMax + internal_key_bytes + value_bytes + sizeof(uint32_t);
  }

  // The block as it is to be stored; it stays until the builder is used again. Compressed only if
  // that saves an eighth.
  Slice Finish(CompressionType compression);
  void Reset();

 private:
  const uint32_t restart_interval_;
  std::string payload_;
  std::string compressed_;
  std::vector<uint32_t> restarts_;
  std::string last_key_;
  uint32_t entries_ = 0;
};

// The payload of a stored block: in place, or uncompressed into memory of its own.
class BlockPayload {
 public:
  // `stored` outlives *this where the block is not compressed.
  Status Open(const Slice& stored, bool verify_checksum);

  const Slice& bytes() const { return bytes_; }
  bool in_place() const { return owned_ == nullptr; }

  // Of a copy, whose checksum is verified: so it stays what was verified, whatever happens to
  // `stored`, which it does not need any more.
  Status OpenCopy(const Slice& stored);

 private:
  // Whose checksum is right, or not asked for. `copy` holds it.
  Status OpenWhole(const Slice& stored, std::unique_ptr<char[]> copy);

  Slice bytes_;
  std::unique_ptr<char[]> owned_;
};

// A position in a payload, which outlives it. The bytes are hostile until proven otherwise.
class BlockCursor {
 public:
  explicit BlockCursor(const InternalKeyComparator& comparator) : comparator_(comparator) {}

  // Sets no position.
  void Open(const Slice& payload);

  bool valid() const { return valid_; }
  Slice key() const { return key_; }
  Slice value() const { return value_; }
  // Set if valid() is false because the payload is malformed.
  bool malformed() const { return malformed_; }

  void SeekToFirst();
  void SeekToLast();
  void Seek(const Slice& target);
  void Next();
  void Prev();

 private:
  uint32_t RestartOffset(uint32_t i) const;
  bool ToRestart(uint32_t i);
  bool ParseAt(uint32_t offset);
  bool Malformed();
  uint32_t LastRestartBefore(const Slice& target);

  const InternalKeyComparator comparator_;
  Slice entries_;
  const char* restart_offsets_ = nullptr;
  uint32_t restarts_ = 0;
  bool valid_ = false;
  bool malformed_ = false;
  uint32_t offset_ = 0;  // Of the current entry.
  uint32_t next_ = 0;    // Of the one after it.
  std::string key_;
  Slice value_;
};

}  // namespace dlsm
