// Opens arbitrary bytes as a table file, and reads it in every way. The first byte of the input
// says what the rest is: the file; a data block, or an index, for which checksums and the rest of
// the file are made, because no fuzzer finds a checksum.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "db/leveldb/table_file.h"
#include "leveldb/env.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/table.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace {

class File final : public leveldb::RandomAccessFile {
 public:
  explicit File(std::string bytes) : bytes_(std::move(bytes)) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    // The table knows how long the file is.
    if (offset > bytes_.size() || n > bytes_.size() - offset) std::abort();
    bytes_.copy(scratch, n, offset);
    *result = leveldb::Slice(scratch, n);
    return leveldb::Status::OK();
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  const std::string bytes_;
};

// The trailer of a block, as its writer makes it.
std::string Block(std::string payload, char kind) {
  payload.push_back(kind);
  dlsm::PutFixed32(&payload, dlsm::Crc32c(payload));
  return payload;
}

// A file of one data block.
std::string WithBlock(const std::string& payload, char kind) {
  dlsm::compat::TableIndex index;
  index.comparator = "leveldb.BytewiseComparator";
  index.blocks.push_back({"m", 0, payload.size()});
  const std::string block = Block(payload, kind);
  index.offset = block.size();
  return block + index.Encode();
}

// A file with this index, and zeros for blocks.
std::string WithIndex(const std::string& payload) {
  constexpr size_t kDataBytes = 100;
  std::string footer;
  dlsm::PutFixed64(&footer, kDataBytes);
  dlsm::PutFixed64(&footer, payload.size());
  dlsm::PutFixed64(&footer, 1);
  // Version, checksum and magic are those of an empty table.
  const std::string whole = dlsm::compat::TableIndex().Encode();
  const std::string end = whole.substr(whole.size() - 16);
  footer += end.substr(0, 4);
  dlsm::PutFixed32(&footer, dlsm::Crc32c(footer));
  footer += end.substr(8);
  return std::string(kDataBytes, '\0') + Block(payload, 0) + footer;
}

void ReadAll(File&& file) {
  leveldb::Table* opened = nullptr;
  const leveldb::Status status =
      leveldb::Table::Open(leveldb::Options(), &file, file.size(), &opened);
  const std::unique_ptr<leveldb::Table> table(opened);
  if (status.ok() != (table != nullptr)) std::abort();
  if (table == nullptr) return;
  const std::unique_ptr<leveldb::Iterator> iterator(table->NewIterator(leveldb::ReadOptions()));
  uint64_t bytes = 0;
  const auto look = [&] {
    const leveldb::Slice key = iterator->key();
    const leveldb::Slice value = iterator->value();
    bytes += key.size() + value.size();
    if (table->ApproximateOffsetOf(key) > file.size()) std::abort();
    // Every byte is touched, so that a sanitizer sees those that are not there.
    bytes += dlsm::Crc32c(key.data(), key.size()) + dlsm::Crc32c(value.data(), value.size());
  };
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) look();
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) look();
  for (const char* const target : {"", "a", "m", "z"}) {
    iterator->Seek(target);
    if (iterator->Valid()) look();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      ReadAll(File(rest));
      break;
    case 1:
      ReadAll(File(WithBlock(rest, /*kind=*/0)));
      break;
    case 2:
      ReadAll(File(WithBlock(rest, /*kind=*/1)));
      break;
    default:
      ReadAll(File(WithIndex(rest)));
      break;
  }
  return 0;
}
