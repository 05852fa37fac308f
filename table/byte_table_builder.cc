#include "table/byte_table_builder.h"

#include <algorithm>

#include "table/record.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace dlsm {

ByteTableBuilder::ByteTableBuilder(const TableOptions& options, TableSink* sink)
    : sink_(sink),
      summary_(options.comparator),
      index_(InternalKeyComparator(options.comparator)),
      filter_(options.filter_policy) {}

Status ByteTableBuilder::CheckSize(uint64_t record_bytes) const {
  if (record_bytes <= kByteTableDataBytesMax - std::min(kByteTableDataBytesMax, sink_->appended()))
      [[likely]] {
    return Status::OK();
  }
  return Status::InvalidArgument("a byte-addressable table holds at most 4 GiB",
                                 "choose a smaller write_buffer_size or max_file_size");
}

void ByteTableBuilder::Enter(const Slice& internal_key, bool same, uint64_t offset,
                             uint64_t record_bytes) {
  const Slice user_key = ExtractUserKey(internal_key);
  same = same && summary_.entries() != 0;
  if (!same) {
    last_hash_ = Hash64(user_key);
    filter_.AddKey(user_key, last_hash_);
  }
  index_.Add(summary_.last_key(), internal_key, last_hash_, same, offset,
             static_cast<uint32_t>(record_bytes));
  summary_.Add(internal_key, same);
}

Status ByteTableBuilder::Add(const Slice& internal_key, const Slice& value, bool same) {
  const uint64_t offset = sink_->appended();
  DLSM_RETURN_IF_ERROR(CheckSize(RecordBytes(internal_key.size(), value.size())));
  DLSM_RETURN_IF_ERROR(AppendRecord(internal_key, value, sink_));
  Enter(internal_key, same, offset, sink_->appended() - offset);
  return Status::OK();
}

Status ByteTableBuilder::AddEncoded(const Slice& encoded, const Slice& internal_key,
                                    const Slice& value, bool same) {
  // A record of a block table has no encoding, and a peer may have chosen longer varints than need
  // be, which RecordBytesBound() does not foresee.
  if (encoded.size() != RecordBytes(internal_key.size(), value.size())) [[unlikely]] {
    return Add(internal_key, value, same);
  }
  const uint64_t offset = sink_->appended();
  DLSM_RETURN_IF_ERROR(CheckSize(encoded.size()));
  DLSM_RETURN_IF_ERROR(sink_->Append(encoded));
  Enter(internal_key, same, offset, encoded.size());
  return Status::OK();
}

uint64_t ByteTableBuilder::ImageBytesBound() const {
  const uint64_t data_bytes = sink_ == nullptr ? 0 : sink_->appended();
  return data_bytes + index_.BytesBound() + filter_.BytesBound();
}

uint64_t ByteTableBuilder::RecordBytesBound(size_t internal_key_bytes, size_t value_bytes) const {
  return RecordBytes(internal_key_bytes, value_bytes) +
         ByteTableIndexBuilder::KeyBytesBound(internal_key_bytes) + filter_.KeyBytesBound();
}

Status ByteTableBuilder::Finish(TableMeta* meta, std::string* resident) {
  meta->format = TableFormat::kByteAddressable;
  summary_.Finish(meta);
  meta->data_bytes = sink_->appended();
  resident->clear();
  index_.Finish(summary_.last_key(), meta->data_bytes, resident);
  meta->index_bytes = resident->size();
  filter_.Finish(resident);
  meta->filter_bytes = resident->size() - meta->index_bytes;
  DLSM_RETURN_IF_ERROR(sink_->Append(*resident));
  meta->image.bytes = sink_->appended();
  return sink_->Finish();
}

}  // namespace dlsm
