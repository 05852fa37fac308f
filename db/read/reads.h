// Reads of several keys, and of ranges, of a database with one or more shards, as far as they are
// the same for its owner and for followers: how shards are found, and what is read once views and
// sequence number are known. A single key is PointReader::Get().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/statistics.h"
#include "db/nodes/shard_map.h"
#include "db/read/db_iterator.h"
#include "db/read/point_reader.h"
#include "db/read/shard_iterator.h"
#include "table/internal_key.h"
#include "table/table_reader.h"

namespace dlsm {

// Thread-safe.
class Reads {
 public:
  // Where a key is looked for.
  struct Source {
    const PointReader* reader;
    const ReadView* view;
  };

  // All but the statistics outlive this; of `options` only what concerns reads is looked at.
  Reads(const Options* options, const InternalKeyComparator* comparator, const ShardMap* map,
        std::shared_ptr<Statistics> statistics)
      : options_(options), comparator_(comparator), map_(map), statistics_(std::move(statistics)) {}

  // Shards that have keys in [*begin, *end]; null: before the first, after the last key.
  std::vector<size_t> ShardsOf(const Slice* begin, const Slice* end) const;
  // Shards between an iterator's bounds.
  std::vector<size_t> ShardsOf(const ReadOptions& options) const;

  // What a MultiGet's values go into, as many as there are keys: strings, or else pinned slices.
  // `holder` keeps the views for values that are pinned in place; without it these are copied.
  struct Values {
    std::string* strings = nullptr;
    PinnableSlice* pinned = nullptr;
    std::shared_ptr<const void> holder = nullptr;

    size_t SizeOf(size_t i) const {
      return strings != nullptr ? strings[i].size() : pinned[i].size();
    }
    void Clear(size_t i) const {
      if (strings != nullptr) strings[i].clear();
      if (pinned != nullptr) pinned[i].Reset();
    }
  };
  // sources[i], the i-th of the values and statuses[i] are of keys[i]. Returns how many have
  // another status than OK and NotFound.
  size_t MultiGet(std::span<const Slice> keys, std::span<const Source> sources,
                  SequenceNumber sequence, const ReadOptions& options, const Values& values,
                  Status* statuses) const;
  // Of the shards from number `first` on; `holder`, which may be null, keeps what they refer to
  // besides the views.
  Iterator* NewIterator(size_t first, std::vector<ShardView> shards, SequenceNumber sequence,
                        const ReadOptions& options, std::shared_ptr<const void> holder) const;
  // The same of the only shard.
  Iterator* NewIterator(ShardView shard, SequenceNumber sequence, const ReadOptions& options,
                        std::shared_ptr<const void> holder) const;
  // What the keys in the range take in tables.
  uint64_t ApproximateBytes(const Version& version, const Range& range) const;

 private:
  // Whether an iterator can be made with these options.
  Status CheckIterator(const ReadOptions& options) const;
  // *read_options get the bounds, if there are any.
  DbIteratorOptions IteratorOptions(const ReadOptions& options, SequenceNumber sequence,
                                    TableReadOptions* read_options) const;

  const Options* const options_;
  const InternalKeyComparator* const comparator_;
  const ShardMap* const map_;
  const std::shared_ptr<Statistics> statistics_;
};

}  // namespace dlsm
