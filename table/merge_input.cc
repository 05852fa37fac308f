#include "table/merge_input.h"

#include <algorithm>
#include <bit>
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
    Refresh(&heads_.emplace_back(Head{0, runs_.back().get()}));
  }
  const size_t leaves = std::bit_ceil(heads_.size());
  heads_.resize(leaves);
  winners_.resize(2 * leaves);
  for (size_t i = 0; i < leaves; ++i) winners_[leaves + i] = static_cast<uint32_t>(i);
  for (size_t leaf = leaves; leaf < 2 * leaves; ++leaf) PlayFrom(leaf / 2);
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

void MergeInput::Refresh(Head* head) {
  if (!head->run->Valid()) [[unlikely]] {
    if (status_.ok()) status_ = head->run->status();
    *head = Head();
  } else if (comparator_.bytewise()) {
    head->digest = Digest(After(ExtractUserKey(head->run->key()), prefix_bytes_));
  }
}

void MergeInput::Next() {
  assert(Valid());
  const size_t leaf = winners_.size() / 2 + winners_[1];
  first_->Next();
  Refresh(&heads_[winners_[leaf]]);
  PlayFrom(leaf / 2);
}

// Where digests are equal.
bool MergeInput::IsBefore(const Head& a, const Head& b) const {
  if (a.run == nullptr || b.run == nullptr) return a.run != nullptr;
  return comparator_.Compare(a.run->key(), b.run->key()) < 0;
}

// From `node` to the root.
void MergeInput::PlayFrom(size_t node) {
  const Head* const heads = heads_.data();
  uint32_t* const winners = winners_.data();
  for (; node > 0; node /= 2) {
    const Head& left = heads[winners[2 * node]];
    const Head& right = heads[winners[2 * node + 1]];
    bool right_is_first = right.digest < left.digest;
    if (right.digest == left.digest) [[unlikely]]
      right_is_first = IsBefore(right, left);
    winners[node] = winners[2 * node + (right_is_first ? 1 : 0)];
  }
  first_ = heads[winners[1]].run;
}

}  // namespace dlsm
