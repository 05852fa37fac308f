// Builds the tables of an ingest: a sorted stream of entries becomes tables at the memory nodes
// without passing a memtable. They are part of no version yet (Background::Ingest).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/background/run_writer.h"
#include "db/tree/table_store.h"
#include "table/internal_key.h"

namespace dlsm {

// Of one shard, by one thread. Tables that are not released are given back.
class IngestJob {
 public:
  // `store` outlives the job. All entries have this number, and tables up to `table_bytes`.
  IngestJob(const TableStore& store, SequenceNumber number, uint64_t table_bytes,
            std::function<uint64_t()> new_table_number);

  // Keys ascend. Busy if the memory nodes have no more room.
  Status Add(const Slice& key, const Slice& value);
  // Returns when all tables are in place. *tables: in the order of keys.
  Status Release(std::vector<TableRef>* tables);

  uint64_t bytes_written() const { return output_.bytes_written(); }

 private:
  const SequenceNumber number_;
  RemoteTableWriter output_;
  RunWriter writer_;
  std::string internal_key_;
};

}  // namespace dlsm
