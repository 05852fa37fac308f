#include "db/read/reads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "db/read/multi_get.h"

namespace dlsm {

std::vector<size_t> Reads::ShardsOf(const Slice* begin, const Slice* end) const {
  const size_t first = begin == nullptr ? 0 : map_->ShardOf(*options_->comparator, *begin);
  const size_t last =
      end == nullptr ? map_->count() - 1 : map_->ShardOf(*options_->comparator, *end);
  std::vector<size_t> shards;
  for (size_t i = first; i <= std::max(first, last); ++i) shards.push_back(i);
  return shards;
}

std::vector<size_t> Reads::ShardsOf(const ReadOptions& options) const {
  std::vector<size_t> shards = ShardsOf(options.iterate_lower_bound, options.iterate_upper_bound);
  // The upper bound itself is not part of the range.
  if (shards.size() > 1 && options.iterate_upper_bound != nullptr &&
      options_->comparator->Compare(map_->boundaries[shards.back() - 1],
                                    *options.iterate_upper_bound) == 0) {
    shards.pop_back();
  }
  return shards;
}

size_t Reads::MultiGet(std::span<const Slice> keys, std::span<const Source> sources,
                       SequenceNumber sequence, const ReadOptions& options, const Values& values,
                       Status* statuses) const {
  std::vector<std::optional<LookupRequest>> requests(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    LookupRequest& request = requests[i].emplace(keys[i], sequence);
    request.reader = sources[i].reader;
    request.view = sources[i].view;
    if (values.strings != nullptr) request.value = &values.strings[i];
    if (values.pinned != nullptr) request.pinned = &values.pinned[i];
    request.holder = &values.holder;
  }
  RunMultiGet(requests, TableReadOptionsFor(*options_, options));
  uint64_t found = 0;
  size_t failed = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = std::move(requests[i]->status);
    if (statuses[i].ok() && requests[i]->state == LookupState::kFound) [[likely]] {
      ++found;
      bytes += values.SizeOf(i);
    } else {
      if (statuses[i].ok()) {
        statuses[i] = Status::NotFound(Slice());
      } else {
        ++failed;
      }
      values.Clear(i);
    }
  }
  const Statistics::Mine counts = statistics_->OfThisThread();
  counts.Add(Ticker::kKeysRead, keys.size());
  counts.Add(Ticker::kKeysFound, found);
  counts.Add(Ticker::kBytesRead, bytes);
  return failed;
}

uint64_t Reads::ApproximateBytes(const Version& version, const Range& range) const {
  if (comparator_->CompareUserKeys(range.start, range.limit) >= 0) return 0;
  const LookupKey start(range.start, kSequenceNumberMax);
  const LookupKey limit(range.limit, kSequenceNumberMax);
  uint64_t bytes = 0;
  for (const Level& level : version.levels()) {
    for (const TableRef& table : level.Overlapping(*comparator_, &range.start, &range.limit)) {
      bytes += table->reader().ApproximateBytes(start.internal_key(), limit.internal_key());
    }
  }
  return bytes;
}

Status Reads::CheckIterator(const ReadOptions& options) const {
  if (!options.prefix_same_as_start || options_->prefix_extractor != nullptr) return Status::OK();
  return Status::InvalidArgument(
      "prefix_same_as_start needs to know what a prefix is",
      "open the database with Options::prefix_extractor (slice_transform.h)");
}

DbIteratorOptions Reads::IteratorOptions(const ReadOptions& options, SequenceNumber sequence,
                                         TableReadOptions* read_options) const {
  DbIteratorOptions iterator_options;
  iterator_options.bounds = IteratorBounds::Of(*options_, options, *comparator_);
  if (iterator_options.bounds != nullptr) read_options->bounds = &iterator_options.bounds->now();
  iterator_options.sequence = sequence;
  return iterator_options;
}

Iterator* Reads::NewIterator(ShardView shard, SequenceNumber sequence, const ReadOptions& options,
                             std::shared_ptr<const void> holder) const {
  if (const Status usable = CheckIterator(options); !usable.ok()) return NewErrorIterator(usable);
  statistics_->Add(Ticker::kIteratorsCreated);
  TableReadOptions read_options = TableReadOptionsFor(*options_, options);
  DbIteratorOptions iterator_options = IteratorOptions(options, sequence, &read_options);
  iterator_options.counts_seeks = shard.view->version->levels().front().sentinel().index->oldest();
  auto entries =
      NewViewIterator(*comparator_, *shard.view, sequence, read_options, shard.queue_pairs);
  if (holder == nullptr) holder = std::move(shard.view);
  return NewDbIterator(*comparator_, std::move(entries), iterator_options, std::move(holder),
                       statistics_)
      .release();
}

Iterator* Reads::NewIterator(size_t first, std::vector<ShardView> shards, SequenceNumber sequence,
                             const ReadOptions& options, std::shared_ptr<const void> holder) const {
  if (map_->count() == 1) {
    return NewIterator(std::move(shards.front()), sequence, options, std::move(holder));
  }
  if (const Status usable = CheckIterator(options); !usable.ok()) return NewErrorIterator(usable);
  statistics_->Add(Ticker::kIteratorsCreated);
  TableReadOptions read_options = TableReadOptionsFor(*options_, options);
  const DbIteratorOptions iterator_options = IteratorOptions(options, sequence, &read_options);
  return NewDbIterator(*comparator_,
                       NewShardsIterator(*comparator_, *map_, first, std::move(shards), sequence,
                                         read_options),
                       iterator_options, std::move(holder), statistics_)
      .release();
}

}  // namespace dlsm
