#include "db/tree/level_iterator.h"

#include <cassert>
#include <memory>
#include <utility>

#include "table/read_bounds.h"
#include "table/run_iterator.h"

namespace dlsm {
namespace {

std::unique_ptr<TableIterator> OpenRun(const InternalKeyComparator& comparator, const RunView& run,
                                       const TableReadOptions& options, QueuePairs* queue_pairs) {
  // Where there are bounds, the run leaves a table alone that is beyond them.
  return run.tables.size() == 1 && options.bounds == nullptr
             ? run.tables.front()->NewIterator(options, queue_pairs)
             : NewRunIterator(comparator, run, options, queue_pairs);
}

// A seek opens a guard, and mostly the guard has one run: then nothing but that is allocated.
std::unique_ptr<TableIterator> OpenGuard(const InternalKeyComparator& comparator,
                                         const Guard& guard, const TableReadOptions& options,
                                         QueuePairs* queue_pairs) {
  if (guard.index->runs() == 1) {
    return OpenRun(comparator, guard.index->Run(0), options, queue_pairs);
  }
  std::vector<MergingSource> runs;
  runs.reserve(guard.index->runs());
  AddGuardSources(comparator, guard, options, queue_pairs, &runs);
  return NewMergingTableIterator(comparator, std::move(runs), queue_pairs);
}

class LevelIterator final : public TableIterator {
 public:
  LevelIterator(const InternalKeyComparator& comparator, const Level& level,
                const TableReadOptions& options, QueuePairs* queue_pairs)
      : comparator_(comparator), level_(level), options_(options), queue_pairs_(queue_pairs) {}

  void SeekToFirst() override {
    Open(0);
    open_->SeekToFirst();
    SkipForward(Move::kSeek);
  }
  void SeekToLast() override {
    const ReadBounds* const bounds = options_.bounds;
    Open(bounds != nullptr && bounds->upper.has_value()
             ? level_.GuardsUpTo(comparator_, *bounds->upper)
             : level_.guards().size());
    open_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& target) override {
    if (!opened_) OpenFor(target);
    opened_ = false;
    const GuardIndex& guard = *GuardAt(index_).index;
    if (guard.oldest() != nullptr) guard.oldest()->CountLooks(kLooksPerSeek);
    open_->Seek(target);
    SkipForward(Move::kSeek);
  }
  void PrepareSeek(const Slice& target) override {
    if (!opened_) OpenFor(target);
    opened_ = true;
    open_->PrepareSeek(target);
  }
  void Next() override {
    assert(Valid());
    open_->Next();
    if (open_->Valid()) [[likely]] {
      Show(*open_);
    } else {
      SkipForward(Move::kStep);
    }
  }
  Status CheckPlace() override { return open_ == nullptr ? Status::OK() : open_->CheckPlace(); }
  InternalIterator* Sole() override { return open_->Sole(); }
  void SoleEnded() override {
    open_->SoleEnded();
    SkipForward(Move::kStep);
  }
  void Prev() override {
    assert(Valid());
    open_->Prev();
    if (open_->Valid()) [[likely]] {
      Show(*open_);
    } else {
      SkipBackward();
    }
  }

 private:
  enum class Move { kSeek, kStep };

  // The sentinel is 0, the first guard 1.
  const Guard& GuardAt(size_t index) const {
    return index == 0 ? level_.sentinel() : level_.guards()[index - 1];
  }

  void OpenFor(const Slice& target) {
    Open(level_.GuardsUpTo(comparator_, ExtractUserKey(target)));
  }

  void Open(size_t index) {
    opened_ = false;
    if (open_ != nullptr && index == index_) return;
    Invalidate();
    open_ = OpenGuard(comparator_, GuardAt(index), options_, queue_pairs_);
    index_ = index;
  }

  // Apart from Next(), which mostly does not need it. Who steps on may still look at the key that
  // it has left, in place, to pass its older versions. Who seeks has left none: what a seek ended
  // in is of no use to it, and may be lost. Where no table follows, the guard that has ended stays
  // open: it is asked for its place while others go on.
  [[gnu::noinline]] void SkipForward(Move move) {
    while (!open_->Valid() && open_->status().ok()) {
      const size_t next = NextWithTables();
      if (next > level_.guards().size()) break;
      const std::unique_ptr<TableIterator> left = std::move(open_);
      Open(next);
      open_->SeekToFirst();
      if (move == Move::kSeek) continue;
      Status place = left->CheckPlace();
      if (!place.ok()) [[unlikely]]
        return Fail(std::move(place));
    }
    ShowOpen();
  }

  // The next guard that has tables; guards().size() + 1 if there is none within the bounds.
  size_t NextWithTables() const {
    const size_t end = level_.guards().size() + 1;
    size_t next = index_ + 1;
    while (next < end && GuardAt(next).tables.empty()) ++next;
    const ReadBounds* const bounds = options_.bounds;
    const bool behind = next < end && bounds != nullptr && bounds->upper.has_value() &&
                        comparator_.CompareUserKeys(GuardAt(next).key, *bounds->upper) >= 0;
    return behind ? end : next;
  }
  // Whether guards before this one may have keys within the bounds.
  bool MayGoBack() const {
    const ReadBounds* const bounds = options_.bounds;
    return index_ > 0 && (bounds == nullptr || !bounds->lower.has_value() ||
                          comparator_.CompareUserKeys(GuardAt(index_).key, *bounds->lower) > 0);
  }

  void SkipBackward() {
    while (!open_->Valid() && open_->status().ok() && MayGoBack()) {
      size_t next = index_ - 1;
      while (next > 0 && GuardAt(next).tables.empty()) --next;
      Open(next);
      open_->SeekToLast();
    }
    ShowOpen();
  }

  void ShowOpen() {
    if (!open_->Valid()) return Fail(open_->status());
    status_.PermitUncheckedError();
    status_ = Status::OK();
    Show(*open_);
  }

  const InternalKeyComparator comparator_;
  const Level& level_;
  const TableReadOptions options_;
  QueuePairs* const queue_pairs_;

  bool opened_ = false;  // By PrepareSeek(), for the seek that comes next.
  size_t index_ = 0;
  std::unique_ptr<TableIterator> open_;  // Over the guard at index_; null before the first move.
};

}  // namespace

void AddLevelSources(const InternalKeyComparator& comparator, const Level& level,
                     const TableReadOptions& options, QueuePairs* queue_pairs,
                     std::vector<MergingSource>* sources) {
  if (level.guards().empty() && level.sentinel().order == Guard::Order::kByKey) {
    return AddGuardSources(comparator, level.sentinel(), options, queue_pairs, sources);
  }
  std::unique_ptr<TableIterator> guards =
      std::make_unique<LevelIterator>(comparator, level, options, queue_pairs);
  sources->emplace_back(std::move(guards));
}

void AddGuardSources(const InternalKeyComparator& comparator, const Guard& guard,
                     const TableReadOptions& options, QueuePairs* queue_pairs,
                     std::vector<MergingSource>* sources) {
  for (size_t i = 0; i < guard.index->runs(); ++i) {
    sources->emplace_back(OpenRun(comparator, guard.index->Run(i), options, queue_pairs));
  }
}

}  // namespace dlsm
