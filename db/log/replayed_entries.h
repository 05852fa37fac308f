// What a log has for one shard, and its tables have not, put into the order of internal keys.
//
// The entries stay where the reader of the log has them; what is sorted says where they lie. So a
// replay costs one pass over the log and one over the sorted entries, each of which has its
// threads: the first a segment of the log each, the second a piece of the keys each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"

namespace dlsm {

class ReplayedEntries {
  struct Entry {
    uint64_t digest;  // Of the user key, behind what all have in common.
    uint64_t trailer;
    const char* user_key;
    uint32_t key_bytes;
    uint32_t value_bytes;

    Slice key() const { return Slice(user_key, key_bytes); }
  };

 public:
  // So many pieces and threads are worth while.
  static constexpr size_t kPiecesMax = 4;
  static constexpr const char* kNoMemory =
      "this process has no memory for what is in the database's log; give it more, and open the "
      "database again: nothing is lost";

  // Entries with numbers below `flushed_below` are in the shard's tables.
  ReplayedEntries(const InternalKeyComparator& comparator, SequenceNumber flushed_below)
      : comparator_(comparator), flushed_below_(flushed_below) {}

  // Forgets what there is. The log is read in so many parts.
  void Begin(size_t parts);
  // In one thread for each part. The value lies behind the key, as in a frame; both stay there.
  void Add(size_t part, SequenceNumber sequence, ValueType type, const Slice& key,
           const Slice& value);
  // Likewise a range tombstone.
  void AddRange(size_t part, SequenceNumber sequence, const Slice& begin, const Slice& end);
  // Nothing is added any more. Only what is in the first `parts` parts counts.
  Status End(size_t parts);

  bool empty() const { return count_ == 0 && tombstones_.empty(); }
  // All of them: they hide what is older, here and in tables.
  const std::vector<RangeTombstone>& tombstones() const { return tombstones_; }
  // Of keys and values, about.
  uint64_t bytes() const { return bytes_; }
  // User keys that divide the entries into pieces of about the same size, of `piece_bytes` or more:
  // one less than there are pieces.
  std::vector<Slice> SplitKeys(uint64_t piece_bytes) const;

  // The entries of the user keys from `from` on (null: from the first) and before `to` (null: to
  // the last), in order. One thread; several at once are read side by side.
  class Piece {
   public:
    Piece(const ReplayedEntries& entries, const Slice* from, const Slice* to);
    uint64_t bytes() const { return bytes_; }
    // False at the end. The internal key stays until the call after the next one, the value for
    // good.
    bool Next(Slice* internal_key, Slice* value);
    // Next() begins again.
    void Rewind() { next_ = 0; }

   private:
    std::vector<Entry> sorted_;
    size_t next_ = 0;
    uint64_t bytes_ = 0;
    std::array<std::string, 2> keys_;  // By turns.
  };

 private:
  struct Part {
    std::vector<Entry> entries;
    // So many bytes of all its keys are those of the first.
    size_t common = 0;
    uint64_t bytes = 0;
    std::vector<RangeTombstone> tombstones;
  };

  // Of user keys, of which the digests are known.
  int Compare(uint64_t a_digest, const Slice& a, uint64_t b_digest, const Slice& b) const;
  uint64_t DigestOf(const Slice& key) const;

  const InternalKeyComparator comparator_;
  const SequenceNumber flushed_below_;
  std::vector<Part> parts_;
  std::vector<RangeTombstone> tombstones_;
  size_t common_ = 0;  // So many bytes all keys have in common.
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace dlsm
