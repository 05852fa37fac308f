// Writes one sorted run as tables of a shard, one after the other, with index and filter built in
// the same pass: what a flush and an ingest have in common.
#pragma once

#include <cstdint>
#include <memory>

#include "dLSM/status.h"
#include "db/tree/table_store.h"
#include "table/table_bounds.h"
#include "table/table_builder.h"
#include "table/table_room.h"

namespace dlsm {

// One table at a time; usually one is enough for a flush, or one for each memory node of those that
// it is scattered over.
class RunWriter {
 public:
  // Tables have up to `table_bytes`; but for the last one, the first ones end at `fragment_bytes`,
  // one for each memory node that a flush is scattered over. Their metas say that tombstones with
  // numbers up to `applied` have been applied. Store and output outlive the writer.
  RunWriter(const TableStore& store, RemoteTableWriter* output, uint64_t table_bytes,
            uint64_t fragment_bytes, SequenceNumber applied);

  // `same_key`: as the one before. The bytes of the key may change at the next call.
  Status Add(const Slice& internal_key, const Slice& value, bool same_key);
  // `next`: the internal key with which the next table begins; null: there is none.
  Status FinishTable(const Slice* next);

 private:
  Status StartTable(const Slice& internal_key, const Slice& value);

  const TableStore& store_;
  RemoteTableWriter* const output_;
  const SequenceNumber applied_;
  const uint64_t table_bytes_;
  uint64_t next_bytes_;  // Of the next table, if there is such a piece.
  const uint64_t fragment_bytes_;
  size_t cuts_left_;
  // For bounds only: it is never given a record.
  const std::unique_ptr<TableBuilder> empty_table_;
  std::unique_ptr<TableSink> sink_;
  std::unique_ptr<TableBuilder> builder_;
  TableRoom room_;  // Of builder_.
  TableBounds bounds_;
};

}  // namespace dlsm
