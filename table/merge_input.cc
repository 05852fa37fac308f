#include "table/merge_input.h"

#include <algorithm>
#include <cassert>

#include "table/key_prefix.h"
#include "table/run_iterator.h"

namespace dlsm {

MergeInput::MergeInput(const MergeOptions& options, const std::vector<TableRun>& runs,
                       const TableReadOptions& read_options, QueuePairs* queue_pairs)
    : comparator_(options.table.comparator), prefix_bytes_(CommonPrefixBytes(comparator_, runs)) {
  const LookupKey begin(options.begin, kSequenceNumberMax);
  for (const TableRun& run : runs) {
    if (run.empty()) continue;
    runs_.push_back(
        NewRunIterator(comparator_, RunView{run, nullptr, Slice()}, read_options, queue_pairs));
    if (options.has_begin) {
      runs_.back()->Seek(begin.internal_key());
    } else {
      runs_.back()->SeekToFirst();
    }
    Entry entry{0, runs_.back().get()};
    if (Refresh(&entry)) heap_.push_back(entry);
  }
  for (size_t i = heap_.size() / 2; i-- > 0;) SiftDown(i);
}

size_t MergeInput::CommonPrefixBytes(const InternalKeyComparator& comparator,
                                     const std::vector<TableRun>& runs) {
  if (!comparator.bytewise()) return 0;
  const std::string* any = nullptr;
  size_t common = 0;
  for (const TableRun& run : runs) {
    for (const TableReader* table : run) {
      for (const std::string* key : {&table->meta().smallest, &table->meta().largest}) {
        if (any == nullptr) {
          any = key;
          common = ExtractUserKey(*key).size();
        }
        common = std::min(common, CommonPrefix(ExtractUserKey(*any), ExtractUserKey(*key)));
      }
    }
  }
  return common;
}

// False if the run has ended.
bool MergeInput::Refresh(Entry* entry) {
  if (!entry->run->Valid()) [[unlikely]] {
    if (status_.ok()) status_ = entry->run->status();
    return false;
  }
  if (comparator_.bytewise()) {
    entry->digest = Digest(After(ExtractUserKey(entry->run->key()), prefix_bytes_));
  }
  return true;
}

void MergeInput::Next() {
  assert(Valid());
  Entry& top = heap_.front();
  top.run->Next();
  if (!Refresh(&top)) {
    heap_.front() = heap_.back();
    heap_.pop_back();
  }
  SiftDown(0);
}

bool MergeInput::IsBefore(const Entry& a, const Entry& b) const {
  if (a.digest != b.digest) [[likely]]
    return a.digest < b.digest;
  return comparator_.Compare(a.run->key(), b.run->key()) < 0;
}

void MergeInput::SiftDown(size_t at) {
  const size_t size = heap_.size();
  for (;;) {
    size_t next = 2 * at + 1;
    if (next >= size) return;
    if (next + 1 < size && IsBefore(heap_[next + 1], heap_[next])) ++next;
    if (!IsBefore(heap_[next], heap_[at])) return;
    std::swap(heap_[next], heap_[at]);
    at = next;
  }
}

}  // namespace dlsm
