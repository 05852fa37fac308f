#include "table/byte_table_iterator.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "port/cpu.h"
#include "table/record.h"

namespace dlsm {
namespace {

// How far ahead of the current record the processor is asked to fetch, at least, and how much it is
// asked for at once.
constexpr uint64_t kFetchedAhead = 1536;
constexpr uint64_t kFetchedAtOnce = 16 * port::kCacheLineBytes;

}  // namespace

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
  StartAt(0);
}

void ByteTableIterator::SeekToLast() {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  prepared_ = Prepared::kNothing;
  const uint64_t end = window_.part_end();
  if (index_.groups() == 0 || end <= window_.part_begin()) return Invalidate();
  ToRecordBefore(end);
}

// Of the record to start at: the placed one, or where that cannot be the target's the next one,
// which is what is sought unless there are further versions of the placed one's key.
uint64_t ByteTableIterator::SeekOffset(const ByteTableIndex::Place& place) {
  return place.may_hold ? place.offset : place.offset + place.bytes;
}

void ByteTableIterator::Seek(const Slice& target) {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  const Slice user_key = ExtractUserKey(target);
  ByteTableIndex::Place place;
  if (std::exchange(prepared_, Prepared::kNothing) == Prepared::kPlaced) {
    place = place_;
  } else if (!Locate(user_key, ByteTableIndex::kNewest, &place)) {
    return;
  }
  if (!StartAt(SeekOffset(place)) || comparator_.Compare(key(), target) >= 0) return;
  // It is too new, or of the last key before the target, whose last version is to be passed. Mostly
  // there is only one.
  const bool same = comparator_.CompareUserKeys(ExtractUserKey(key()), user_key) == 0;
  if (!same && place.may_hold) {
    Next();
    if (!Valid() || comparator_.Compare(key(), target) >= 0) return;
  }
  const uint64_t trailer = same ? ExtractTrailer(target) : ByteTableIndex::kOldest;
  if (!Locate(user_key, trailer, &place) || !StartAt(place.offset)) return;
  if (comparator_.Compare(key(), target) < 0) Next();
}

void ByteTableIterator::PrepareSeek(const Slice& target) {
  const Slice user_key = ExtractUserKey(target);
  switch (prepared_) {
    case Prepared::kNothing:
      samples_below_ = index_.Approach(user_key);
      prepared_ = Prepared::kApproached;
      return;
    case Prepared::kApproached:
      groups_below_ = index_.ApproachFurther(user_key, samples_below_);
      index_.AskForEntries(groups_below_);
      prepared_ = Prepared::kNear;
      return;
    case Prepared::kNear: {
      place_ = {};
      const auto outcome = index_.Locate(user_key, ByteTableIndex::kNewest, &place_, groups_below_);
      if (outcome == ByteTableIndex::Outcome::kMalformed) return;  // The seek will find out.
      prepared_ = Prepared::kPlaced;
      const uint64_t offset = SeekOffset(place_);
      if (offset < window_.part_end()) window_.Prepare(offset);
      return;
    }
    case Prepared::kPlaced:
      return;
  }
}

// Leaves *place as it is, the first record, if all records are after the key.
bool ByteTableIterator::Locate(const Slice& user_key, uint64_t trailer,
                               ByteTableIndex::Place* place) {
  const uint32_t groups = index_.ApproachFurther(user_key, index_.Approach(user_key));
  index_.AskForEntries(groups);
  if (index_.Locate(user_key, trailer, place, groups) != ByteTableIndex::Outcome::kMalformed) {
    return true;
  }
  FailCorrupt("a table's index is malformed");
  return false;
}

bool ByteTableIterator::StartAt(uint64_t offset) {
  fetched_ahead_ = 0;
  prepared_ = Prepared::kNothing;
  ReadForward(offset, /*follows=*/false);
  return Valid();
}

// Not a part of Parse(), so that a step pays nothing for it.
[[gnu::noinline]] void ByteTableIterator::FailCorrupt(const char* why) {
  window_.Forget();
  Fail(Status::Corruption(why));
}

[[gnu::always_inline]] inline void ByteTableIterator::Parse(uint64_t offset) {
  Record record;
  const char* const at = window_.At(offset);
  if (!ParseRecord(at, window_.limit(), &record)) [[unlikely]] {
    return FailCorrupt("a table holds bytes that are no record");
  }
  offset_ = offset;
  record_.key = record.internal_key;
  record_.value = record.value;
  record_.encoded = record.encoded;
  Show(&record_);
  if (verify_checksums_) Verify();
}

// Not a part of Parse() either: with it, a step would save registers that it does not use.
[[gnu::noinline]] void ByteTableIterator::Verify() {
  const Record record = {
      .encoded = record_.encoded, .internal_key = record_.key, .value = record_.value};
  if (!VerifyRecord(record)) [[unlikely]]
    FailCorrupt("a record has a wrong checksum");
}

void ByteTableIterator::Next() {
  assert(Valid());
  const uint64_t next = offset_ + record_.encoded.size();
  if (record_.stable && fetched_ahead_ < next + kFetchedAhead) FetchAhead(next);
  if (window_.Holds(next) && !window_.MayBeOthers()) [[likely]] {
    Parse(next);
  } else {
    ReadForward(next, /*follows=*/true);
  }
}

// Where records lie in place, a step waits for memory: processors read ahead by themselves, but no
// further than to the end of a page, and records make many pages. A seek without steps asks for
// nothing, the first steps for a few lines each. Always as many lines: a loop whose end depends on
// the records is one that the processor guesses wrong.
[[gnu::always_inline]] inline void ByteTableIterator::FetchAhead(uint64_t next) {
  const uint64_t from = std::max(fetched_ahead_, next);
  if (from + kFetchedAtOnce > data_bytes_) [[unlikely]]
    return;
  const char* const at = window_.At(from);
#pragma GCC unroll 16
  for (uint64_t line = 0; line < kFetchedAtOnce; line += port::kCacheLineBytes) {
    port::PrefetchRead(at + line);
  }
  fetched_ahead_ = from + kFetchedAtOnce;
}

void ByteTableIterator::Prev() {
  assert(Valid());
  // Who walks backward has looked at the first record just before.
  if (offset_ <= window_.part_begin()) return Fail(window_.CheckPlace());
  ToRecordBefore(offset_);
}

// `offset` is where a record begins, or the end of the data; not 0.
void ByteTableIterator::ToRecordBefore(uint64_t offset) {
  if (group_ == kNoGroup || offset <= group_offsets_.offsets[0] ||
      offset > group_offsets_.offsets[group_offsets_.records]) {
    if (!LoadGroup(index_.GroupAt(offset - 1))) return;
  }
  const uint64_t* const begin = group_offsets_.offsets;
  const uint64_t* const after = std::lower_bound(begin, begin + group_offsets_.records, offset);
  ToRecord(group_, static_cast<uint32_t>(after - begin) - 1);
}

bool ByteTableIterator::LoadGroup(uint32_t group) {
  group_ = kNoGroup;
  if (!index_.Offsets(group, &group_offsets_)) {
    FailCorrupt("a table's index is malformed");
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

void ByteTableIterator::ReadForward(uint64_t offset, bool follows) {
  if (!window_.Holds(offset) || window_.MayBeOthers()) [[unlikely]] {
    // Who steps may still look at the last record's key, to pass its older versions.
    if (offset >= window_.part_end()) return follows ? Fail(window_.CheckPlace()) : Invalidate();
    Status status = window_.ForwardUncut(offset, follows);
    if (!status.ok()) return Fail(std::move(status));
    record_.stable = window_.direct();
  }
  Parse(offset);
}

void ByteTableIterator::ReadBackward(uint64_t offset, uint64_t end) {
  if (!window_.Holds(offset) || window_.MayBeOthers()) [[unlikely]] {
    Status status = window_.Backward(end);
    if (!status.ok()) return Fail(std::move(status));
    record_.stable = window_.direct();
  }
  if (!window_.Holds(offset)) {  // The record's end is where another one's should be.
    return FailCorrupt("a table's index does not fit its records");
  }
  Parse(offset);
}

}  // namespace dlsm
