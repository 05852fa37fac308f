#include "table/byte_table_reader.h"

#include <algorithm>

#include "table/byte_table_iterator.h"
#include "table/record.h"
#include "util/status_macros.h"

namespace dlsm {

Status ByteTableReader::Open(const TableOptions& options, const TableMeta& meta,
                             const Slice& resident, std::shared_ptr<const void> owner,
                             std::unique_ptr<TableReader>* reader) {
  std::unique_ptr<ByteTableReader> opened(new ByteTableReader(options, meta, std::move(owner)));
  const Slice index(resident.data(), meta.index_bytes);
  const Slice filter(resident.data() + meta.index_bytes, meta.filter_bytes);
  DLSM_RETURN_IF_ERROR(opened->index_.Open(index, meta.data_bytes, meta.entries));
  DLSM_RETURN_IF_ERROR(opened->filter_.Open(options.filter_policy, filter));
  *reader = std::move(opened);
  return Status::OK();
}

void ByteTableReader::Approach(const LookupKey& key, TableProbe* probe) const {
  probe->samples = index_.Approach(key.user_key());
}

void ByteTableReader::ApproachFurther(const LookupKey& key, TableProbe* probe) const {
  if (probe->samples == TableProbe::kUnknown) Approach(key, probe);
  probe->groups = index_.ApproachFurther(key.user_key(), probe->samples);
  ByteTableIndex::Place place;
  switch (index_.AskFingerprints(key.user_key(), key.hash(), probe->groups, &place)) {
    case ByteTableIndex::Answer::kAbsent:
      probe->answer = false;
      return;
    case ByteTableIndex::Answer::kPlaced:
      probe->answer = true;
      probe->span = meta().data_span().Sub(place.offset, place.bytes);
      return;
    case ByteTableIndex::Answer::kUnsure:
      index_.AskForEntries(probe->groups);
      if (probe->groups == TableProbe::kUnknown || probe->groups == 0) return;
      probe->span = meta().data_span().Sub(index_.DataOffset(probe->groups - 1), 1);
  }
}

bool ByteTableReader::Find(const LookupKey& key, bool filtered, TableProbe* probe) const {
  if (!filtered && !filter_.MayMatch(key.user_key(), key.hash())) return false;
  if (probe->groups == TableProbe::kUnknown) ApproachFurther(key, probe);
  if (probe->answer.has_value()) return *probe->answer;
  ByteTableIndex::Place place;
  switch (index_.LocateKey(key.user_key(), key.hash(), ExtractTrailer(key.internal_key()), &place,
                           probe->groups)) {
    case ByteTableIndex::Outcome::kBeforeAll:
      return false;
    case ByteTableIndex::Outcome::kMalformed:
      probe->span = meta().data_span().Sub(0, 0);  // No record is that short: Decode() complains.
      return true;
    case ByteTableIndex::Outcome::kPlaced:
      if (!place.may_hold) return false;
      probe->span = meta().data_span().Sub(place.offset, place.bytes);
      return true;
  }
  return false;
}

Status ByteTableReader::Decode(const LookupKey& key, const TableProbe&, const Slice& fetched,
                               const TableReadOptions& options, LookupResult* result) const {
  Record record;
  if (!ParseRecord(fetched.data(), fetched.data() + fetched.size(), &record) ||
      record.encoded.size() != fetched.size()) {
    return Status::Corruption("a record does not lie where the table's index says");
  }
  if (options.verify_checksums && !VerifyRecord(record)) {
    return Status::Corruption("a record has a wrong checksum");
  }
  result->state = LookupState::kAbsent;
  const uint64_t trailer = ExtractTrailer(record.internal_key);
  // An index that belongs to these records places no version that is too new, unless all are.
  if (TrailerSequence(trailer) <= key.sequence() &&
      IsVersionOf(comparator_, key, record.internal_key)) {
    result->Set(trailer, record.value);
  }
  return Status::OK();
}

std::unique_ptr<TableIterator> ByteTableReader::NewIterator(const TableReadOptions& options,
                                                            QueuePairs* queue_pairs) const {
  const DataCuts* const cuts = this;
  return std::make_unique<ByteTableIterator>(comparator_, index_, meta().data_span(), cuts, options,
                                             queue_pairs);
}

// The index places a key at the one record that may have it. That record may also be the last one
// before the key, or the first one behind it: of its user key the index has only a part.
TableReader::OffsetBounds ByteTableReader::BoundOffset(const Slice& internal_key) const {
  const uint64_t all = meta().data_bytes;
  if (comparator_.Compare(internal_key, meta().smallest) <= 0) return {0, 0};
  if (comparator_.Compare(internal_key, meta().largest) > 0) return {all, all};
  const Slice user_key = ExtractUserKey(internal_key);
  ByteTableIndex::Place first;
  ByteTableIndex::Place last;  // Of the versions of one user key.
  const auto outcome = index_.Locate(user_key, ExtractTrailer(internal_key), &first);
  if (outcome == ByteTableIndex::Outcome::kBeforeAll) return {0, 0};
  if (outcome != ByteTableIndex::Outcome::kPlaced ||
      index_.Locate(user_key, ByteTableIndex::kOldest, &last) != ByteTableIndex::Outcome::kPlaced) {
    return {0, all};
  }
  const uint64_t behind = last.offset + last.bytes;
  // A key that does not begin with what the index knows of the record's is behind that.
  return {last.may_hold ? first.offset : behind, behind};
}

size_t ByteTableReader::resident_bytes() const {
  return meta().index_bytes + meta().filter_bytes + index_.own_bytes() + sizeof(*this);
}

// Cuts at groups where the window is large enough, at records where it is not, and where the index
// turns out to be malformed: the iterator that reads there will notice.
uint64_t ByteTableReader::CutAfter(uint64_t begin, uint64_t bytes) const {
  const uint64_t wanted = std::min(bytes, meta().data_bytes - begin) + begin;
  if (wanted == meta().data_bytes) return wanted;
  const uint32_t wanted_group = index_.GroupAt(wanted);
  if (const uint64_t cut = index_.DataOffset(wanted_group); cut > begin) return cut;
  ByteTableIndex::GroupOffsets offsets;
  if (!index_.Offsets(wanted_group, &offsets)) return index_.DataOffset(wanted_group + 1);
  uint32_t i = 1;
  while (i < offsets.records && (offsets.offsets[i] <= begin || offsets.offsets[i + 1] <= wanted)) {
    ++i;
  }
  return offsets.offsets[i];
}

uint64_t ByteTableReader::CutBefore(uint64_t end, uint64_t bytes) const {
  const uint64_t wanted = end - std::min(bytes, end);
  if (wanted == 0) return 0;
  const uint32_t wanted_group = index_.GroupAt(wanted - 1);
  if (const uint64_t cut = index_.DataOffset(wanted_group + 1); cut < end) return cut;
  ByteTableIndex::GroupOffsets offsets;
  if (!index_.Offsets(wanted_group, &offsets)) return index_.DataOffset(wanted_group);
  uint32_t i = offsets.records - 1;
  while (i > 0 && (offsets.offsets[i] >= end || offsets.offsets[i - 1] >= wanted)) --i;
  return offsets.offsets[i];
}

}  // namespace dlsm
