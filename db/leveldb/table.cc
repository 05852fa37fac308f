// leveldb::Table.
#include "leveldb/table.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "db/leveldb/table_file.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "leveldb/options.h"
#include "leveldb/slice.h"

namespace leveldb {

struct Table::Rep {
  // The first block that may have keys from `key` on; their number if there is none.
  size_t BlockOf(const Slice& key) const {
    const auto found = std::partition_point(
        index.blocks.begin(), index.blocks.end(),
        [&](const auto& block) { return comparator->Compare(block.last_key, key) < 0; });
    return static_cast<size_t>(found - index.blocks.begin());
  }

  const Comparator* comparator = nullptr;
  const RandomAccessFile* file = nullptr;
  dlsm::compat::TableIndex index;
};

}  // namespace leveldb

namespace dlsm::compat {
namespace {

// Over the parts of a Table, which outlives it. It has one block at a time.
class OfTable final : public leveldb::Iterator {
 public:
  OfTable(const leveldb::Comparator& comparator, const leveldb::RandomAccessFile& file,
          const TableIndex& index)
      : comparator_(comparator), file_(file), index_(index), block_(index.blocks.size()) {}

  bool Valid() const override { return entry_ < entries_.size(); }
  leveldb::Slice key() const override { return entries_.key(entry_); }
  leveldb::Slice value() const override { return entries_.value(entry_); }
  leveldb::Status status() const override { return status_; }

  void SeekToFirst() override {
    if (GoTo(0)) entry_ = 0;
  }
  void SeekToLast() override {
    if (index_.blocks.empty()) return Stop();
    if (GoTo(index_.blocks.size() - 1)) entry_ = entries_.size() - 1;
  }
  void Seek(const leveldb::Slice& target) override {
    const auto& blocks = index_.blocks;
    const auto found = std::partition_point(blocks.begin(), blocks.end(), [&](const auto& block) {
      return comparator_.Compare(block.last_key, target) < 0;
    });
    if (!GoTo(static_cast<size_t>(found - blocks.begin()))) return;
    size_t begin = 0;
    size_t end = entries_.size();
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      if (comparator_.Compare(entries_.key(middle), target) < 0) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    entry_ = begin;
    // Only where the index has another last key than the block.
    if (entry_ == entries_.size()) status_ = leveldb::Status::Corruption("a block and its index");
  }
  void Next() override {
    if (++entry_ < entries_.size()) return;
    if (GoTo(block_ + 1)) entry_ = 0;
  }
  void Prev() override {
    if (entry_ > 0) {
      --entry_;
      return;
    }
    if (block_ == 0) return Stop();
    if (GoTo(block_ - 1)) entry_ = entries_.size() - 1;
  }

 private:
  void Stop() {
    entries_ = BlockEntries();
    entry_ = 0;
  }
  // Returns true if there is such a block, and it can be read. Otherwise this is not Valid().
  bool GoTo(size_t block) {
    if (!status_.ok()) status_ = leveldb::Status::OK();
    if (block >= index_.blocks.size()) {
      Stop();
      return false;
    }
    if (block == block_ && entries_.size() > 0) return true;
    block_ = block;
    status_ = entries_.Read(file_, index_.blocks[block]);
    if (!status_.ok()) Stop();
    return status_.ok();
  }

  const leveldb::Comparator& comparator_;
  const leveldb::RandomAccessFile& file_;
  const TableIndex& index_;
  size_t block_;  // That entries_ has, unless it is empty.
  BlockEntries entries_;
  size_t entry_ = 0;
  leveldb::Status status_;
};

}  // namespace
}  // namespace dlsm::compat

namespace leveldb {

Status Table::Open(const Options& options, RandomAccessFile* file, uint64_t file_size,
                   Table** table) {
  *table = nullptr;
  auto rep = std::make_unique<Rep>();
  rep->comparator = options.comparator == nullptr ? BytewiseComparator() : options.comparator;
  rep->file = file;
  Status status = rep->index.Read(*file, file_size);
  if (!status.ok()) return status;
  if (rep->index.comparator != rep->comparator->Name()) {
    return Status::InvalidArgument("the table is ordered by comparator " + rep->index.comparator,
                                   "open it with that one");
  }
  std::unique_ptr<Table> opened(new Table(rep.get()));
  static_cast<void>(rep.release());
  *table = opened.release();
  return Status::OK();
}

Table::~Table() { const std::unique_ptr<Rep> deleted(rep_); }

Iterator* Table::NewIterator(const ReadOptions&) const {
  return std::make_unique<dlsm::compat::OfTable>(*rep_->comparator, *rep_->file, rep_->index)
      .release();
}

uint64_t Table::ApproximateOffsetOf(const Slice& key) const {
  const size_t block = rep_->BlockOf(key);
  return block < rep_->index.blocks.size() ? rep_->index.blocks[block].offset : rep_->index.offset;
}

}  // namespace leveldb
