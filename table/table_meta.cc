#include "table/table_meta.h"

#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint32_t kFormatVersion = 1;
// Where range tombstones have been applied.
constexpr uint32_t kFormatVersionApplied = 2;

Status MalformedMeta(const char* what) { return Status::Corruption("table meta", what); }

bool GetSpan(Slice* from, RemoteSpan* span) {
  uint32_t node = 0;
  uint32_t region = 0;
  if (!GetFixed32(from, &node) || !GetFixed32(from, &region) || !GetFixed64(from, &span->offset) ||
      !GetFixed64(from, &span->bytes)) {
    return false;
  }
  span->node = NodeId{node};
  span->region = RegionId{region};
  return true;
}

Status CheckSizes(const TableMeta& meta) {
  const uint64_t image = meta.image.bytes;
  if (meta.image.offset + image < image) return MalformedMeta("the image exceeds its region");
  if (meta.data_bytes > image || meta.index_bytes > image - meta.data_bytes ||
      meta.filter_bytes != image - meta.data_bytes - meta.index_bytes) {
    return MalformedMeta("data, index and filter do not add up to the image");
  }
  if (meta.entries > 0 && meta.data_bytes == 0) return MalformedMeta("entries without data");
  if (meta.deletions > meta.entries) return MalformedMeta("more deletions than entries");
  if (meta.sequence_min > meta.sequence_max || meta.sequence_max > kSequenceNumberMax ||
      meta.tombstones_applied > kSequenceNumberMax) {
    return MalformedMeta("sequence numbers out of range");
  }
  return Status::OK();
}

}  // namespace

// | version: 4 | number: 8 | format: 4 | node: 4 | region: 4 | offset: 8 | image bytes: 8 |
// | data bytes: 8 | index bytes: 8 | filter bytes: 8 | entries: 8 | deletions: 8 |
// | sequence min: 8 | sequence max: 8 | version 2: tombstones applied: 8 |
// | smallest, largest: as the list has its keys |
void TableMeta::EncodeTo(std::string* to, KeyWriter* keys) const {
  PutFixed32(to, tombstones_applied == 0 ? kFormatVersion : kFormatVersionApplied);
  PutFixed64(to, number);
  PutFixed32(to, static_cast<uint32_t>(format));
  PutFixed32(to, static_cast<uint32_t>(image.node));
  PutFixed32(to, static_cast<uint32_t>(image.region));
  for (const uint64_t field : {image.offset, image.bytes, data_bytes, index_bytes, filter_bytes,
                               entries, deletions, sequence_min, sequence_max}) {
    PutFixed64(to, field);
  }
  if (tombstones_applied != 0) PutFixed64(to, tombstones_applied);
  keys->Put(smallest, to);
  keys->Put(largest, to);
}

Status TableMeta::DecodeFrom(Slice* from, KeyReader* keys) {
  uint32_t version = 0;
  uint32_t format_number = 0;
  if (!GetFixed32(from, &version)) return MalformedMeta("too short");
  if (version != kFormatVersion && version != kFormatVersionApplied)
    return MalformedMeta("unknown version: written by another release");
  if (!GetFixed64(from, &number) || !GetFixed32(from, &format_number) || !GetSpan(from, &image)) {
    return MalformedMeta("too short");
  }
  for (uint64_t* field : {&data_bytes, &index_bytes, &filter_bytes, &entries, &deletions,
                          &sequence_min, &sequence_max}) {
    if (!GetFixed64(from, field)) return MalformedMeta("too short");
  }
  tombstones_applied = 0;
  if (version == kFormatVersionApplied && !GetFixed64(from, &tombstones_applied)) {
    return MalformedMeta("too short");
  }
  if (!keys->Get(from, &smallest) || !keys->Get(from, &largest)) {
    return MalformedMeta("too short, or its keys are too long");
  }
  if (format_number > static_cast<uint32_t>(TableFormat::kBlockBased)) {
    return MalformedMeta("unknown table format");
  }
  format = static_cast<TableFormat>(format_number);
  if (!IsValidInternalKey(smallest) || !IsValidInternalKey(largest)) {
    return MalformedMeta("invalid key");
  }
  return CheckSizes(*this);
}

}  // namespace dlsm
