#include "db/backup/backup_format.h"

#include <fmt/core.h>
#include <snappy.h>

#include <algorithm>
#include <cassert>
#include <string_view>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

constexpr std::string_view kBeginMagic = "DLSMBACK";
constexpr std::string_view kEndMagic = "DLSMBEND";
constexpr char kBlockKind = 'B';
constexpr char kFooterKind = 'F';

// Three bytes of Snappy stand for 64 at most.
constexpr uint64_t kSnappyRatioMax = 22;
// A block that gets smaller by less than an eighth is not worth the time to uncompress it.
constexpr size_t kWorthCompressing = 8;

uint32_t FactsCrc(const BackupHeader& header, const Slice& facts) {
  std::string fields;
  PutFixed32(&fields, header.version);
  PutFixed32(&fields, header.facts_bytes);
  return Crc32cExtend(Crc32c(fields), facts.data(), facts.size());
}

Status TakeFacts(Slice facts, BackupInfo* info) {
  const Status damaged = Status::Corruption("the facts about the database are damaged");
  uint32_t count = 0;
  if (!GetFixed64(&facts, &info->written_unix_micros) ||
      !GetLengthPrefixed(&facts, &info->comparator) ||
      !GetLengthPrefixed(&facts, &info->filter_policy) || !GetVarint32(&facts, &count)) {
    return damaged;
  }
  info->shard_boundaries.clear();
  for (uint32_t i = 0; i < count; ++i) {
    std::string boundary;
    if (!GetLengthPrefixed(&facts, &boundary)) return damaged;
    info->shard_boundaries.push_back(std::move(boundary));
  }
  return facts.empty() ? Status::OK() : damaged;
}

}  // namespace

std::string EncodeBackupHeader(const BackupInfo& info) {
  std::string facts;
  PutFixed64(&facts, info.written_unix_micros);
  PutLengthPrefixed(&facts, info.comparator);
  PutLengthPrefixed(&facts, info.filter_policy);
  PutVarint32(&facts, static_cast<uint32_t>(info.shard_boundaries.size()));
  for (const std::string& boundary : info.shard_boundaries) PutLengthPrefixed(&facts, boundary);
  BackupHeader header;
  header.version = kBackupVersion;
  header.facts_bytes = static_cast<uint32_t>(facts.size());
  std::string bytes(kBeginMagic);
  PutFixed32(&bytes, header.version);
  PutFixed32(&bytes, header.facts_bytes);
  PutFixed32(&bytes, FactsCrc(header, facts));
  assert(bytes.size() == kBackupHeaderBytes);
  return bytes + facts;
}

Status BackupHeader::Decode(const Slice& bytes) {
  Slice rest = bytes;
  if (!rest.starts_with(kBeginMagic)) {
    return Status::Corruption("no backup begins here; name a file that WriteBackup() has written");
  }
  rest.remove_prefix(kBackupMagicBytes);
  if (!GetFixed32(&rest, &version) || !GetFixed32(&rest, &facts_bytes) ||
      !GetFixed32(&rest, &crc)) {
    return Status::Corruption("the file ends within its header");
  }
  return Status::OK();
}

Status DecodeBackupFacts(const BackupHeader& header, const Slice& facts, BackupInfo* info) {
  if (FactsCrc(header, facts) != header.crc) {
    return Status::Corruption("the header has a wrong checksum");
  }
  if (header.version == 0 || header.version > kBackupVersion) {
    return Status::NotSupported(
        fmt::format("the format has version {}, and this library reads up to {}", header.version,
                    kBackupVersion),
        "restore it with the version of dLSM that wrote it, or a later one");
  }
  info->version = header.version;
  return TakeFacts(facts, info);
}

Status BackupBlockHeader::Decode(const Slice& bytes) {
  Slice rest = bytes;
  uint8_t kind = 0;
  uint8_t compression_byte = 0;
  uint8_t zeros[2] = {};
  if (!GetFixed8(&rest, &kind) || !GetFixed8(&rest, &compression_byte) ||
      !GetFixed8(&rest, &zeros[0]) || !GetFixed8(&rest, &zeros[1]) ||
      !GetFixed32(&rest, &stored_bytes) || !GetFixed32(&rest, &raw_bytes) ||
      !GetFixed32(&rest, &entries) || !GetFixed32(&rest, &crc)) {
    return Status::Corruption("the file ends within the header of a block");
  }
  const bool snappy = compression_byte == kSnappyCompression;
  const uint64_t raw_max = snappy ? kSnappyRatioMax * (uint64_t{stored_bytes} + 1) : stored_bytes;
  const uint64_t raw_min = snappy ? stored_bytes : raw_max;
  if (kind != kBlockKind || compression_byte > kSnappyCompression || zeros[0] != 0 ||
      zeros[1] != 0 || entries == 0 || raw_bytes > kBackupRawBytesMax || raw_bytes > raw_max ||
      raw_bytes < raw_min) {
    return Status::Corruption("the header of a block is damaged");
  }
  compression = static_cast<CompressionType>(compression_byte);
  return Status::OK();
}

void BackupBlockBuilder::Add(const Slice& key, const Slice& value) {
  PutVarint32(&raw_, static_cast<uint32_t>(key.size()));
  PutVarint32(&raw_, static_cast<uint32_t>(value.size()));
  raw_.append(key.data(), key.size());
  raw_.append(value.data(), value.size());
  ++entries_;
}

Slice BackupBlockBuilder::Finish() {
  Slice stored = raw_;
  CompressionType used = kNoCompression;
  if (compression_ == kSnappyCompression) {
    snappy::Compress(raw_.data(), raw_.size(), &compressed_);
    if (compressed_.size() < raw_.size() - raw_.size() / kWorthCompressing) {
      stored = compressed_;
      used = kSnappyCompression;
    }
  }
  block_.clear();
  block_.push_back(kBlockKind);
  block_.push_back(static_cast<char>(used));
  block_.append(2, '\0');
  PutFixed32(&block_, static_cast<uint32_t>(stored.size()));
  PutFixed32(&block_, static_cast<uint32_t>(raw_.size()));
  PutFixed32(&block_, entries_);
  PutFixed32(&block_, Crc32cExtend(Crc32c(block_), stored.data(), stored.size()));
  assert(block_.size() == kBackupBlockHeaderBytes);
  block_.append(stored.data(), stored.size());
  raw_.clear();
  entries_ = 0;
  return block_;
}

Status OpenBackupBlock(const BackupBlockHeader& header, const Slice& header_bytes,
                       const Slice& stored, std::string* buffer, Slice* raw) {
  const uint32_t crc = Crc32c(header_bytes.data(), kBackupBlockHeaderBytes - sizeof(header.crc));
  if (Crc32cExtend(crc, stored.data(), stored.size()) != header.crc) {
    return Status::Corruption("a block has a wrong checksum");
  }
  *raw = stored;
  if (header.compression == kNoCompression) return Status::OK();
  size_t bytes = 0;
  if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &bytes) ||
      bytes != header.raw_bytes) {
    return Status::Corruption("a block is not what Snappy makes");
  }
  buffer->resize(bytes);
  if (!snappy::RawUncompress(stored.data(), stored.size(), buffer->data())) {
    return Status::Corruption("a block cannot be uncompressed");
  }
  *raw = *buffer;
  return Status::OK();
}

bool TakeBackupEntry(Slice* raw, Slice* key, Slice* value) {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  if (!GetVarint32(raw, &key_bytes) || !GetVarint32(raw, &value_bytes)) return false;
  if (key_bytes > kKeyBytesMax || value_bytes > kValueBytesMax) return false;
  if (raw->size() < uint64_t{key_bytes} + value_bytes) return false;
  *key = Slice(raw->data(), key_bytes);
  *value = Slice(raw->data() + key_bytes, value_bytes);
  raw->remove_prefix(size_t{key_bytes} + value_bytes);
  return true;
}

std::string BackupFooter::Encode() const {
  std::string to;
  to.push_back(kFooterKind);
  to.append(3, '\0');
  PutFixed64(&to, blocks);
  PutFixed64(&to, entries);
  PutFixed64(&to, bytes);
  PutFixed32(&to, file_crc);
  PutFixed32(&to, Crc32c(to));
  to.append(kEndMagic);
  assert(to.size() == kBackupFooterBytes);
  return to;
}

Status BackupFooter::Decode(const Slice& from) {
  Slice rest = from;
  if (from.size() != kBackupFooterBytes ||
      !Slice(from.end() - kBackupMagicBytes, kBackupMagicBytes).starts_with(kEndMagic)) {
    return Status::Corruption("the end of the backup is missing: the file is truncated");
  }
  uint32_t kind = 0;
  uint32_t crc = 0;
  const bool whole = GetFixed32(&rest, &kind) && GetFixed64(&rest, &blocks) &&
                     GetFixed64(&rest, &entries) && GetFixed64(&rest, &bytes) &&
                     GetFixed32(&rest, &file_crc) && GetFixed32(&rest, &crc);
  constexpr size_t kCovered = kBackupFooterBytes - kBackupMagicBytes - sizeof(crc);
  if (!whole || kind != static_cast<uint32_t>(kFooterKind) ||
      crc != Crc32c(from.data(), kCovered)) {
    return Status::Corruption("the footer has a wrong checksum");
  }
  return Status::OK();
}

}  // namespace dlsm
