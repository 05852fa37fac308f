// Walks the records of a byte-addressable table: forward by parsing them one after the other,
// backward by the offsets in the index.
#pragma once

#include "table/byte_table_index.h"
#include "table/read_ahead.h"
#include "table/table_iterator.h"

namespace dlsm {

class ByteTableIterator final : public TableIterator {
 public:
  // `index`, `cuts` and `queue_pairs` outlive the iterator.
  ByteTableIterator(const InternalKeyComparator& comparator, const ByteTableIndex& index,
                    const RemoteSpan& data, const DataCuts* cuts, const TableReadOptions& options,
                    QueuePairs* queue_pairs);

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& target) override;
  void PrepareSeek(const Slice& target) override;
  void Next() override;
  void Prev() override;
  Status CheckPlace() override { return window_.CheckPlace(); }

 private:
  static uint64_t SeekOffset(const ByteTableIndex::Place& place);
  bool Locate(const Slice& user_key, uint64_t trailer, ByteTableIndex::Place* place);
  bool StartAt(uint64_t offset);
  void FetchAhead(uint64_t next);
  void ReadForward(uint64_t offset, bool follows);
  void ReadBackward(uint64_t offset, uint64_t end);
  void Parse(uint64_t offset);
  void Verify();
  void FailCorrupt(const char* why);
  bool LoadGroup(uint32_t group);
  void ToRecordBefore(uint64_t offset);
  void ToRecord(uint32_t group, uint32_t ordinal);

  const InternalKeyComparator comparator_;
  const ByteTableIndex& index_;
  const uint64_t data_bytes_;
  const bool verify_checksums_;
  ReadAhead window_;

  uint64_t offset_ = 0;         // Of the current record.
  uint64_t fetched_ahead_ = 0;  // In place: how far the processor was asked to fetch.
  Entry record_;

  // How far PrepareSeek() is for the seek that comes next, and what it has found.
  enum class Prepared { kNothing, kApproached, kNear, kPlaced };
  Prepared prepared_ = Prepared::kNothing;
  uint32_t samples_below_ = ByteTableIndex::kUnknown;
  uint32_t groups_below_ = ByteTableIndex::kUnknown;
  ByteTableIndex::Place place_;

  // For Prev(): the offsets of the last group that was needed.
  static constexpr uint32_t kNoGroup = UINT32_MAX;
  uint32_t group_ = kNoGroup;
  ByteTableIndex::GroupOffsets group_offsets_;
};

}  // namespace dlsm
