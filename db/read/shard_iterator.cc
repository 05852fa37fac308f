#include "db/read/shard_iterator.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "db/read/hidden_entries.h"
#include "db/tree/level_iterator.h"
#include "table/merging_iterator.h"
#include "table/read_bounds.h"

namespace dlsm {
namespace {

// Stands in one shard, at `at_`; goes on to the next one where that ends, unless it has failed.
// Shards that seeks have been in stay open: more seeks are likely to come there.
class ShardsIterator final : public InternalIterator {
 public:
  ShardsIterator(const InternalKeyComparator& comparator, const ShardMap& map, size_t first,
                 std::vector<ShardView> shards, SequenceNumber sequence,
                 const TableReadOptions& read_options)
      : comparator_(comparator),
        map_(map),
        first_(first),
        sequence_(sequence),
        read_options_(read_options) {
    for (ShardView& shard : shards) parts_.emplace_back().shard = std::move(shard);
    assert(!parts_.empty());
  }

  ~ShardsIterator() override {
    for (const Part& part : parts_) {
      const Table* const counts =
          part.shard.view->version->levels().front().sentinel().index->oldest();
      if (counts != nullptr && part.seeks > 0) counts->CountLooks(part.seeks * kLooksPerSeek);
    }
  }

  Status status() const override {
    return !status_.ok() || Here() == nullptr ? status_ : Here()->status();
  }

  void SeekToFirst() override {
    Begin(0);
    Here()->SeekToFirst();
    SkipForward(Move::kSeek);
  }
  void SeekToLast() override {
    const ReadBounds* const bounds = read_options_.bounds;
    Begin(bounds != nullptr && bounds->upper.has_value() ? PartOf(*bounds->upper)
                                                         : parts_.size() - 1);
    Here()->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& target) override {
    Begin(PartOf(ExtractUserKey(target)));
    Here()->Seek(target);
    SkipForward(Move::kSeek);
  }
  void Next() override {
    assert(Valid());
    Here()->Next();
    SkipForward(Move::kStep);
  }
  InternalIterator* Sole() override { return Here()->Sole(); }
  void SoleEnded() override {
    Here()->SoleEnded();
    SkipForward(Move::kStep);
  }
  void Prev() override {
    assert(Valid());
    Here()->Prev();
    SkipBackward();
  }

 private:
  enum class Move { kSeek, kStep };

  struct Part {
    ShardView shard;
    std::unique_ptr<InternalIterator> entries;  // Null: not reached, or left. Goes before the view.
    uint64_t seeks = 0;
  };

  InternalIterator* Here() const { return parts_[at_].entries.get(); }
  // The nearest one to the key.
  size_t PartOf(const Slice& user_key) const {
    const size_t shard = map_.ShardOf(*comparator_.user_comparator(), user_key);
    return std::clamp(shard, first_, first_ + parts_.size() - 1) - first_;
  }
  // A seek.
  void Begin(size_t part) {
    status_.PermitUncheckedError();
    status_ = Status::OK();
    status_.PermitUncheckedError();
    Enter(part);
  }
  void Enter(size_t part) {
    at_ = part;
    Part& entered = parts_[part];
    ++entered.seeks;
    if (entered.entries != nullptr) return;
    entered.entries = NewViewIterator(comparator_, *entered.shard.view, sequence_, read_options_,
                                      entered.shard.queue_pairs);
  }
  // Goes on to the part beside this one, and returns what is to go once that is entered. A long
  // scan does not come back, and buffers of all shards that it has been in would be many. The view
  // stays: what is stable() lies there.
  std::unique_ptr<InternalIterator> Leave(size_t part) {
    std::unique_ptr<InternalIterator> left = std::move(parts_[at_].entries);
    Enter(part);
    return left;
  }
  bool Ended() const { return !Here()->Valid() && Here()->status().ok(); }
  // Whether the part after this one, or before it, may have keys within the bounds.
  bool MayGoOn() const {
    const ReadBounds* const bounds = read_options_.bounds;
    return at_ + 1 < parts_.size() &&
           (bounds == nullptr || !bounds->upper.has_value() ||
            comparator_.CompareUserKeys(map_.boundaries[first_ + at_], *bounds->upper) < 0);
  }
  bool MayGoBack() const {
    const ReadBounds* const bounds = read_options_.bounds;
    return at_ > 0 &&
           (bounds == nullptr || !bounds->lower.has_value() ||
            comparator_.CompareUserKeys(map_.boundaries[first_ + at_ - 1], *bounds->lower) > 0);
  }
  void SkipForward(Move move) {
    if (Ended() && MayGoOn()) [[unlikely]]
      return EnterNext(move);
    Show(*Here());
  }
  // Who steps on may still look at the key that it has left, in place: which is in the first part
  // that is left, however many without keys follow. Who seeks has left none, and what the seek has
  // ended in may be lost.
  [[gnu::noinline]] void EnterNext(Move move) {
    const std::unique_ptr<InternalIterator> left = Leave(at_ + 1);
    Here()->SeekToFirst();
    while (Ended() && MayGoOn()) {
      Leave(at_ + 1);
      Here()->SeekToFirst();
    }
    if (move == Move::kStep) {
      Status place = left->CheckPlace();
      if (!place.ok()) [[unlikely]]
        return Fail(std::move(place));
    }
    Show(*Here());
  }
  void SkipBackward() {
    while (Ended() && MayGoBack()) {
      Leave(at_ - 1);
      Here()->SeekToLast();
    }
    Show(*Here());
  }

  const InternalKeyComparator comparator_;
  const ShardMap& map_;
  const size_t first_;
  const SequenceNumber sequence_;
  const TableReadOptions read_options_;
  std::vector<Part> parts_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<InternalIterator> NewViewIterator(const InternalKeyComparator& comparator,
                                                  const ReadView& view, SequenceNumber sequence,
                                                  const TableReadOptions& read_options,
                                                  QueuePairs* queue_pairs) {
  // All entries that this shows are there by now: an empty memtable has none for it to merge.
  std::vector<MergingSource> sources;
  if (!view.active->empty()) sources.push_back(view.active->NewIterator());
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    if (!memtable->empty()) sources.push_back(memtable->NewIterator());
  }
  const std::vector<Level>& levels = view.version->levels();
  AddGuardSources(comparator, levels.front().sentinel(), read_options, queue_pairs, &sources);
  for (const Level& level : std::span(levels).subspan(1)) {
    if (level.empty()) continue;
    AddLevelSources(comparator, level, read_options, queue_pairs, &sources);
  }
  return WithoutHidden(comparator, view, sequence,
                       NewMergingIterator(comparator, std::move(sources), queue_pairs));
}

std::unique_ptr<InternalIterator> NewShardsIterator(const InternalKeyComparator& comparator,
                                                    const ShardMap& map, size_t first,
                                                    std::vector<ShardView> shards,
                                                    SequenceNumber sequence,
                                                    const TableReadOptions& read_options) {
  return std::make_unique<ShardsIterator>(comparator, map, first, std::move(shards), sequence,
                                          read_options);
}

}  // namespace dlsm
