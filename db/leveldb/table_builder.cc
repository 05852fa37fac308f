// leveldb::TableBuilder.
#include "leveldb/table_builder.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "db/leveldb/table_file.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/slice.h"

namespace leveldb {

struct TableBuilder::Rep {
  Rep(const Options& given, WritableFile* to) : options(given), file(*to) {
    if (options.comparator == nullptr) options.comparator = BytewiseComparator();
    index.comparator = options.comparator->Name();
  }

  // Writes the block that is begun, if it has entries.
  void EndBlock() {
    if (payload.empty() || !status.ok()) return;
    dlsm::compat::BlockPlace block;
    block.last_key = last_key;
    block.offset = index.offset;
    block.bytes = dlsm::compat::FinishBlock(options.compression != kNoCompression, &payload);
    status = file.Append(payload);
    if (!status.ok()) return;
    index.offset += payload.size();
    index.blocks.push_back(std::move(block));
    payload.clear();
    status = file.Flush();
  }

  Options options;
  WritableFile& file;
  Status status;
  bool ended = false;   // By Finish() or Abandon().
  std::string payload;  // Of the block that is begun.
  std::string last_key;
  dlsm::compat::TableIndex index;
  uint64_t footer_bytes = 0;  // And the index, when they are written.
};

TableBuilder::TableBuilder(const Options& options, WritableFile* file)
    : rep_(std::make_unique<Rep>(options, file).release()) {}

TableBuilder::~TableBuilder() { const std::unique_ptr<Rep> deleted(rep_); }

Status TableBuilder::ChangeOptions(const Options& options) {
  const Comparator* const comparator =
      options.comparator == nullptr ? BytewiseComparator() : options.comparator;
  if (comparator != rep_->options.comparator) {
    return Status::InvalidArgument("a table that was begun keeps its comparator");
  }
  rep_->options = options;
  rep_->options.comparator = comparator;
  return Status::OK();
}

void TableBuilder::Add(const Slice& key, const Slice& value) {
  Rep& rep = *rep_;
  if (!rep.status.ok()) return;
  if (rep.ended) {
    rep.status = Status::InvalidArgument("the table is finished; begin another one");
    return;
  }
  if (rep.index.entries > 0 && rep.options.comparator->Compare(key, rep.last_key) <= 0) {
    rep.status = Status::InvalidArgument("keys of a table are to be added in ascending order");
    return;
  }
  constexpr uint64_t kBytesMax = UINT32_MAX;
  if (key.size() > kBytesMax || value.size() > kBytesMax) {
    rep.status = Status::InvalidArgument("keys and values of a table have less than 4 GiB");
    return;
  }
  dlsm::compat::AppendEntry(key, value, &rep.payload);
  rep.last_key.assign(key.data(), key.size());
  ++rep.index.entries;
  if (rep.payload.size() >= rep.options.block_size) rep.EndBlock();
}

void TableBuilder::Flush() {
  if (!rep_->ended) rep_->EndBlock();
}

Status TableBuilder::status() const { return rep_->status; }

Status TableBuilder::Finish() {
  Rep& rep = *rep_;
  if (rep.ended) return Status::InvalidArgument("the table is finished already");
  rep.EndBlock();
  rep.ended = true;
  if (!rep.status.ok()) return rep.status;
  const std::string end = rep.index.Encode();
  rep.status = rep.file.Append(end);
  if (rep.status.ok()) rep.footer_bytes = end.size();
  return rep.status;
}

void TableBuilder::Abandon() { rep_->ended = true; }

uint64_t TableBuilder::NumEntries() const { return rep_->index.entries; }

uint64_t TableBuilder::FileSize() const { return rep_->index.offset + rep_->footer_bytes; }

}  // namespace leveldb
