// Any bytes as a backup, and as the contents of its parts behind right checksums: damage is an
// error, and nothing beyond the bytes is read. Facts that
// are accepted survive another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "db/backup/backup_format.h"
#include "db/backup/backup_reader.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace {

class StringBytes final : public dlsm::BackupBytes {
 public:
  explicit StringBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  dlsm::Status Read(uint64_t offset, size_t bytes, std::string* to) override {
    if (offset + bytes > bytes_.size()) std::abort();
    to->assign(bytes_, offset, bytes);
    return dlsm::Status::OK();
  }

 private:
  const std::string bytes_;
};

// Whether all of it can be read.
bool ReadAll(const std::string& bytes, uint64_t* entries) {
  std::unique_ptr<dlsm::BackupReader> reader;
  if (!dlsm::BackupReader::Open("fuzz", std::make_unique<StringBytes>(bytes), &reader).ok()) {
    return false;
  }
  dlsm::Slice key;
  dlsm::Slice value;
  for (bool end = false; !end;) {
    if (!reader->Next(&key, &value, &end).ok()) return false;
    if (!end) ++*entries;
  }
  return true;
}

// The bytes as the facts of a header.
void DecodeFacts(const dlsm::Slice& facts) {
  dlsm::BackupHeader header;
  header.version = dlsm::kBackupVersion;
  header.facts_bytes = static_cast<uint32_t>(facts.size());
  std::string fields;
  dlsm::PutFixed32(&fields, header.version);
  dlsm::PutFixed32(&fields, header.facts_bytes);
  header.crc = dlsm::Crc32cExtend(dlsm::Crc32c(fields), facts.data(), facts.size());
  dlsm::BackupInfo info;
  if (!dlsm::DecodeBackupFacts(header, facts, &info).ok()) return;
  const std::string again = dlsm::EncodeBackupHeader(info);
  dlsm::BackupHeader second;
  dlsm::BackupInfo same;
  const dlsm::Slice rest(again.data() + dlsm::kBackupHeaderBytes,
                         again.size() - dlsm::kBackupHeaderBytes);
  if (!second.Decode(again).ok() || !dlsm::DecodeBackupFacts(second, rest, &same).ok() ||
      dlsm::EncodeBackupHeader(same) != again) {
    std::abort();
  }
}

// The bytes as what one block stores, compressed or not.
void ReadAsBlock(const dlsm::Slice& stored, dlsm::CompressionType compression, uint32_t raw_bytes,
                 uint32_t entries) {
  std::string file = dlsm::EncodeBackupHeader(dlsm::BackupInfo());
  std::string block = {'B', static_cast<char>(compression), 0, 0};
  dlsm::PutFixed32(&block, static_cast<uint32_t>(stored.size()));
  dlsm::PutFixed32(&block, raw_bytes);
  dlsm::PutFixed32(&block, entries);
  dlsm::PutFixed32(&block, dlsm::Crc32cExtend(dlsm::Crc32c(block), stored.data(), stored.size()));
  block.append(stored.data(), stored.size());
  file += block;
  dlsm::BackupFooter footer;
  footer.blocks = 1;
  footer.entries = entries;
  footer.file_crc = dlsm::Crc32c(file);
  uint64_t seen = 0;
  if (ReadAll(file + footer.Encode(), &seen) && seen != entries) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  uint64_t entries = 0;
  (void)ReadAll(bytes.ToString(), &entries);
  DecodeFacts(bytes);
  if (size < 3) return 0;
  const dlsm::Slice stored(bytes.data() + 3, size - 3);
  ReadAsBlock(stored, dlsm::kNoCompression, static_cast<uint32_t>(stored.size()), data[0]);
  ReadAsBlock(stored, dlsm::kSnappyCompression,
              static_cast<uint32_t>(data[1]) << 8 | static_cast<uint32_t>(data[2]), data[0]);
  return 0;
}
