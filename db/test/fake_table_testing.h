// Tables without bytes, for tests of what only looks at metas: levels, versions, policies,
// manifests.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/tree/table.h"
#include "table/table_iterator.h"

namespace dlsm {

class FakeTableReader : public TableReader {
 public:
  explicit FakeTableReader(const TableMeta& meta) : TableReader(meta) {}

  bool Find(const LookupKey&, bool, TableProbe*) const override { return false; }
  Status Decode(const LookupKey&, const TableProbe&, const Slice&, const TableReadOptions&,
                LookupResult*) const override {
    return Status::NotSupported("a fake table has no records");
  }
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions&, QueuePairs*) const override {
    return std::make_unique<NoRecords>();
  }
  OffsetBounds BoundOffset(const Slice&) const override { return {}; }
  size_t resident_bytes() const override { return 0; }

 private:
  class NoRecords final : public TableIterator {
   public:
    void SeekToFirst() override {}
    void SeekToLast() override {}
    void Seek(const Slice&) override {}
    void Next() override {}
    void Prev() override {}
  };
};

// What a test says of a table.
struct FakeTable {
  uint64_t number = 0;
  std::string smallest;  // User keys.
  std::string largest;
  SequenceNumber smallest_sequence = 1;  // Of the version that is the smallest internal key.
  SequenceNumber largest_sequence = 1;
  uint64_t bytes = 64;
  uint64_t deletions = 0;
  uint64_t keepers = 0;
};

inline TableMeta FakeMeta(const FakeTable& table) {
  TableMeta meta;
  meta.number = table.number;
  meta.image.offset = table.number << 32;
  meta.image.bytes = table.bytes;
  meta.data_bytes = table.bytes;
  meta.entries = 2 + table.deletions;
  meta.deletions = table.deletions;
  meta.sequence_min = std::min(table.smallest_sequence, table.largest_sequence);
  meta.sequence_max = std::max(table.smallest_sequence, table.largest_sequence);
  AppendInternalKey(&meta.smallest, table.smallest, table.smallest_sequence, ValueType::kValue);
  AppendInternalKey(&meta.largest, table.largest, table.largest_sequence, ValueType::kValue);
  return meta;
}

// `memory` gets the image back if the table is obsolete when it goes; it may be null if none is.
inline TableRef MakeFakeTable(const FakeTable& table,
                              std::shared_ptr<PlacedMemory> memory = nullptr) {
  auto made = std::make_shared<const Table>(std::make_unique<FakeTableReader>(FakeMeta(table)),
                                            std::move(memory));
  made->SetKeepers(table.keepers);
  return made;
}

inline std::vector<TableRef> MakeFakeTables(std::initializer_list<FakeTable> tables) {
  std::vector<TableRef> made;
  for (const FakeTable& table : tables) made.push_back(MakeFakeTable(table));
  return made;
}

inline std::vector<uint64_t> NumbersOf(const std::vector<TableRef>& tables) {
  std::vector<uint64_t> numbers;
  for (const TableRef& table : tables) numbers.push_back(table->number());
  return numbers;
}

}  // namespace dlsm
