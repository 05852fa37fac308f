#include "db/background/run_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "util/status_macros.h"

namespace dlsm {

RunWriter::RunWriter(const TableStore& store, RemoteTableWriter* output, uint64_t table_bytes,
                     uint64_t fragment_bytes, SequenceNumber applied)
    : store_(store),
      output_(output),
      applied_(applied),
      table_bytes_(table_bytes),
      next_bytes_(table_bytes),
      fragment_bytes_(fragment_bytes),
      cuts_left_(store.memory()->scatter_width() - 1),
      empty_table_(NewTableBuilder(store.table_options(), nullptr)),
      bounds_(store.comparator()) {}

Status RunWriter::Add(const Slice& internal_key, const Slice& value, bool same_key) {
  if (cuts_left_ > 0 && !same_key && builder_ != nullptr && room_.Has(fragment_bytes_)) {
    --cuts_left_;
    DLSM_RETURN_IF_ERROR(FinishTable(&internal_key));
  }
  const uint64_t bytes_bound = empty_table_->RecordBytesBound(internal_key.size(), value.size());
  if (builder_ != nullptr && !room_.Fits(bytes_bound)) {
    DLSM_RETURN_IF_ERROR(FinishTable(&internal_key));
  }
  if (builder_ == nullptr) DLSM_RETURN_IF_ERROR(StartTable(internal_key, value));
  room_.Take(bytes_bound);
  return builder_->Add(internal_key, value, same_key);
}

Status RunWriter::FinishTable(const Slice* next) {
  if (builder_ == nullptr) return Status::OK();
  TableMeta meta;
  std::string resident;
  DLSM_RETURN_IF_ERROR(builder_->Finish(&meta, &resident));
  bounds_.Set(builder_->edges(), next, &meta);
  meta.tombstones_applied = applied_;
  builder_.reset();
  sink_.reset();
  return output_->TableDone(std::move(meta), resident);
}

Status RunWriter::StartTable(const Slice& internal_key, const Slice& value) {
  // The rest of a reserve is small pieces, and deletions must fit into them.
  const uint64_t least =
      LoneRecordImageBound(store_.table_options(), internal_key.size(), value.size());
  // Where the memory node has no piece for all, several smaller tables do.
  uint64_t bytes = std::max(next_bytes_, least);
  Status made = output_->NewTable(bytes, &sink_);
  while (made.IsBusy() && bytes > least) {
    bytes = std::max(bytes / 2, least);
    made = output_->NewTable(bytes, &sink_);
  }
  DLSM_RETURN_IF_ERROR(made);
  // Small pieces come in numbers: the next one is not looked for from the top.
  next_bytes_ = std::min(table_bytes_, 2 * bytes);
  builder_ = NewTableBuilder(store_.table_options(), sink_.get());
  room_ = TableRoom(builder_.get(), sink_->capacity());
  return Status::OK();
}

}  // namespace dlsm
