#include "db/level_iterator.h"

#include <cassert>
#include <utility>
#include <vector>

#include "db/table_runs.h"
#include "table/merging_iterator.h"
#include "table/run_iterator.h"

namespace dlsm {
namespace {

class LevelIterator final : public Iterator {
 public:
  LevelIterator(const InternalKeyComparator& comparator, const Level& level,
                const TableReadOptions& options, QueuePairs* queue_pairs)
      : comparator_(comparator), level_(level), options_(options), queue_pairs_(queue_pairs) {}

  bool Valid() const override { return open_ != nullptr && open_->Valid(); }
  Slice key() const override { return open_->key(); }
  Slice value() const override { return open_->value(); }
  Status status() const override { return open_ == nullptr ? Status::OK() : open_->status(); }

  void SeekToFirst() override {
    Open(0);
    open_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    Open(level_.guards().size());
    open_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& target) override {
    Open(level_.GuardIndexFor(comparator_, ExtractUserKey(target)));
    const std::vector<TableRef>& tables = GuardAt(index_).tables;
    if (tables.size() > 1) tables.back()->CountSeek();
    open_->Seek(target);
    SkipForward();
  }
  void Next() override {
    assert(Valid());
    open_->Next();
    SkipForward();
  }
  void Prev() override {
    assert(Valid());
    open_->Prev();
    SkipBackward();
  }

 private:
  const Guard& GuardAt(size_t index) const {
    return index == 0 ? level_.sentinel() : level_.guards()[index - 1];
  }

  void Open(size_t index) {
    if (open_ != nullptr && index == index_) return;
    open_ = NewGuardIterator(comparator_, GuardAt(index), options_, queue_pairs_);
    index_ = index;
  }

  void SkipForward() {
    while (!open_->Valid() && open_->status().ok() && index_ < level_.guards().size()) {
      size_t next = index_ + 1;
      while (next < level_.guards().size() && GuardAt(next).tables.empty()) ++next;
      Open(next);
      open_->SeekToFirst();
    }
  }

  void SkipBackward() {
    while (!open_->Valid() && open_->status().ok() && index_ > 0) {
      size_t next = index_ - 1;
      while (next > 0 && GuardAt(next).tables.empty()) --next;
      Open(next);
      open_->SeekToLast();
    }
  }

  const InternalKeyComparator comparator_;
  const Level& level_;
  const TableReadOptions options_;
  QueuePairs* const queue_pairs_;

  // The sentinel is 0, the first guard 1. Of the one at index_, unless null.
  size_t index_ = 0;
  std::unique_ptr<Iterator> open_;
};

}  // namespace

std::unique_ptr<Iterator> NewGuardIterator(const InternalKeyComparator& comparator,
                                           const Guard& guard, const TableReadOptions& options,
                                           QueuePairs* queue_pairs) {
  std::vector<std::unique_ptr<Iterator>> sources;
  const auto add_run = [&](const TableRef* first, const TableRef* last) {
    if (last - first == 1) {
      sources.push_back((*first)->reader().NewIterator(options, queue_pairs));
      return;
    }
    TableRun run;
    for (; first != last; ++first) run.push_back(&(*first)->reader());
    sources.push_back(NewRunIterator(comparator, std::move(run), options, queue_pairs));
  };
  const TableRef* const end = guard.tables.data() + guard.tables.size();
  for (const TableRef* first = guard.tables.data(); first != end;) {
    const TableRef* const last = EndOfRun(comparator, first, end);
    add_run(first, last);
    first = last;
  }
  return NewMergingIterator(comparator, std::move(sources));
}

std::unique_ptr<Iterator> NewLevelIterator(const InternalKeyComparator& comparator,
                                           const Level& level, const TableReadOptions& options,
                                           QueuePairs* queue_pairs) {
  const bool one_run = level.sentinel().order == Guard::Order::kByKey;
  if (level.guards().empty() && one_run) {
    return NewGuardIterator(comparator, level.sentinel(), options, queue_pairs);
  }
  return std::make_unique<LevelIterator>(comparator, level, options, queue_pairs);
}

}  // namespace dlsm
