// What tests of backups share.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "db/backup/backup_reader.h"
#include "util/status_testing.h"

namespace dlsm {

using Entries = std::map<std::string, std::string>;

// A backup that lies in a string.
class StringBytes final : public BackupBytes {
 public:
  explicit StringBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, size_t bytes, std::string* to) override {
    EXPECT_LE(offset + bytes, bytes_.size());
    to->assign(bytes_, offset, bytes);
    return Status::OK();
  }

 private:
  const std::string bytes_;
};

inline Status ReadEntries(const std::string& bytes, Entries* entries) {
  std::unique_ptr<BackupReader> reader;
  const Status opened = BackupReader::Open("bytes", std::make_unique<StringBytes>(bytes), &reader);
  if (!opened.ok()) return opened;
  Slice key;
  Slice value;
  for (bool end = false; !end;) {
    const Status status = reader->Next(&key, &value, &end);
    if (!status.ok()) return status;
    if (!end) entries->emplace(key.ToString(), value.ToString());
  }
  return Status::OK();
}

inline std::string BytesOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline Entries EntriesOf(DB* db) {
  Entries entries;
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    entries.emplace(it->key().ToString(), it->value().ToString());
  }
  EXPECT_OK(it->status());
  return entries;
}

}  // namespace dlsm
