#include "table/run_iterator.h"

#include <cassert>
#include <utility>

namespace dlsm {
namespace {

class RunIterator final : public TableIterator {
 public:
  RunIterator(const InternalKeyComparator& comparator, const RunView& run,
              const TableReadOptions& options, QueuePairs* queue_pairs)
      : comparator_(comparator), run_(run), options_(options), queue_pairs_(queue_pairs) {}

  void SeekToFirst() override {
    Open(0);
    if (table_ != nullptr) table_->SeekToFirst();
    SkipForward();
  }

  void SeekToLast() override {
    Open(run_.tables.size() - 1);
    if (table_ != nullptr) table_->SeekToLast();
    SkipBackward();
  }

  void Seek(const Slice& target) override {
    if (!opened_) OpenFor(target);
    opened_ = false;
    if (table_ != nullptr) table_->Seek(target);
    SkipForward();
  }

  void PrepareSeek(const Slice& target) override {
    if (!opened_) OpenFor(target);
    opened_ = true;
    if (table_ != nullptr) table_->PrepareSeek(target);
  }

  void Next() override {
    assert(Valid());
    table_->Next();
    if (table_->Valid() && status_.ok()) [[likely]] {
      Show(*table_);
    } else {
      SkipForward();
    }
  }

  Status CheckPlace() override {
    const std::unique_ptr<TableIterator>& place = table_ != nullptr ? table_ : ended_;
    return place == nullptr ? Status::OK() : place->CheckPlace();
  }
  InternalIterator* Sole() override { return table_->Sole(); }
  void SoleEnded() override {
    table_->SoleEnded();
    SkipForward();
  }

  void Prev() override {
    assert(Valid());
    table_->Prev();
    if (table_->Valid()) [[likely]] {
      ShowTable();
    } else {
      SkipBackward();
    }
  }

 private:
  // The first table that does not end before `target`.
  void OpenFor(const Slice& target) { Open(run_.FirstNotBefore(comparator_, target)); }

  // An index beyond the run closes. (The one before 0 wraps around to beyond it.)
  void Open(size_t index) {
    opened_ = false;
    ended_.reset();
    if (index >= run_.tables.size()) {
      Invalidate();
      table_.reset();
      open_ = nullptr;
    } else if (table_ == nullptr || open_ != run_.tables[index] || !table_->status().ok()) {
      // One that has failed may have nothing to go on with.
      Invalidate();
      open_ = run_.tables[index];
      table_ = open_->NewIterator(options_, queue_pairs_);
    }
    index_ = index;
  }

  // Apart from Next(), which mostly does not need it. Who steps on may still look at the key that
  // it has left, in place, to pass its older versions.
  [[gnu::noinline]] void SkipForward() {
    while (table_ != nullptr && !table_->Valid() && table_->status().ok()) {
      std::unique_ptr<TableIterator> left = std::move(table_);
      Open(index_ + 1);
      if (table_ != nullptr) table_->SeekToFirst();
      Status place = left->CheckPlace();
      if (!place.ok()) [[unlikely]]
        return Fail(std::move(place));
      if (table_ == nullptr) ended_ = std::move(left);
    }
    ShowTable();
  }

  void SkipBackward() {
    while (table_ != nullptr && !table_->Valid() && table_->status().ok()) {
      Open(index_ - 1);
      if (table_ != nullptr) table_->SeekToLast();
    }
    ShowTable();
  }

  void ShowTable() {
    if (table_ == nullptr) {
      status_.PermitUncheckedError();
      status_ = Status::OK();
      return Invalidate();
    }
    if (!table_->Valid()) return Fail(table_->status());
    if (!status_.ok()) [[unlikely]]
      status_ = Status::OK();  // Of a move before.
    Show(*table_);
  }

  const InternalKeyComparator comparator_;
  const RunView run_;
  const TableReadOptions options_;
  QueuePairs* const queue_pairs_;

  bool opened_ = false;  // By PrepareSeek(), for the seek that comes next.
  size_t index_ = 0;
  const TableReader* open_ = nullptr;  // Whose iterator table_ is.
  std::unique_ptr<TableIterator> table_;
  // The last one, once the run has ended there: it is asked for its place while others go on.
  std::unique_ptr<TableIterator> ended_;
};

}  // namespace

std::unique_ptr<TableIterator> NewRunIterator(const InternalKeyComparator& comparator,
                                              const RunView& run, const TableReadOptions& options,
                                              QueuePairs* queue_pairs) {
  return std::make_unique<RunIterator>(comparator, run, options, queue_pairs);
}

}  // namespace dlsm
