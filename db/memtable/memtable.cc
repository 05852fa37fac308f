#include "db/memtable/memtable.h"

#include <new>

#include "port/scheduler.h"
#include "util/hash.h"

namespace dlsm {
namespace {

class MemtableIterator final : public InternalIterator {
 public:
  MemtableIterator(const MemtableTree& tree, bool whole) : whole_(whole), cursor_(tree) {
    record_.stable = true;
  }

  void SeekToFirst() override {
    steps_ = 0;
    cursor_.SeekToFirst();
    PassForward();
  }
  void SeekToLast() override {
    cursor_.SeekToLast();
    PassBackward();
  }
  void Seek(const Slice& target) override {
    steps_ = 0;
    cursor_.Seek(target);
    PassForward();
  }
  void Next() override {
    if (steps_ < kLongWalk) ++steps_;
    cursor_.Next();
    PassForward();
  }
  void Prev() override {
    cursor_.Prev();
    PassBackward();
  }

 private:
  // After as many steps it is likely that records are read that lie far ahead.
  static constexpr uint32_t kLongWalk = 16;

  // Over what was withdrawn.
  void PassForward() {
    while (AtWithdrawn()) cursor_.Next();
    Parse();
  }
  void PassBackward() {
    while (AtWithdrawn()) cursor_.Prev();
    Parse();
  }
  bool AtWithdrawn() const { return cursor_.Valid() && cursor_.record().withdrawn(); }
  void Parse() {
    if (!cursor_.Valid()) return Invalidate();
    if (whole_ || steps_ == kLongWalk) cursor_.PrefetchAhead();
    cursor_.record().Parse(&record_.key, &record_.value);
    Show(&record_);
  }

  const bool whole_;
  uint32_t steps_ = 0;  // Forward, since the last seek; kLongWalk at most.
  MemtableTree::Cursor cursor_;
  Entry record_;
};

}  // namespace

bool Memtable::Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
                   const Slice& value, bool batched) try {
  if (filter_.active()) filter_.Add(Hash64(user_key));
  char* record =
      arena_.AllocateAligned(MemtableRecordBytes(user_key.size() + kTrailerBytes, value.size()));
  WriteMemtableRecord(record, user_key, PackTrailer(sequence, type), value);
  tree_.Insert(RecordPointer(record, batched));
  port::InterleavingPoint();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool Memtable::AddRange(SequenceNumber sequence, const Slice& begin, const Slice& end,
                        uint64_t bytes, bool batched) try {
  ranges_.Add(&arena_, sequence, begin, end, bytes, batched);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

RecordPointer Memtable::Find(const Slice& user_key, SequenceNumber newest) const {
  return tree_.FirstAtOrAfter(LookupKey(user_key, newest).internal_key());
}

bool Memtable::Get(const LookupKey& key, Sequencer* sequencer, LookupResult* result) const {
  result->state = LookupState::kAbsent;
  if (!ranges_.empty()) [[unlikely]] {
    GetAmongRanges(key, sequencer, result);
    return true;
  }
  if (tree_.Empty()) return true;
  if (filter_.active() && !filter_.MayContain(key.hash())) return false;
  Search(key, sequencer, result);
  return true;
}

// Tombstones are looked for after the key: a batch that is seen in part there has put its
// tombstones by then. Where a newer one is found, the batch that it is of may have put the key,
// too, after it was searched for.
void Memtable::GetAmongRanges(const LookupKey& key, Sequencer* sequencer,
                              LookupResult* result) const {
  while (true) {
    result->state = LookupState::kAbsent;
    Search(key, sequencer, result);
    const SequenceNumber newest =
        ranges_.NewestAt(comparator_, key.user_key(), key.sequence(), sequencer);
    if (newest <= result->hidden_below) break;
    result->hidden_below = newest;
  }
  // A tombstone that came after the search may hide its result.
  if (result->state == LookupState::kFound && result->sequence < result->hidden_below) {
    result->state = LookupState::kDeleted;
  }
}

void Memtable::Search(const LookupKey& key, Sequencer* sequencer, LookupResult* result) const {
  RecordPointer record = tree_.FirstAtOrAfter(key.internal_key());
  SequenceNumber newest = key.sequence();  // That the search was for.
  while (!record.null()) {
    Slice internal_key;
    Slice value;
    record.Parse(&internal_key, &value);
    if (!IsVersionOf(comparator_, key, internal_key)) return;
    const uint64_t trailer = ExtractTrailer(internal_key);
    const SequenceNumber sequence = TrailerSequence(trailer);
    if (record.batched()) [[unlikely]] {
      port::InterleavingPoint();
      if (record.withdrawn()) {
        newest = sequence - 1;
        record = Find(key.user_key(), newest);
        continue;
      }
      // Past all of an open batch: the next entry may be its own, and find it complete.
      if (const SequenceNumber first = sequencer->OpenBatchOf(sequence); first != 0) {
        newest = first - 1;
        record = Find(key.user_key(), newest);
        continue;
      }
      // The batch is complete now, but may not have been when its entry was found: then a later
      // entry of it for the same key was still to come. By now it is here, or the batch was given
      // up.
      const RecordPointer again = Find(key.user_key(), newest);
      if (again.bits() != record.bits()) {
        record = again;
        continue;
      }
    }
    result->Set(trailer, value);
    return;
  }
}

std::unique_ptr<InternalIterator> Memtable::NewIterator(bool whole) const {
  return std::make_unique<MemtableIterator>(tree_, whole);
}

}  // namespace dlsm
