#include "table/table_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "dLSM/comparator.h"
#include "table/block.h"
#include "table/block_table_index.h"
#include "table/byte_table_index.h"
#include "table/record.h"
#include "table/table_filter.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Stands for a comparator that only the application has. Indexes ask which of the built-in ones it
// is, and it is none; a check compares no keys.
class UnknownOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "unknown"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

const Comparator* OrderNamed(const std::string& name) {
  static const UnknownOrder unknown;
  for (const Comparator* known : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    if (name == known->Name()) return known;
  }
  return &unknown;
}

Status DamagedAt(uint64_t offset, const char* what) {
  return Status::Corruption(fmt::format("at offset {} of the table {}", offset, what));
}

// What the meta says of all entries together.
class EntryCheck {
 public:
  explicit EntryCheck(const TableMeta& meta) : meta_(meta) {}

  // False if no entry of the table can have this trailer.
  bool Add(uint64_t trailer) {
    ++entries_;
    if (TrailerType(trailer) == ValueType::kDeletion) ++deletions_;
    const SequenceNumber sequence = TrailerSequence(trailer);
    return sequence >= meta_.sequence_min && sequence <= meta_.sequence_max;
  }
  Status Finish() const {
    if (entries_ == meta_.entries && deletions_ == meta_.deletions) return Status::OK();
    return Status::Corruption(
        fmt::format("the table has {} entries and {} deletions, its manifest says {} and {}",
                    entries_, deletions_, meta_.entries, meta_.deletions));
  }

 private:
  const TableMeta& meta_;
  uint64_t entries_ = 0;
  uint64_t deletions_ = 0;
};

constexpr const char* kWrongSequence = "is an entry that is older or newer than the manifest says";

// Each record begins where the index says.
Status CheckGroup(const Slice& data, const ByteTableIndex::GroupOffsets& offsets,
                  EntryCheck* entries) {
  for (uint32_t i = 0; i < offsets.records; ++i) {
    const uint64_t begin = offsets.offsets[i];
    const uint64_t end = offsets.offsets[i + 1];
    Record record;
    if (end > data.size() || begin >= end ||
        !ParseRecord(data.data() + begin, data.data() + end, &record) ||
        record.encoded.size() != end - begin) {
      return DamagedAt(begin, "is no record, where the index says that there is one");
    }
    if (!VerifyRecord(record)) return DamagedAt(begin, "is a record with a wrong checksum");
    if (!entries->Add(ExtractTrailer(record.internal_key))) {
      return DamagedAt(begin, kWrongSequence);
    }
  }
  return Status::OK();
}

Status CheckRecords(const Comparator* order, const TableMeta& meta, const Slice& data,
                    const Slice& index_bytes) {
  ByteTableIndex index{InternalKeyComparator(order)};
  DLSM_RETURN_IF_ERROR(index.Open(index_bytes, data.size(), meta.entries));
  EntryCheck entries(meta);
  for (uint32_t group = 0; group < index.groups(); ++group) {
    ByteTableIndex::GroupOffsets offsets;
    if (!index.Offsets(group, &offsets)) {
      return DamagedAt(index.DataOffset(group), "are records whose places the index does not tell");
    }
    DLSM_RETURN_IF_ERROR(CheckGroup(data, offsets, &entries));
  }
  return entries.Finish();
}

Status CheckBlock(const InternalKeyComparator& comparator, const Slice& stored, uint64_t offset,
                  EntryCheck* entries) {
  BlockPayload payload;
  const Status opened = payload.Open(stored, /*verify_checksum=*/true);
  if (!opened.ok()) return DamagedAt(offset, opened.message().ToString().c_str());
  BlockCursor cursor(comparator);
  cursor.Open(payload.bytes());
  for (cursor.SeekToFirst(); cursor.valid(); cursor.Next()) {
    if (!entries->Add(ExtractTrailer(cursor.key()))) return DamagedAt(offset, kWrongSequence);
  }
  return cursor.malformed() ? DamagedAt(offset, "is a block that is malformed") : Status::OK();
}

Status CheckBlocks(const Comparator* order, const TableMeta& meta, const Slice& data,
                   const Slice& index_bytes) {
  const InternalKeyComparator comparator(order);
  BlockTableIndex index(comparator);
  DLSM_RETURN_IF_ERROR(index.Open(index_bytes, data.size()));
  EntryCheck entries(meta);
  for (uint32_t block = 0; block < index.blocks(); ++block) {
    const uint64_t begin = index.BlockBegin(block);
    const Slice stored(data.data() + begin, index.BlockEnd(block) - begin);
    DLSM_RETURN_IF_ERROR(CheckBlock(comparator, stored, begin, &entries));
  }
  return entries.Finish();
}

}  // namespace

Status CheckTable(const std::string& comparator_name, const TableMeta& meta, const Slice& image) {
  if (meta.data_bytes + meta.index_bytes + meta.filter_bytes != image.size()) {
    return Status::Corruption("data, index and filter do not add up to the table");
  }
  const Slice data(image.data(), meta.data_bytes);
  const Slice index(data.end(), meta.index_bytes);
  const Slice filter(index.end(), meta.filter_bytes);
  // Its checksum is verified whatever the policy was.
  DLSM_RETURN_IF_ERROR(TableFilter().Open(/*policy=*/nullptr, filter));
  const Comparator* const order = OrderNamed(comparator_name);
  return meta.format == TableFormat::kByteAddressable ? CheckRecords(order, meta, data, index)
                                                      : CheckBlocks(order, meta, data, index);
}

}  // namespace dlsm
