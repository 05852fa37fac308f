#include "db/leveldb/table_file.h"

#include <snappy.h>

#include <cstdint>
#include <string>
#include <utility>

#include "db/leveldb/translate.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm::compat {
namespace {

constexpr char kPlain = 0;
constexpr char kSnappy = 1;
constexpr uint64_t kTableMagic = 0x656c626174736c64;  // "dlstable"
constexpr uint32_t kTableVersion = 1;
constexpr size_t kFooterBytes = 40;
// Bytes that one compressed byte can stand for, and some for a start: more is damage. It bounds
// what a damaged file can make this allocate.
constexpr uint64_t kExpansionMax = 32;

leveldb::Status Damaged(const char* part) {
  return leveldb::Status::Corruption("a table file is damaged", part);
}

// Exactly `bytes` of the file, at `offset`.
leveldb::Status ReadExactly(const leveldb::RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                            std::string* contents) {
  contents->resize(bytes);
  leveldb::Slice got;
  leveldb::Status status = file.Read(offset, bytes, &got, contents->data());
  if (!status.ok()) return status;
  if (got.size() != bytes) return Damaged("it ends too early");
  // The file may have the bytes elsewhere.
  if (got.data() != contents->data()) contents->assign(got.data(), got.size());
  return leveldb::Status::OK();
}

leveldb::Status Uncompress(std::string* payload) {
  size_t bytes = 0;
  if (!snappy::GetUncompressedLength(payload->data(), payload->size(), &bytes) ||
      bytes > kExpansionMax * (payload->size() + 1)) {
    return Damaged("a compressed block");
  }
  std::string whole;
  if (!snappy::Uncompress(payload->data(), payload->size(), &whole)) {
    return Damaged("a compressed block");
  }
  *payload = std::move(whole);
  return leveldb::Status::OK();
}

// The payload of a block. The caller has checked that all of it lies in the file.
leveldb::Status ReadPayload(const leveldb::RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                            std::string* payload) {
  leveldb::Status status = ReadExactly(file, offset, bytes + kBlockTrailerBytes, payload);
  if (!status.ok()) return status;
  const char kind = (*payload)[bytes];
  if (dlsm::Crc32c(payload->data(), bytes + 1) != dlsm::DecodeFixed32(&(*payload)[bytes + 1])) {
    return Damaged("the checksum of a block");
  }
  payload->resize(bytes);
  if (kind == kPlain) return leveldb::Status::OK();
  return kind == kSnappy ? Uncompress(payload) : Damaged("a block of an unknown kind");
}

}  // namespace

uint64_t FinishBlock(bool compress, std::string* payload) {
  char kind = kPlain;
  if (compress) {
    std::string small;
    snappy::Compress(payload->data(), payload->size(), &small);
    if (small.size() < payload->size()) {
      *payload = std::move(small);
      kind = kSnappy;
    }
  }
  const uint64_t bytes = payload->size();
  payload->push_back(kind);
  dlsm::PutFixed32(payload, dlsm::Crc32c(payload->data(), payload->size()));
  return bytes;
}

void AppendEntry(const leveldb::Slice& key, const leveldb::Slice& value, std::string* payload) {
  dlsm::PutVarint32(payload, static_cast<uint32_t>(key.size()));
  dlsm::PutVarint32(payload, static_cast<uint32_t>(value.size()));
  payload->append(key.data(), key.size());
  payload->append(value.data(), value.size());
}

leveldb::Status BlockEntries::Read(const leveldb::RandomAccessFile& file, const BlockPlace& place) {
  entries_.clear();
  leveldb::Status status = ReadPayload(file, place.offset, place.bytes, &payload_);
  if (status.ok()) status = Parse();
  if (!status.ok()) entries_.clear();
  return status;
}

leveldb::Status BlockEntries::Parse() {
  dlsm::Slice rest(payload_);
  while (!rest.empty()) {
    uint32_t key_bytes = 0;
    uint32_t value_bytes = 0;
    if (!dlsm::GetVarint32(&rest, &key_bytes) || !dlsm::GetVarint32(&rest, &value_bytes) ||
        rest.size() < uint64_t{key_bytes} + value_bytes) {
      return Damaged("an entry");
    }
    entries_.emplace_back(leveldb::Slice(rest.data(), key_bytes),
                          leveldb::Slice(rest.data() + key_bytes, value_bytes));
    rest.remove_prefix(size_t{key_bytes} + value_bytes);
  }
  return entries_.empty() ? Damaged("a block without entries") : leveldb::Status::OK();
}

std::string TableIndex::Encode() const {
  std::string encoded;
  dlsm::PutLengthPrefixed(&encoded, comparator);
  for (const BlockPlace& block : blocks) {
    dlsm::PutLengthPrefixed(&encoded, block.last_key);
    dlsm::PutVarint64(&encoded, block.offset);
    dlsm::PutVarint64(&encoded, block.bytes);
  }
  const uint64_t bytes = FinishBlock(/*compress=*/false, &encoded);
  std::string footer;
  dlsm::PutFixed64(&footer, offset);
  dlsm::PutFixed64(&footer, bytes);
  dlsm::PutFixed64(&footer, entries);
  dlsm::PutFixed32(&footer, kTableVersion);
  dlsm::PutFixed32(&footer, dlsm::Crc32c(footer));
  dlsm::PutFixed64(&footer, kTableMagic);
  return encoded + footer;
}

leveldb::Status TableIndex::Read(const leveldb::RandomAccessFile& file, uint64_t file_bytes) {
  const auto no_table = leveldb::Status::InvalidArgument(
      "the file is no table that a TableBuilder of this library has made");
  if (file_bytes < kFooterBytes) return no_table;
  std::string footer;
  leveldb::Status status = ReadExactly(file, file_bytes - kFooterBytes, kFooterBytes, &footer);
  if (!status.ok()) return status;
  if (dlsm::DecodeFixed64(&footer[32]) != kTableMagic) return no_table;
  if (dlsm::Crc32c(footer.data(), 28) != dlsm::DecodeFixed32(&footer[28])) {
    return Damaged("the checksum of the footer");
  }
  if (dlsm::DecodeFixed32(&footer[24]) != kTableVersion) {
    return leveldb::Status::NotSupported("the table file is of another version of this library");
  }
  offset = dlsm::DecodeFixed64(footer.data());
  entries = dlsm::DecodeFixed64(&footer[16]);
  const uint64_t bytes = dlsm::DecodeFixed64(&footer[8]);
  const uint64_t before_footer = file_bytes - kFooterBytes;
  if (offset > before_footer || before_footer - offset < kBlockTrailerBytes ||
      before_footer - offset - kBlockTrailerBytes != bytes) {
    return Damaged("the place of the index");
  }
  std::string payload;
  status = ReadPayload(file, offset, bytes, &payload);
  return status.ok() ? Parse(payload) : status;
}

leveldb::Status TableIndex::Parse(const leveldb::Slice& payload) {
  blocks.clear();
  dlsm::Slice rest = ToDlsm(payload);
  if (!dlsm::GetLengthPrefixed(&rest, &comparator)) return Damaged("the name of the comparator");
  uint64_t end = 0;  // Of the blocks so far.
  while (!rest.empty()) {
    BlockPlace block;
    if (!dlsm::GetLengthPrefixed(&rest, &block.last_key) ||
        !dlsm::GetVarint64(&rest, &block.offset) || !dlsm::GetVarint64(&rest, &block.bytes)) {
      return Damaged("the index");
    }
    if (block.offset != end || offset - end < kBlockTrailerBytes ||
        offset - end - kBlockTrailerBytes < block.bytes) {
      return Damaged("the place of a block");
    }
    end += block.bytes + kBlockTrailerBytes;
    blocks.push_back(std::move(block));
  }
  return end == offset ? leveldb::Status::OK() : Damaged("a block is missing in the index");
}

}  // namespace dlsm::compat
