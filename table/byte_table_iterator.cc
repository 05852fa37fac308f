#include "table/byte_table_iterator.h"

#include <algorithm>
#include <cassert>

#include "table/record.h"

namespace dlsm {

ByteTableIterator::ByteTableIterator(const InternalKeyComparator& comparator,
                                     const ByteTableIndex& index, const RemoteSpan& data,
                                     const DataCuts* cuts, const TableReadOptions& options,
                                     QueuePairs* queue_pairs)
    : comparator_(comparator),
      index_(index),
      data_bytes_(data.bytes),
      verify_checksums_(options.verify_checksums),
      window_(data, cuts, options, queue_pairs) {}

void ByteTableIterator::SeekToFirst() {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  ReadForward(0);
}

void ByteTableIterator::SeekToLast() {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  if (index_.groups() == 0) return Invalidate();
  const uint32_t last = index_.groups() - 1;
  if (LoadGroup(last)) ToRecord(last, group_offsets_.records - 1);
}

void ByteTableIterator::Seek(const Slice& target) {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  const Slice user_key = ExtractUserKey(target);
  // Mostly the first version there is what is sought.
  if (!ToPlace(user_key, ByteTableIndex::kNewest) || comparator_.Compare(key(), target) >= 0)
    return;
  // It is too new, or the last key before the target, of which the last version is to be passed.
  const bool same = comparator_.CompareUserKeys(ExtractUserKey(key()), user_key) == 0;
  if (!ToPlace(user_key, same ? ExtractTrailer(target) : ByteTableIndex::kOldest)) return;
  if (comparator_.Compare(key(), target) < 0) Next();
}

void ByteTableIterator::PrepareSeek(const Slice& target) {
  ByteTableIndex::Place place;
  if (!window_.MayPrepare()) return;
  const auto outcome = index_.Locate(ExtractUserKey(target), ByteTableIndex::kNewest, &place);
  if (outcome != ByteTableIndex::Outcome::kMalformed) window_.Prepare(place.offset);
}

// To where the index places a version of `user_key`; to the first record if that is after it.
bool ByteTableIterator::ToPlace(const Slice& user_key, uint64_t trailer) {
  ByteTableIndex::Place place;
  if (index_.Locate(user_key, trailer, &place) == ByteTableIndex::Outcome::kMalformed) {
    Fail(Status::Corruption("a table's index is malformed"));
    return false;
  }
  ReadForward(place.offset);  // 0 if all records are after the key.
  return Valid();
}

void ByteTableIterator::Next() {
  assert(Valid());
  ReadForward(offset_ + record_.encoded.size());
}

void ByteTableIterator::Prev() {
  assert(Valid());
  if (offset_ == 0) return Invalidate();
  if (group_ == kNoGroup || offset_ <= group_offsets_.offsets[0] ||
      offset_ > group_offsets_.offsets[group_offsets_.records]) {
    if (!LoadGroup(index_.GroupAt(offset_ - 1))) return;
  }
  const uint64_t* const begin = group_offsets_.offsets;
  const uint64_t* const after = std::lower_bound(begin, begin + group_offsets_.records, offset_);
  ToRecord(group_, static_cast<uint32_t>(after - begin) - 1);
}

bool ByteTableIterator::LoadGroup(uint32_t group) {
  group_ = kNoGroup;
  if (!index_.Offsets(group, &group_offsets_)) {
    Fail(Status::Corruption("a table's index is malformed"));
    return false;
  }
  group_ = group;
  return true;
}

// `group` is loaded.
void ByteTableIterator::ToRecord(uint32_t group, uint32_t ordinal) {
  assert(group == group_);
  (void)group;
  ReadBackward(group_offsets_.offsets[ordinal], group_offsets_.offsets[ordinal + 1]);
}

void ByteTableIterator::ReadForward(uint64_t offset) {
  if (!window_.Holds(offset)) [[unlikely]] {
    if (offset == data_bytes_) return Invalidate();
    Status status = window_.Forward(offset);
    if (!status.ok()) return Fail(std::move(status));
    record_.stable = window_.direct();
  }
  Parse(offset);
}

void ByteTableIterator::ReadBackward(uint64_t offset, uint64_t end) {
  if (!window_.Holds(offset)) [[unlikely]] {
    Status status = window_.Backward(end);
    if (!status.ok()) return Fail(std::move(status));
    record_.stable = window_.direct();
  }
  if (!window_.Holds(offset)) {  // The record's end is where another one's should be.
    return Fail(Status::Corruption("a table's index does not fit its records"));
  }
  Parse(offset);
}

void ByteTableIterator::Parse(uint64_t offset) {
  Record record;
  const char* const at = window_.At(offset);
  if (!ParseRecord(at, window_.At(window_.end()), &record)) [[unlikely]] {
    return Fail(Status::Corruption("a table holds bytes that are no record"));
  }
  if (verify_checksums_ && !VerifyRecord(record)) [[unlikely]] {
    return Fail(Status::Corruption("a record has a wrong checksum"));
  }
  offset_ = offset;
  record_.key = record.internal_key;
  record_.value = record.value;
  record_.encoded = record.encoded;
  Show(&record_);
}

}  // namespace dlsm
