// Walks through a memtable's tree: a cursor has a copy of the leaf that it is in, so that writers
// change nothing under it.
#include <algorithm>
#include <cassert>
#include <cstddef>

#include "db/memtable/memtable_tree.h"
#include "db/memtable/memtable_tree_nodes.h"
#include "port/cpu.h"

namespace dlsm {

void MemtableTree::Cursor::CopyLeaf(const Leaf* leaf) {
  while (!TryCopyLeaf(leaf, leaf->ReadVersion())) {
  }
}

bool MemtableTree::Cursor::TryCopyLeaf(const Leaf* leaf, uint64_t version) {
  const uint32_t count = leaf->Count();
  for (uint32_t i = 0; i < count; ++i) records_[i] = leaf->RecordAt(i);
  next_ = leaf->next.load(std::memory_order_acquire);
  count_ = count;
  return leaf->Unchanged(version);
}

void MemtableTree::Cursor::Position(const Slice& internal_key, bool before) {
  SearchKey key = tree_->MakeSearchKey(internal_key);
  while (true) {
    uint64_t version;
    const Leaf* leaf = tree_->FindLeaf(&key, before, &version);
    bool exact;
    position_ = tree_->LowerBound(*leaf, leaf->Count(), key, &exact);
    if (TryCopyLeaf(leaf, version)) break;
  }
}

void MemtableTree::Cursor::Seek(const Slice& internal_key) {
  Position(internal_key, /*before=*/false);
  if (position_ == count_) NextLeaf();
}

void MemtableTree::Cursor::SeekBefore(const Slice& internal_key) {
  Position(internal_key, /*before=*/true);
  // A leaf's separator is its first record, so only the first leaf can have none before the key.
  if (position_ == 0) {
    count_ = 0;
  } else {
    --position_;
  }
}

void MemtableTree::Cursor::SeekToFirst() {
  CopyLeaf(tree_->FirstLeaf());
  position_ = 0;
}

void MemtableTree::Cursor::SeekToLast() {
  while (true) {
    const Node* node = tree_->root_.load(std::memory_order_acquire);
    uint64_t version = node->ReadVersion();
    while (node != nullptr && !node->leaf) {
      const auto* inner = static_cast<const Inner*>(node);
      const Node* last = inner->children[inner->Count()].load(std::memory_order_acquire);
      node = inner->Unchanged(version) ? last : nullptr;
      if (node != nullptr) version = node->ReadVersion();
    }
    if (node == nullptr) continue;
    const auto* leaf = static_cast<const Leaf*>(node);
    if (TryCopyLeaf(leaf, version) && next_ == nullptr) break;  // Else it was split meanwhile.
  }
  position_ = count_ == 0 ? 0 : count_ - 1;
}

void MemtableTree::Cursor::NextLeaf() {
  position_ = 0;
  count_ = 0;
  if (next_ != nullptr) CopyLeaf(next_);
}

void MemtableTree::Cursor::Next() {
  assert(Valid());
  if (++position_ == count_) NextLeaf();
}

// The record so many steps ahead, if it is known; only a hint, as the next leaf may change.
RecordPointer MemtableTree::Cursor::Peek(uint32_t ahead) const {
  const uint32_t i = position_ + ahead;
  if (i < count_) return records_[i];
  if (next_ == nullptr || i - count_ >= next_->Count()) return RecordPointer();
  return next_->RecordAt(i - count_);
}

void MemtableTree::Cursor::PrefetchAhead() const {
  constexpr uint32_t kFirstLine = 16;
  constexpr uint32_t kWhole = 8;
  constexpr ptrdiff_t kBytesMax = 2048;  // The processor itself goes on from there.
  if (position_ == 0 && next_ != nullptr) next_->Prefetch();
  if (const RecordPointer far = Peek(kFirstLine); !far.null()) port::PrefetchRead(far.data());
  const RecordPointer near = Peek(kWhole);
  if (near.null()) return;
  Slice internal_key;
  Slice value;
  near.Parse(&internal_key, &value);
  const char* const begin = near.data();
  const char* const end = begin + std::min(value.data() + value.size() - begin, kBytesMax);
  for (const char* at = begin + port::kCacheLineBytes; at < end; at += port::kCacheLineBytes) {
    port::PrefetchRead(at);
  }
}

void MemtableTree::Cursor::Prev() {
  assert(Valid());
  if (position_ > 0) {
    --position_;
  } else {
    SeekBefore(record().InternalKey());
  }
}

}  // namespace dlsm
