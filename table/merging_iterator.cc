#include "table/merging_iterator.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <string>
#include <utility>

#include "table/key_prefix.h"
#include "table/table_reader.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A heap of the sources that are valid, the next one on top: the smallest key when moving forward,
// the largest when moving backward. Beside each source lie the eight bytes of its user key that
// follow what all keys in the heap have in common, so that few comparisons look at keys.
class MergingIterator final : public TableIterator {
 public:
  MergingIterator(const InternalKeyComparator& comparator, std::vector<MergingSource> sources,
                  const QueuePairs* queue_pairs)
      : comparator_(comparator),
        sources_(std::move(sources)),
        lost_nodes_(queue_pairs == nullptr ? nullptr : &queue_pairs->LostNodes()) {
    heap_.reserve(sources_.size());
  }

  void SeekToFirst() override {
    Restart(/*forward=*/true, [](InternalIterator& source) { source.SeekToFirst(); });
  }
  void SeekToLast() override {
    Restart(/*forward=*/false, [](InternalIterator& source) { source.SeekToLast(); });
  }
  void Seek(const Slice& target) override {
    if (!prepared_) {
      for (int step = 0; step < 3; ++step) PrepareSeek(target);
    }
    Restart(/*forward=*/true, [&target](InternalIterator& source) { source.Seek(target); });
  }

  void PrepareSeek(const Slice& target) override {
    for (const MergingSource& source : sources_) {
      if (source.table != nullptr) source.table->PrepareSeek(target);
    }
    prepared_ = true;
  }

  void Next() override {
    assert(Valid());
    if (!forward_) [[unlikely]]
      TurnForward();
    heap_.front().source->Next();
    Settle();
  }

  // Sources that have ended before are nobody's place any more.
  Status CheckPlace() override {
    for (const MergingSource& source : sources_) {
      const bool is_place =
          heap_.empty() ? source.iterator.get() == ended_ : source.iterator->Valid();
      if (is_place && source.table != nullptr) DLSM_RETURN_IF_ERROR(source.table->CheckPlace());
    }
    return Status::OK();
  }

  InternalIterator* Sole() override {
    return forward_ && heap_.size() == 1 ? heap_.front().source->Sole() : nullptr;
  }
  void SoleEnded() override {
    InternalIterator* const source = heap_.front().source;
    source->SoleEnded();
    if (!source->Valid()) {
      KeepError(*source);
      ended_ = source;
      heap_.clear();
    }
    ShowTop();
  }

  void Prev() override {
    assert(Valid());
    if (forward_) [[unlikely]]
      TurnBackward();
    heap_.front().source->Prev();
    Settle();
  }

 private:
  struct Entry {
    uint64_t digest;
    InternalIterator* source;
  };

  bool IsBefore(const Entry& a, const Entry& b) const {
    if (a.digest != b.digest) [[likely]]
      return (a.digest < b.digest) == forward_;
    const int order = comparator_.Compare(a.source->key(), b.source->key());
    return forward_ ? order < 0 : order > 0;
  }

  // From the last to the first: the wait for the read that was posted last ends all other waits.
  template <typename Move>
  void Restart(bool forward, Move move) {
    forward_ = forward;
    prepared_ = false;
    status_.PermitUncheckedError();
    status_ = Status::OK();
    heap_.clear();
    ended_ = nullptr;
    for (auto source = sources_.rbegin(); source != sources_.rend(); ++source) {
      move(*source->iterator);
      Admit(source->iterator.get());
    }
    Rebuild();
  }

  // The sources but the current one stand behind the current key: move them before it. Keys are
  // unique, so none of them stands at it. A memtable may be written to meanwhile: what has come in
  // between the two moves may lie behind the current key, too.
  void TurnBackward() {
    Turn(/*forward=*/false, [this](InternalIterator& source, const Slice& current) {
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
    Turn(/*forward=*/true,
         [](InternalIterator& source, const Slice& current) { source.Seek(current); });
  }

  // The current source stays on top: no other's key is between.
  template <typename Move>
  void Turn(bool forward, Move move) {
    InternalIterator* const current = heap_.front().source;
    forward_ = forward;
    heap_.clear();
    heap_.push_back({0, current});
    for (const MergingSource& source : sources_) {
      InternalIterator* const iterator = source.iterator.get();
      if (iterator == current) continue;
      move(*iterator, current->key());
      Admit(iterator);
    }
    Rebuild();
  }

  void Admit(InternalIterator* source) {
    if (source->Valid()) {
      heap_.push_back({0, source});
    } else {
      KeepError(*source);
    }
  }

  void KeepError(const InternalIterator& source) {
    if (status_.ok()) status_ = source.status();
    status_.PermitUncheckedError();  // It is there for who asks.
  }

  // The top has moved.
  void Settle() {
    Entry& top = heap_.front();
    if (!top.source->Valid()) [[unlikely]] {
      KeepError(*top.source);
      ended_ = top.source;
      top = heap_.back();
      heap_.pop_back();
    } else if (heap_.size() > 1) {
      Refresh(&top);
    }
    SiftDown(0);
    ShowTop();
  }

  void ShowTop() {
    if (lost_nodes_ != nullptr) {
      const uint32_t lost = lost_nodes_->load(std::memory_order_acquire);
      if (lost != lost_seen_) [[unlikely]]
        LookAtPlaces(lost);
    }
    if (heap_.empty() || !status_.ok()) [[unlikely]]
      return Invalidate();
    Show(*heap_.front().source);
  }

  // Sources may have stood where they stand for long.
  [[gnu::noinline]] void LookAtPlaces(uint32_t lost) {
    lost_seen_ = lost;
    Status status = CheckPlace();
    if (!status.ok() && status_.ok()) status_ = std::move(status);
    status_.PermitUncheckedError();  // It is there for who asks.
  }

  void Rebuild() {
    DigestKeys();
    for (size_t i = heap_.size() / 2; i-- > 0;) SiftDown(i);
    ShowTop();
  }

  // Finds what all keys have in common, and each one's digest behind that. The order of the entries
  // does not change by it.
  void DigestKeys() {
    if (!comparator_.bytewise() || heap_.size() < 2) return;
    const Slice first = ExtractUserKey(heap_.front().source->key());
    size_t common = first.size();
    for (const Entry& entry : heap_) {
      const Slice other = ExtractUserKey(entry.source->key());
      common = CommonPrefix(first.data(), other.data(), std::min(common, other.size()));
    }
    common_.assign(first.data(), common);
    for (Entry& entry : heap_) entry.digest = DigestOf(entry);
  }

  uint64_t DigestOf(const Entry& entry) const {
    return Digest(After(ExtractUserKey(entry.source->key()), common_.size()));
  }

  void Refresh(Entry* entry) {
    if (!comparator_.bytewise()) return;
    const Slice key = ExtractUserKey(entry->source->key());
    if (CommonPrefix(key, common_) == common_.size()) [[likely]] {
      entry->digest = Digest(After(key, common_.size()));
    } else {
      DigestKeys();
    }
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
  const std::vector<MergingSource> sources_;
  const std::atomic<uint32_t>* const lost_nodes_;  // Null: nothing is read in place.
  uint32_t lost_seen_ = 0;                         // Of these, when places were looked at last.
  // Digests are kept while there are two entries at least; all zero if the order is not bytewise.
  std::vector<Entry> heap_;
  // The last source that has ended by a step.
  const InternalIterator* ended_ = nullptr;
  std::string common_;  // What all user keys in the heap begin with.
  bool forward_ = true;
  bool prepared_ = false;  // For the seek that comes next.
  // status_ is the first error; the iterator ends there, so that nothing is passed over.
};

}  // namespace

std::unique_ptr<InternalIterator> NewMergingIterator(const InternalKeyComparator& comparator,
                                                     std::vector<MergingSource> sources,
                                                     const QueuePairs* queue_pairs) {
  if (sources.size() == 1) return std::move(sources.front().iterator);
  return std::make_unique<MergingIterator>(comparator, std::move(sources), queue_pairs);
}

std::unique_ptr<TableIterator> NewMergingTableIterator(const InternalKeyComparator& comparator,
                                                       std::vector<MergingSource> tables,
                                                       const QueuePairs* queue_pairs) {
  return std::make_unique<MergingIterator>(comparator, std::move(tables), queue_pairs);
}

}  // namespace dlsm
