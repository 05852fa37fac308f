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

MergeWriter::MergeWriter(const MergeOptions& options, uint64_t expected_bytes, MergeOutput* output,
                         MergeStatistics* statistics)
    : options_(options),
      comparator_(options.table.comparator),
      output_(output),
      statistics_(statistics),
      empty_table_(NewTableBuilder(options.table, nullptr)),
      table_bytes_max_(std::min(options.table_bytes_max, kByteTableDataBytesMax)),
      image_bytes_left_(expected_bytes) {}

Status MergeWriter::Add(const TableIterator& record, const Slice& key, bool same) {
  if (!same) {
    DLSM_RETURN_IF_ERROR(WritePending());
    split_ = false;
  }
  Enqueue(record, key);
  // Too much for one table: no need to gather more.
  if (pending_bytes_bound_ > table_bytes_max_) [[unlikely]] {
    DLSM_RETURN_IF_ERROR(WritePending());
    split_ = true;
  }
  return Status::OK();
}

Status MergeWriter::Finish() {
  DLSM_RETURN_IF_ERROR(WritePending());
  return builder_ == nullptr ? Status::OK() : CloseTable();
}

uint64_t MergeWriter::Bound(const Pending& record) const {
  return empty_table_->RecordBytesBound(record.internal_key.size(), record.value.size());
}

void MergeWriter::Enqueue(const TableIterator& record, const Slice& key) {
  Pending pending{record.encoded(), record.key(), record.value()};
  if (copies_used_ == copies_.size()) copies_.emplace_back();
  std::string& copy = copies_[copies_used_++];
  if (record.stable()) {
    copy.assign(key.data(), key.size());
    pending.internal_key = copy;
  } else {
    copy.clear();
    // A record without an encoding still has a key and a value.
    const bool encoded = !pending.encoded.empty();
    if (encoded) {
      copy.append(pending.encoded.data(), pending.encoded.size());
      const auto moved = [&](const Slice& part) {
        return Slice(copy.data() + (part.data() - pending.encoded.data()), part.size());
      };
      pending = Pending{Slice(copy), moved(pending.internal_key), moved(pending.value)};
    } else {
      copy.append(pending.internal_key.data(), pending.internal_key.size());
      copy.append(pending.value.data(), pending.value.size());
      const size_t key_bytes = pending.internal_key.size();
      pending = Pending{Slice(), Slice(copy.data(), key_bytes),
                        Slice(copy.data() + key_bytes, copy.size() - key_bytes)};
    }
  }
  pending_bytes_bound_ += Bound(pending);
  pending_.push_back(pending);
}

Status MergeWriter::WritePending() {
  if (pending_.empty()) return Status::OK();
  const bool cut = MustCut(ExtractUserKey(pending_.front().internal_key));
  if (builder_ != nullptr && !split_ && (cut || !Fits(pending_bytes_bound_))) {
    DLSM_RETURN_IF_ERROR(CloseTable());
  }
  for (const Pending& record : pending_) DLSM_RETURN_IF_ERROR(Write(record));
  pending_.clear();
  pending_bytes_bound_ = 0;
  for (size_t i = 0; i < copies_used_; ++i) {
    if (copies_[i].capacity() > kSpareCopyBytesMax) std::string().swap(copies_[i]);
  }
  copies_used_ = 0;
  return Status::OK();
}

Status MergeWriter::Write(const Pending& record) {
  if (builder_ != nullptr && !Fits(Bound(record))) DLSM_RETURN_IF_ERROR(CloseTable());
  if (builder_ == nullptr) DLSM_RETURN_IF_ERROR(OpenTable(record));
  DLSM_RETURN_IF_ERROR(builder_->AddEncoded(record.encoded, record.internal_key, record.value));
  ++statistics_->records_written;
  return Status::OK();
}

bool MergeWriter::Passes(const std::vector<std::string>& keys, const Slice& user_key,
                         size_t* next) const {
  const size_t before = *next;
  while (*next < keys.size() && comparator_.CompareUserKeys(keys[*next], user_key) <= 0) ++*next;
  return *next != before;
}

// Asked about every user key: what was passed must not be passed again.
bool MergeWriter::MustCut(const Slice& user_key) {
  bool cut = Passes(options_.cut_points, user_key, &cut_point_);
  const bool candidate = Passes(options_.cut_candidates, user_key, &cut_candidate_);
  const bool hashes = options_.cut_hash_bits > 0;
  if (builder_ != nullptr && !cut && (candidate || hashes) && IsHalfFull()) {
    cut = candidate || CutRank(user_key) >= options_.cut_hash_bits;
  }
  return cut;
}

Status MergeWriter::OpenTable(const Pending& first) {
  capacity_ = std::min(table_bytes_max_, image_bytes_left_);
  // The versions of one key stay together where one table may hold them all; a lone record gets a
  // table in any case.
  const uint64_t fixed = empty_table_->ImageBytesBound();
  const uint64_t together = std::min(fixed + pending_bytes_bound_, table_bytes_max_);
  const uint64_t least = std::max(together, fixed + Bound(first));
  capacity_ = std::max(capacity_, least);
  Status made = output_->NewTable(capacity_, &sink_);
  // Where there is no such piece of memory left, several smaller tables do.
  const uint64_t smallest = std::max(least, table_bytes_max_ / 32);
  while (made.IsBusy() && capacity_ > smallest) {
    capacity_ = std::max(capacity_ / 2, smallest);
    made = output_->NewTable(capacity_, &sink_);
  }
  DLSM_RETURN_IF_ERROR(made);
  assert(sink_->capacity() >= capacity_);
  builder_ = NewTableBuilder(options_.table, sink_.get());
  return Status::OK();
}

Status MergeWriter::CloseTable() {
  TableMeta meta;
  std::string resident;
  DLSM_RETURN_IF_ERROR(builder_->Finish(&meta, &resident));
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
