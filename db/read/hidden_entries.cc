#include "db/read/hidden_entries.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

class UnhiddenIterator final : public InternalIterator {
 public:
  // `of_memtables` may have no fragments, `of_tables` may be null.
  UnhiddenIterator(const InternalKeyComparator& comparator, std::vector<RangeFragment> of_memtables,
                   std::shared_ptr<const RangeTombstones> of_tables, SequenceNumber sequence,
                   std::unique_ptr<InternalIterator> entries)
      : sequence_(sequence),
        of_memtables_(comparator, std::move(of_memtables)),
        of_tables_(std::move(of_tables)),
        in_memtables_(comparator, of_memtables_),
        entries_(std::move(entries)) {
    if (of_tables_ != nullptr) in_tables_.emplace(comparator, *of_tables_);
  }

  Status status() const override { return entries_->status(); }
  Status CheckPlace() override { return entries_->CheckPlace(); }
  InternalIterator* Sole() override { return nullptr; }

  void SeekToFirst() override {
    entries_->SeekToFirst();
    PassForward();
  }
  void SeekToLast() override {
    entries_->SeekToLast();
    PassBackward();
  }
  void Seek(const Slice& target) override {
    entries_->Seek(target);
    PassForward();
  }
  void Next() override {
    entries_->Next();
    PassForward();
  }
  void Prev() override {
    entries_->Prev();
    PassBackward();
  }

 private:
  void PassForward() {
    while (AtHidden()) entries_->Next();
    ShowEntry();
  }
  void PassBackward() {
    while (AtHidden()) entries_->Prev();
    ShowEntry();
  }
  // Not as stable: a step may pass through many tables, and be too late to say that the memory of
  // the first was lost meanwhile. So the reader copies the keys that it goes on to use.
  void ShowEntry() {
    if (!entries_->Valid()) return Invalidate();
    entry_ = {entries_->key(), entries_->value(), Slice(), /*stable=*/false};
    Show(&entry_);
  }

  bool AtHidden() {
    if (!entries_->Valid()) return false;
    const Slice key = entries_->key();
    if (!IsValidInternalKey(key)) return false;  // It is for the reader to say so.
    const Slice user_key = ExtractUserKey(key);
    SequenceNumber newest = NewestOf(in_memtables_.At(user_key), sequence_);
    if (in_tables_.has_value()) {
      newest = std::max(newest, NewestOf(in_tables_->At(user_key), sequence_));
    }
    return TrailerSequence(ExtractTrailer(key)) < newest;
  }

  const SequenceNumber sequence_;
  const RangeTombstones of_memtables_;
  const std::shared_ptr<const RangeTombstones> of_tables_;
  RangeTombstoneCursor in_memtables_;
  std::optional<RangeTombstoneCursor> in_tables_;
  const std::unique_ptr<InternalIterator> entries_;
  Entry entry_;
};

}  // namespace

std::unique_ptr<InternalIterator> WithoutHidden(const InternalKeyComparator& comparator,
                                                const ReadView& view, SequenceNumber sequence,
                                                std::unique_ptr<InternalIterator> entries) {
  std::vector<RangeTombstone> of_memtables = view.active->ranges().List(sequence);
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    std::vector<RangeTombstone> more = memtable->ranges().List(sequence);
    std::move(more.begin(), more.end(), std::back_inserter(of_memtables));
  }
  std::vector<RangeFragment> fragments =
      RangeTombstones::Fragments(comparator, /*older=*/nullptr, std::move(of_memtables),
                                 /*snapshots=*/{});
  if (fragments.empty() && view.version->tombstones() == nullptr) return entries;
  return std::make_unique<UnhiddenIterator>(
      comparator, std::move(fragments), view.version->tombstones(), sequence, std::move(entries));
}

}  // namespace dlsm
