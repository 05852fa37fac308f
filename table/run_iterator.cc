#include "table/run_iterator.h"

#include <cassert>
#include <utility>

#include "table/read_bounds.h"

namespace dlsm {
namespace {

class RunIterator final : public TableIterator {
 public:
  RunIterator(const InternalKeyComparator& comparator, const RunView& run,
              const TableReadOptions& options, QueuePairs* queue_pairs)
      : comparator_(comparator), run_(run), options_(options), queue_pairs_(queue_pairs) {}

  void SeekToFirst() override {
    OpenForward(0);
    if (table_ != nullptr) table_->SeekToFirst();
    SkipForward();
  }

  void SeekToLast() override {
    OpenBackward(LastWithinBounds());
    ToLastOfTable();
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
  void OpenFor(const Slice& target) { OpenForward(run_.FirstNotBefore(comparator_, target)); }

  // A table that is out of bounds ends the run as its end does.
  void OpenForward(size_t index) { Open(IsBehindBounds(index) ? run_.tables.size() : index); }
  void OpenBackward(size_t index) { Open(IsBeforeBounds(index) ? run_.tables.size() : index); }

  bool IsBehindBounds(size_t index) const {
    return index < run_.tables.size() && options_.bounds != nullptr &&
           options_.bounds->upper.has_value() &&
           comparator_.CompareUserKeys(ExtractUserKey(run_.tables[index]->meta().smallest),
                                       *options_.bounds->upper) >= 0;
  }
  bool IsBeforeBounds(size_t index) const {
    return index < run_.tables.size() && options_.bounds != nullptr &&
           options_.bounds->lower.has_value() &&
           comparator_.CompareUserKeys(ExtractUserKey(run_.tables[index]->meta().largest),
                                       *options_.bounds->lower) < 0;
  }
  // Beyond the run if there is none.
  size_t LastWithinBounds() const {
    if (options_.bounds == nullptr || !options_.bounds->upper.has_value()) {
      return run_.tables.size() - 1;
    }
    const LookupKey upper(*options_.bounds->upper, kSequenceNumberMax);
    const size_t reaches = run_.FirstNotBefore(comparator_, upper.internal_key());
    return reaches == run_.tables.size() || IsBehindBounds(reaches) ? reaches - 1 : reaches;
  }
  // What the table knows of its bounds may be off by some entries.
  void ToLastOfTable() {
    if (table_ == nullptr) return;
    table_->SeekToLast();
    if (options_.bounds == nullptr || !options_.bounds->upper.has_value()) return;
    while (table_->Valid() && comparator_.CompareUserKeys(ExtractUserKey(table_->key()),
                                                          *options_.bounds->upper) >= 0) {
      table_->Prev();
    }
  }

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
      OpenForward(index_ + 1);
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
      OpenBackward(index_ - 1);
      ToLastOfTable();
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
