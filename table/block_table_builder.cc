#include "table/block_table_builder.h"

#include "util/hash.h"
#include "util/status_macros.h"

namespace dlsm {

BlockTableBuilder::BlockTableBuilder(const TableOptions& options, TableSink* sink)
    : comparator_(options.comparator),
      block_bytes_(options.block_bytes),
      compression_(options.compression),
      sink_(sink),
      summary_(options.comparator),
      block_(options.restart_interval),
      index_(comparator_),
      filter_(options.filter_policy) {}

Status BlockTableBuilder::Add(const Slice& internal_key, const Slice& value, bool same) {
  if (sink_->appended() + block_.PayloadBytes() + kBlockTrailerBytes +
          BlockBuilder::EntryBytesBound(internal_key.size(), value.size()) >
      kBlockTableDataBytesMax) {
    return Status::InvalidArgument("a block-based table holds at most 4 GiB",
                                   "choose a smaller write_buffer_size or max_file_size");
  }
  if (separator_pending_) {
    IndexPendingBlock(SeparatorBetween(comparator_, summary_.last_key(), internal_key));
  }
  same = same && summary_.entries() != 0;
  if (!same) {
    const Slice user_key = ExtractUserKey(internal_key);
    filter_.AddKey(user_key, Hash64(user_key));
  }
  summary_.Add(internal_key, same);
  block_.Add(internal_key, value);
  return block_.PayloadBytes() >= block_bytes_ ? FlushBlock() : Status::OK();
}

Status BlockTableBuilder::AddEncoded(const Slice&, const Slice& internal_key, const Slice& value,
                                     bool same) {
  return Add(internal_key, value, same);
}

Status BlockTableBuilder::FlushBlock() {
  DLSM_RETURN_IF_ERROR(sink_->Append(block_.Finish(compression_)));
  block_.Reset();
  separator_pending_ = true;
  return Status::OK();
}

void BlockTableBuilder::IndexPendingBlock(const Slice& separator) {
  index_.Add(separator, sink_->appended());
  separator_pending_ = false;
}

uint64_t BlockTableBuilder::ImageBytesBound() const {
  const uint64_t written = sink_ == nullptr ? 0 : sink_->appended();
  const uint64_t last_separator =
      BlockTableIndexBuilder::BlockBytesBound(summary_.last_key().size());
  return written + block_.PayloadBytes() + kBlockTrailerBytes + last_separator +
         index_.BytesBound() + filter_.BytesBound();
}

uint64_t BlockTableBuilder::RecordBytesBound(size_t internal_key_bytes, size_t value_bytes) const {
  // It may end a block, and its key be that block's separator; and it starts the next one.
  return BlockBuilder::EntryBytesBound(internal_key_bytes, value_bytes) + kBlockTrailerBytes +
         2 * sizeof(uint32_t) + BlockTableIndexBuilder::BlockBytesBound(internal_key_bytes) +
         filter_.KeyBytesBound();
}

Status BlockTableBuilder::Finish(TableMeta* meta, std::string* resident) {
  if (!block_.empty()) DLSM_RETURN_IF_ERROR(FlushBlock());
  if (separator_pending_) {
    const Slice first = index_.first();
    IndexPendingBlock(
        SeparatorBehind(comparator_, first.empty() ? nullptr : &first, summary_.last_key()));
  }
  meta->format = TableFormat::kBlockBased;
  summary_.Finish(meta);
  meta->data_bytes = sink_->appended();
  resident->clear();
  index_.Finish(resident);
  meta->index_bytes = resident->size();
  filter_.Finish(resident);
  meta->filter_bytes = resident->size() - meta->index_bytes;
  DLSM_RETURN_IF_ERROR(sink_->Append(*resident));
  meta->image.bytes = sink_->appended();
  return sink_->Finish();
}

}  // namespace dlsm
