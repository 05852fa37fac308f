#include "db/background/ingest_job.h"

#include <utility>

#include "util/status_macros.h"

namespace dlsm {

IngestJob::IngestJob(const TableStore& store, SequenceNumber number, uint64_t table_bytes,
                     std::function<uint64_t()> new_table_number)
    : number_(number),
      output_(&store, Purpose::kFlush, PlacedMemory::WhenFull::kBusy, std::move(new_table_number)),
      writer_(store, &output_, table_bytes, /*fragment_bytes=*/UINT64_MAX, /*applied=*/0) {}

Status IngestJob::Add(const Slice& key, const Slice& value) {
  internal_key_.clear();
  AppendInternalKey(&internal_key_, key, number_, ValueType::kValue);
  return writer_.Add(internal_key_, value, /*same_key=*/false);
}

Status IngestJob::Release(std::vector<TableRef>* tables) {
  DLSM_RETURN_IF_ERROR(writer_.FinishTable(/*next=*/nullptr));
  return output_.Release(tables);
}

}  // namespace dlsm
