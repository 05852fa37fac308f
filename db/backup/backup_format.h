// The bytes of a backup. Each part has its own checksum, and the footer has one of all before it.
//
//   file   | header | block | block | ... | footer |
//
//   header | "DLSMBACK" | version 4 | facts' bytes 4 | crc 4 | facts |
//            crc: CRC32C of version, facts' bytes and facts
//
//   facts  | micros since 1970 8 | comparator | filter policy | boundaries varint | boundary ... |
//            strings have their length before them as varint32
//
//   block  | 'B' | compression 1 | 0 2 | stored bytes 4 | raw bytes 4 | entries 4 | crc 4 | stored
//   |
//            crc: CRC32C of the 16 bytes before it and of what is stored
//
//   raw    | key's bytes varint | value's bytes varint | key | value | ..., in key order
//
//   footer | 'F' | 0 3 | blocks 8 | entries 8 | their bytes 8 | file crc 4 | crc 4 | "DLSMBEND" |
//            file crc: CRC32C of all bytes before the footer; crc: of the footer before it
//
// The footer has a fixed size, so a reader finds it from the end, and a file without its last eight
// bytes is a truncated one. The header, but for what the facts are, is the same in every version:
// so damage of the version's number is told from a later version. Whatever follows the facts that
// this version knows is damage: what is added gets a new version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/backup.h"
#include "dLSM/db.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr uint32_t kBackupVersion = 1;
inline constexpr size_t kBackupMagicBytes = 8;
inline constexpr size_t kBackupHeaderBytes = 20;  // Without the facts.
inline constexpr size_t kBackupBlockHeaderBytes = 20;
inline constexpr size_t kBackupFooterBytes = 44;

inline constexpr size_t kBackupBlockBytesMin = size_t{1} << 10;
inline constexpr size_t kBackupBlockBytesMax = size_t{16} << 20;
// Of a block with the largest entry behind others.
inline constexpr size_t kBackupRawBytesMax =
    kBackupBlockBytesMax + kKeyBytesMax + kValueBytesMax + 64;

// -------- The header. Of `info` these use version, time, comparator, policy and boundaries.

std::string EncodeBackupHeader(const BackupInfo& info);

// The first kBackupHeaderBytes of a file.
struct BackupHeader {
  Status Decode(const Slice& bytes);

  uint32_t version = 0;
  uint32_t facts_bytes = 0;
  uint32_t crc = 0;
};
// NotSupported for a later version.
Status DecodeBackupFacts(const BackupHeader& header, const Slice& facts, BackupInfo* info);

// -------- Blocks.

struct BackupBlockHeader {
  // Corruption if the fields cannot be those of a block.
  Status Decode(const Slice& bytes);

  CompressionType compression = kNoCompression;
  uint32_t stored_bytes = 0;
  uint32_t raw_bytes = 0;
  uint32_t entries = 0;
  uint32_t crc = 0;
};

// Collects entries, one thread.
class BackupBlockBuilder {
 public:
  explicit BackupBlockBuilder(CompressionType compression) : compression_(compression) {}

  void Add(const Slice& key, const Slice& value);
  size_t bytes() const { return raw_.size(); }
  bool empty() const { return entries_ == 0; }
  // Header and what is stored, good until the next call. The builder is empty then.
  Slice Finish();

 private:
  const CompressionType compression_;
  std::string raw_;
  uint32_t entries_ = 0;
  std::string compressed_;
  std::string block_;
};

// Checks `stored`, whose header was decoded from the bytes `header_bytes`, and sets *raw, which
// points into `stored` or into *buffer.
Status OpenBackupBlock(const BackupBlockHeader& header, const Slice& header_bytes,
                       const Slice& stored, std::string* buffer, Slice* raw);

// Takes an entry off the front of *raw. False if that is none.
bool TakeBackupEntry(Slice* raw, Slice* key, Slice* value);

// -------- The footer.

struct BackupFooter {
  std::string Encode() const;
  // Corruption, which says what is wrong.
  Status Decode(const Slice& bytes);

  uint64_t blocks = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint32_t file_crc = 0;
};

}  // namespace dlsm
