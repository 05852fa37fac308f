#include "table/merging_iterator.h"

#include <cassert>
#include <utility>

namespace dlsm {
namespace {

// A heap of the sources that are valid, the next one on top: the smallest key when moving forward,
// the largest when moving backward. Each source's key is kept beside it, so that comparisons make
// no virtual calls.
class MergingIterator final : public Iterator {
 public:
  MergingIterator(const InternalKeyComparator& comparator, std::vector<MergingSource> sources)
      : comparator_(comparator) {
    for (MergingSource& source : sources) {
      if (source.table != nullptr) tables_.push_back(source.table);
      sources_.push_back(Source{std::move(source.iterator), Slice()});
    }
    heap_.reserve(sources_.size());
  }

  bool Valid() const override { return !heap_.empty() && status_.ok(); }
  Slice key() const override { return heap_.front()->key; }
  Slice value() const override { return heap_.front()->iterator->value(); }
  Status status() const override { return status_; }

  void SeekToFirst() override {
    Restart(/*forward=*/true, [](Iterator& source) { source.SeekToFirst(); });
  }
  void SeekToLast() override {
    Restart(/*forward=*/false, [](Iterator& source) { source.SeekToLast(); });
  }
  void Seek(const Slice& target) override {
    PrepareSeek(target);
    Restart(/*forward=*/true, [&target](Iterator& source) { source.Seek(target); });
  }

  void Next() override {
    assert(Valid());
    if (!forward_) TurnForward();
    heap_.front()->iterator->Next();
    Settle();
  }

  void Prev() override {
    assert(Valid());
    if (forward_) TurnBackward();
    heap_.front()->iterator->Prev();
    Settle();
  }

 private:
  struct Source {
    std::unique_ptr<Iterator> iterator;
    Slice key;  // While the iterator is valid.
  };

  bool IsBefore(const Source* a, const Source* b) const {
    const int order = comparator_.Compare(a->key, b->key);
    return forward_ ? order < 0 : order > 0;
  }

  void PrepareSeek(const Slice& target) {
    if (tables_.size() < 2) return;
    for (TableIterator* table : tables_) table->PrepareSeek(target);
  }

  // From the last to the first: the wait for the read that was posted last ends all other waits.
  template <typename Move>
  void Restart(bool forward, Move move) {
    forward_ = forward;
    status_.PermitUncheckedError();
    status_ = Status::OK();
    heap_.clear();
    for (auto source = sources_.rbegin(); source != sources_.rend(); ++source) {
      move(*source->iterator);
      Admit(&*source);
    }
    Rebuild();
  }

  // The sources but the current one stand behind the current key: move them before it. Keys are
  // unique, so none of them stands at it. A memtable may be written to meanwhile: what has come in
  // between the two moves may lie behind the current key, too.
  void TurnBackward() {
    Turn(/*forward=*/false, [this](Iterator& source, const Slice& current) {
      source.Seek(current);
      if (source.Valid()) {
        source.Prev();
      } else if (source.status().ok()) {
        source.SeekToLast();
      }
      while (source.Valid() && comparator_.Compare(source.key(), current) > 0) source.Prev();
    });
  }

  void TurnForward() {
    Turn(/*forward=*/true, [](Iterator& source, const Slice& current) { source.Seek(current); });
  }

  template <typename Move>
  void Turn(bool forward, Move move) {
    Source* const current = heap_.front();
    forward_ = forward;
    heap_.clear();
    heap_.push_back(current);
    for (Source& source : sources_) {
      if (&source == current) continue;
      move(*source.iterator, current->key);
      Admit(&source);
    }
    Rebuild();
  }

  void Admit(Source* source) {
    if (source->iterator->Valid()) {
      source->key = source->iterator->key();
      heap_.push_back(source);
    } else if (status_.ok()) {
      status_ = source->iterator->status();
      status_.PermitUncheckedError();  // It is there for who asks.
    }
  }

  // The top has moved.
  void Settle() {
    Source* const top = heap_.front();
    if (top->iterator->Valid()) [[likely]] {
      top->key = top->iterator->key();
    } else {
      if (status_.ok()) status_ = top->iterator->status();
      status_.PermitUncheckedError();  // It is there for who asks.
      heap_.front() = heap_.back();
      heap_.pop_back();
    }
    SiftDown(0);
  }

  void Rebuild() {
    for (size_t i = heap_.size() / 2; i-- > 0;) SiftDown(i);
  }

  void SiftDown(size_t at) {
    const size_t size = heap_.size();
    while (true) {
      size_t next = 2 * at + 1;
      if (next >= size) return;
      if (next + 1 < size && IsBefore(heap_[next + 1], heap_[next])) ++next;
      if (!IsBefore(heap_[next], heap_[at])) return;
      std::swap(heap_[next], heap_[at]);
      at = next;
    }
  }

  const InternalKeyComparator comparator_;
  std::vector<Source> sources_;
  std::vector<TableIterator*> tables_;  // Those of the sources that are tables'.
  std::vector<Source*> heap_;
  bool forward_ = true;
  Status status_;  // The first error; the iterator ends there, so that nothing is passed over.
};

}  // namespace

std::unique_ptr<Iterator> NewMergingIterator(const InternalKeyComparator& comparator,
                                             std::vector<MergingSource> sources) {
  if (sources.empty()) return std::unique_ptr<Iterator>(NewEmptyIterator());
  if (sources.size() == 1) return std::move(sources.front().iterator);
  return std::make_unique<MergingIterator>(comparator, std::move(sources));
}

}  // namespace dlsm
