#include "table/merge_writer.h"

#include <algorithm>
#include <cassert>

#include "table/byte_table_index.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A copy's memory is kept for the next record unless it is larger than this.
constexpr size_t kSpareCopyBytesMax = size_t{1} << 20;
// No output is planned smaller than this, so that a wrong forecast does not end in crumbs.
constexpr uint64_t kCapacityBytesMin = uint64_t{1} << 20;

}  // namespace

MergeWriter::MergeWriter(const MergeOptions& options, const std::vector<TableRun>& inputs,
                         uint64_t expected_bytes, MergeOutput* output, MergeStatistics* statistics)
    : options_(options),
      comparator_(options.table.comparator),
      output_(output),
      statistics_(statistics),
      empty_table_(NewTableBuilder(options.table, nullptr)),
      table_bytes_max_(std::min(options.table_bytes_max, kByteTableDataBytesMax)),
      image_bytes_left_(expected_bytes),
      bounds_(options, inputs) {}

Status MergeWriter::Add(const TableIterator& record, const Slice& key, bool same) {
  if (!same) {
    DLSM_RETURN_IF_ERROR(WritePending());
    split_ = false;
  }
  Enqueue(record, key);
  return WriteIfTooMuch();
}

Status MergeWriter::AddChanged(const Slice& internal_key, const Slice& value) {
  DLSM_RETURN_IF_ERROR(WritePending());
  split_ = false;
  Pending& pending = NewPending(internal_key.size(), value.size());
  pending.encoded.clear();
  KeepCopy(internal_key, value, &pending);
  return WriteIfTooMuch();
}

// Too much for one table: no need to gather more.
Status MergeWriter::WriteIfTooMuch() {
  if (pending_bytes_bound_ > table_bytes_max_) [[unlikely]] {
    DLSM_RETURN_IF_ERROR(WritePending());
    split_ = true;
  }
  return Status::OK();
}

Status MergeWriter::Finish() {
  DLSM_RETURN_IF_ERROR(WritePending());
  return builder_ == nullptr ? Status::OK() : CloseTable(/*next=*/nullptr);
}

MergeWriter::Pending& MergeWriter::NewPending(size_t internal_key_bytes, size_t value_bytes) {
  if (pending_count_ == pending_.size()) pending_.push_back(std::make_unique<Pending>());
  Pending& pending = *pending_[pending_count_++];
  pending.bytes_bound = empty_table_->RecordBytesBound(internal_key_bytes, value_bytes);
  pending_bytes_bound_ += pending.bytes_bound;
  return pending;
}

void MergeWriter::KeepCopy(const Slice& internal_key, const Slice& value, Pending* pending) {
  pending->copy.assign(internal_key.data(), internal_key.size());
  pending->copy.append(value.data(), value.size());
  pending->internal_key = Slice(pending->copy.data(), internal_key.size());
  pending->value = Slice(pending->copy.data() + internal_key.size(), value.size());
}

void MergeWriter::Enqueue(const TableIterator& record, const Slice& key) {
  Pending& pending = NewPending(key.size(), record.value().size());
  pending.encoded = record.encoded();
  pending.value = record.value();
  std::string& copy = pending.copy;
  if (record.stable()) {
    copy.assign(key.data(), key.size());
    pending.internal_key = copy;
    return;
  }
  const Slice internal_key = record.key();
  if (!pending.encoded.empty()) {
    const char* const from = pending.encoded.data();
    copy.assign(from, pending.encoded.size());
    const auto moved = [&](const Slice& part) {
      return Slice(copy.data() + (part.data() - from), part.size());
    };
    pending.encoded = copy;
    pending.internal_key = moved(internal_key);
    pending.value = moved(pending.value);
  } else {  // A record without an encoding still has a key and a value.
    KeepCopy(internal_key, pending.value, &pending);
  }
}

Status MergeWriter::WritePending() {
  if (pending_count_ == 0) return Status::OK();
  const bool cut = MustCut(ExtractUserKey(pending_.front()->internal_key));
  if (builder_ != nullptr && !split_ && (cut || !room_.Fits(pending_bytes_bound_))) {
    DLSM_RETURN_IF_ERROR(CloseTable(&pending_.front()->internal_key));
  }
  for (size_t i = 0; i < pending_count_; ++i) {
    Pending& record = *pending_[i];
    DLSM_RETURN_IF_ERROR(Write(record, /*same=*/i > 0 || split_));
    if (record.copy.capacity() > kSpareCopyBytesMax) std::string().swap(record.copy);
  }
  pending_count_ = 0;
  pending_bytes_bound_ = 0;
  return Status::OK();
}

Status MergeWriter::Write(const Pending& record, bool same) {
  if (builder_ != nullptr && !room_.Fits(record.bytes_bound)) {
    DLSM_RETURN_IF_ERROR(CloseTable(&record.internal_key));
  }
  if (builder_ == nullptr) DLSM_RETURN_IF_ERROR(OpenTable(record));
  room_.Take(record.bytes_bound);
  DLSM_RETURN_IF_ERROR(
      builder_->AddEncoded(record.encoded, record.internal_key, record.value, same));
  ++statistics_->records_written;
  return Status::OK();
}

// Asked about every user key: what was passed must not be passed again.
bool MergeWriter::MustCut(const Slice& user_key) {
  const bool cut = Passes(options_.cut_points, user_key, &cut_point_);
  const bool candidate = Passes(options_.cut_candidates, user_key, &cut_candidate_);
  if (builder_ == nullptr || cut) return cut;
  const uint32_t hash_bits = options_.cut_hash_bits;
  const bool may_end = candidate || (hash_bits > 0 && CutRank(user_key) >= hash_bits);
  return may_end && room_.Has(table_bytes_max_ / 2);
}

Status MergeWriter::OpenTable(const Pending& first) {
  uint64_t capacity = std::min(table_bytes_max_, image_bytes_left_);
  // The versions of one key stay together where one table may hold them all; a lone record gets a
  // table in any case.
  const uint64_t fixed = empty_table_->ImageBytesBound();
  const uint64_t together = std::min(fixed + pending_bytes_bound_, table_bytes_max_);
  const uint64_t least = std::max(together, fixed + first.bytes_bound);
  capacity = std::max(capacity, least);
  Status made = output_->NewTable(capacity, &sink_);
  // Where there is no such piece of memory left, several smaller tables do, however small: what is
  // free in a full memory node may be small pieces for the most part, and a merge that fails for
  // that gives nothing back.
  while (made.IsBusy() && capacity > least) {
    capacity = std::max(capacity / 2, least);
    made = output_->NewTable(capacity, &sink_);
  }
  DLSM_RETURN_IF_ERROR(made);
  assert(sink_->capacity() >= capacity);
  builder_ = NewTableBuilder(options_.table, sink_.get());
  room_ = TableRoom(builder_.get(), capacity);
  return Status::OK();
}

Status MergeWriter::CloseTable(const Slice* next) {
  TableMeta meta;
  std::string resident;
  DLSM_RETURN_IF_ERROR(builder_->Finish(&meta, &resident));
  bounds_.Set(builder_->edges(), next, &meta);
  meta.tombstones_applied = options_.tombstones_applied;
  builder_.reset();
  sink_.reset();
  statistics_->bytes_written += meta.image.bytes;
  image_bytes_left_ -= std::min(image_bytes_left_, meta.image.bytes);
  // Where there is more than was expected, nobody knows how much: tables grow with it.
  if (image_bytes_left_ < kCapacityBytesMin) {
    image_bytes_left_ = std::max(kCapacityBytesMin, statistics_->bytes_written / 2);
  }
  return output_->TableDone(std::move(meta), resident);
}

}  // namespace dlsm
