// leveldb::DumpFile().
#include "leveldb/dumpfile.h"

#include <fmt/core.h>

#include <memory>
#include <string>

#include "db/leveldb/table_file.h"
#include "leveldb/slice.h"

namespace dlsm::compat {
namespace {

// Bytes that do not print are shown by their number: \x0a.
void AppendQuoted(const leveldb::Slice& bytes, std::string* line) {
  *line += '\'';
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte >= ' ' && byte <= '~' && byte != '\\' && byte != '\'') {
      *line += bytes[i];
    } else {
      *line += fmt::format("\\x{:02x}", byte);
    }
  }
  *line += '\'';
}

leveldb::Status DumpTable(const leveldb::RandomAccessFile& file, uint64_t bytes,
                          leveldb::WritableFile* to) {
  TableIndex index;
  leveldb::Status status = index.Read(file, bytes);
  BlockEntries block;
  for (size_t i = 0; status.ok() && i < index.blocks.size(); ++i) {
    status = block.Read(file, index.blocks[i]);
    for (size_t entry = 0; status.ok() && entry < block.size(); ++entry) {
      std::string line;
      AppendQuoted(block.key(entry), &line);
      line += " => ";
      AppendQuoted(block.value(entry), &line);
      line += '\n';
      status = to->Append(line);
    }
  }
  return status;
}

}  // namespace
}  // namespace dlsm::compat

namespace leveldb {

Status DumpFile(Env* env, const std::string& fname, WritableFile* dst) {
  uint64_t bytes = 0;
  Status status = env->GetFileSize(fname, &bytes);
  if (!status.ok()) return status;
  RandomAccessFile* opened = nullptr;
  status = env->NewRandomAccessFile(fname, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<RandomAccessFile> file(opened);
  return dlsm::compat::DumpTable(*file, bytes, dst);
}

}  // namespace leveldb
