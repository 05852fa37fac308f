#include "db/memtable/memtable_tree.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "db/memtable/memtable_tree_nodes.h"
#include "table/key_prefix.h"
#include "util/coding.h"

namespace dlsm {

size_t MemtableRecordBytes(size_t internal_key_bytes, size_t value_bytes) {
  return VarintBytes(internal_key_bytes) + VarintBytes(value_bytes) + internal_key_bytes +
         value_bytes;
}

void WriteMemtableRecord(char* to, const Slice& user_key, uint64_t trailer, const Slice& value) {
  to = EncodeVarint32(to, static_cast<uint32_t>(user_key.size() + kTrailerBytes));
  to = EncodeVarint32(to, static_cast<uint32_t>(value.size()));
  if (!user_key.empty()) std::memcpy(to, user_key.data(), user_key.size());
  to += user_key.size();
  EncodeFixed64(to, trailer);
  if (!value.empty()) std::memcpy(to + kTrailerBytes, value.data(), value.size());
}

MemtableTree::MemtableTree(const InternalKeyComparator& comparator, Arena* arena,
                           const Slice& prefix_guess)
    : comparator_(comparator), arena_(arena), prefix_(Prefix::New(arena, prefix_guess)) {
  root_.store(new (arena_->AllocateAligned(sizeof(Leaf))) Leaf(), std::memory_order_release);
}

// Never decreases along the order of keys, so unequal digests decide a comparison.
uint64_t MemtableTree::Digest(const Prefix& prefix, const Slice& user_key) const {
  if (!comparator_.bytewise()) return 0;
  const Slice expected = prefix.bytes();
  const size_t common = std::min(expected.size(), user_key.size());
  const int order = common == 0 ? 0 : std::memcmp(user_key.data(), expected.data(), common);
  if (order < 0 || (order == 0 && user_key.size() < expected.size())) return 0;
  if (order > 0) return UINT64_MAX;
  return dlsm::Digest(After(user_key, expected.size()));
}

MemtableTree::SearchKey MemtableTree::MakeSearchKey(const Slice& internal_key) const {
  const Prefix* prefix = prefix_.load(std::memory_order_acquire);
  return SearchKey{internal_key, prefix, Digest(*prefix, ExtractUserKey(internal_key))};
}

// How many of the node's digests are below `digest`. Loads do not wait for each other, as in a
// binary search, and no branch depends on a key: a quarter of the node is chosen by the last
// digests of the others, and there all are looked at.
uint32_t MemtableTree::CountBelow(const Node& node, uint64_t digest) {
  constexpr uint32_t kPart = 8;
  static_assert(kFanout % kPart == 0);
  uint32_t first = 0;
  for (uint32_t last = kPart - 1; last < kFanout - 1; last += kPart) {
    first += node.DigestAt(last) < digest ? kPart : 0;
  }
  uint32_t below = first;
  for (uint32_t i = 0; i < kPart; ++i) below += node.DigestAt(first + i) < digest ? 1 : 0;
  return below;
}

// The first position whose record is at or after the key; *exact: it is the key.
uint32_t MemtableTree::LowerBound(const Node& node, uint32_t count, const SearchKey& key,
                                  bool* exact) const {
  *exact = false;
  // While a writer changes the node this may be beyond `count`, too: the caller will find out.
  uint32_t low = std::min(CountBelow(node, key.digest), count);
  if (low == count || node.DigestAt(low) != key.digest) [[likely]]
    return low;
  // Where digests are equal, records decide.
  uint32_t high = count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    int order = node.DigestAt(middle) > key.digest ? 1 : 0;
    if (order == 0)
      order = comparator_.Compare(node.RecordAt(middle).InternalKey(), key.internal_key);
    if (order == 0) {
      *exact = true;
      return middle;
    }
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The leaf that holds the first record at or after the key if that is not in a leaf behind it;
// `strictly_before`: the leaf that holds the last record before the key, if there is one. What the
// caller reads there is good if the leaf is unchanged since *version.
const MemtableTree::Leaf* MemtableTree::FindLeaf(SearchKey* key, bool strictly_before,
                                                 uint64_t* version) const {
  while (true) {
    const Node* node = root_.load(std::memory_order_acquire);
    uint64_t seen = node->ReadVersion();
    if (root_.load(std::memory_order_acquire) != node) continue;
    // The prefix changes only while the root is a locked leaf; if so later, its version tells.
    if (prefix_.load(std::memory_order_acquire) != key->prefix)
      *key = MakeSearchKey(key->internal_key);
    while (node != nullptr && !node->leaf) node = Descend(*node, *key, strictly_before, &seen);
    if (node == nullptr) continue;
    *version = seen;
    return static_cast<const Leaf*>(node);
  }
}

// One step down from `node`, which had version *seen; nullptr if it has changed.
const MemtableTree::Node* MemtableTree::Descend(const Node& node, const SearchKey& key,
                                                bool strictly_before, uint64_t* seen) const {
  const auto& inner = static_cast<const Inner&>(node);
  bool exact;
  uint32_t child = LowerBound(node, node.Count(), key, &exact);
  if (exact && !strictly_before) ++child;
  const Node* next = inner.children[child].load(std::memory_order_acquire);
  if (!node.Unchanged(*seen)) return nullptr;
  next->Prefetch();
  const uint64_t next_seen = next->ReadVersion();
  if (!node.Unchanged(*seen)) return nullptr;  // `next` may have been split before we read it.
  *seen = next_seen;
  return next;
}

RecordPointer MemtableTree::FirstAtOrAfter(const Slice& internal_key) const {
  SearchKey key = MakeSearchKey(internal_key);
  while (true) {
    uint64_t version;
    const Leaf* leaf = FindLeaf(&key, /*strictly_before=*/false, &version);
    bool exact;
    const uint32_t count = leaf->Count();
    const uint32_t position = LowerBound(*leaf, count, key, &exact);
    if (position < count) {
      const RecordPointer record = leaf->RecordAt(position);
      if (leaf->Unchanged(version)) return record;
      continue;
    }
    const Leaf* next = leaf->next.load(std::memory_order_acquire);
    if (!leaf->Unchanged(version)) continue;
    if (next == nullptr) return RecordPointer();
    const uint64_t next_version = next->ReadVersion();
    const RecordPointer record = next->RecordAt(0);  // Leaves behind the first are never empty.
    if (next->Unchanged(next_version) && leaf->Unchanged(version)) return record;
  }
}

bool MemtableTree::Empty() const {
  const Node* root = root_.load(std::memory_order_acquire);
  return root->leaf && root->Count() == 0;
}

void MemtableTree::Insert(RecordPointer record) {
  SearchKey key = MakeSearchKey(record.InternalKey());
  while (!TryInsert(record, &key)) {
  }
}

// False if another writer was in the way, or a node had to be split: to be tried again.
bool MemtableTree::TryInsert(RecordPointer record, SearchKey* key) {
  Inner* parent = nullptr;
  uint64_t parent_version = 0;
  Node* node = root_.load(std::memory_order_acquire);
  uint64_t version = node->ReadVersion();
  if (root_.load(std::memory_order_acquire) != node) return false;
  if (prefix_.load(std::memory_order_acquire) != key->prefix)
    *key = MakeSearchKey(key->internal_key);
  while (true) {
    if (node->Count() == kFanout) {
      SplitNode(parent, parent_version, node, version, *key);
      return false;
    }
    if (node->leaf) break;
    uint64_t child_version = version;
    const Node* child = Descend(*node, *key, /*strictly_before=*/false, &child_version);
    if (child == nullptr) return false;
    parent = static_cast<Inner*>(node);
    parent_version = version;
    node = const_cast<Node*>(child);
    version = child_version;
  }
  if (!node->TryLock(version)) return false;
  const Unlocker lock(node);
  bool exact;
  const uint32_t count = node->Count();
  const uint32_t position = LowerBound(*node, count, *key, &exact);
  assert(!exact);
  node->ShiftRight(position, count);
  node->Set(position, key->digest, record);
  node->count.store(count + 1, std::memory_order_release);
  return true;
}

// Splits `node` in two, if neither it nor its parent has changed since the versions given.
void MemtableTree::SplitNode(Inner* parent, uint64_t parent_version, Node* node,
                             uint64_t node_version, const SearchKey& key) {
  if (parent != nullptr && !parent->TryLock(parent_version)) return;
  const Unlocker parent_lock(parent);
  if (!node->TryLock(node_version)) return;
  const Unlocker node_lock(node);
  if (parent != nullptr) return SplitBelow(parent, node, key);
  if (root_.load(std::memory_order_acquire) != node) return;
  if (node->leaf && prefix_.load(std::memory_order_relaxed)->size == 0) GuessPrefix(node);
  // Published before the split: who finds the new root before it is complete finds it locked. If
  // the split has no memory, it stays as it is, with one child.
  auto* root = new (arena_->AllocateAligned(sizeof(Inner))) Inner();
  root->children[0].store(node, std::memory_order_release);
  const bool locked = root->TryLock(0);
  assert(locked);
  (void)locked;
  const Unlocker root_lock(root);
  root_.store(root, std::memory_order_release);
  SplitBelow(root, node, key);
}

// Both nodes are locked, `node` is full, `parent` is not. What may throw, an application's
// comparator included, comes before what changes.
void MemtableTree::SplitBelow(Inner* parent, Node* node, const SearchKey& key) {
  // Keys that come in order fill their nodes: only the last entry moves.
  bool exact;
  const bool appending = LowerBound(*node, kFanout, key, &exact) == kFanout;
  const uint32_t split = appending ? kFanout - 1 : kFanout / 2;
  const uint64_t digest = node->DigestAt(split);
  const RecordPointer separator = node->RecordAt(split);
  const SearchKey separator_key{separator.InternalKey(), key.prefix, digest};
  const uint32_t count = parent->Count();
  const uint32_t position = LowerBound(*parent, count, separator_key, &exact);
  Node* right = node->leaf ? SplitLeaf(static_cast<Leaf*>(node), split)
                           : SplitInner(static_cast<Inner*>(node), split);
  parent->ShiftRight(position, count);
  for (uint32_t i = count + 1; i > position + 1; --i) {
    parent->children[i].store(parent->children[i - 1].load(std::memory_order_relaxed),
                              std::memory_order_release);
  }
  parent->Set(position, digest, separator);
  parent->children[position + 1].store(right, std::memory_order_release);
  parent->count.store(count + 1, std::memory_order_release);
}

// The separator is the right leaf's first record.
MemtableTree::Node* MemtableTree::SplitLeaf(Leaf* leaf, uint32_t split) {
  auto* right = new (arena_->AllocateAligned(sizeof(Leaf))) Leaf();
  for (uint32_t i = split; i < kFanout; ++i) {
    right->Set(i - split, leaf->DigestAt(i), leaf->RecordAt(i));
  }
  right->count.store(kFanout - split, std::memory_order_release);
  right->next.store(leaf->next.load(std::memory_order_relaxed), std::memory_order_release);
  leaf->next.store(right, std::memory_order_release);
  leaf->count.store(split, std::memory_order_release);
  leaf->ForgetFrom(split);
  return right;
}

// The separator moves up and is in neither half.
MemtableTree::Node* MemtableTree::SplitInner(Inner* inner, uint32_t split) {
  auto* right = new (arena_->AllocateAligned(sizeof(Inner))) Inner();
  for (uint32_t i = split + 1; i < kFanout; ++i) {
    right->Set(i - split - 1, inner->DigestAt(i), inner->RecordAt(i));
  }
  for (uint32_t i = split + 1; i <= kFanout; ++i) {
    right->children[i - split - 1].store(inner->children[i].load(std::memory_order_relaxed),
                                         std::memory_order_release);
  }
  right->count.store(kFanout - split - 1, std::memory_order_release);
  inner->count.store(split, std::memory_order_release);
  inner->ForgetFrom(split);
  return right;
}

void MemtableTree::Withdraw(SequenceNumber first, SequenceNumber last) {
  // A split moves records to the right, marks and all: who goes from left to right meets them all.
  for (Leaf* leaf = FirstLeaf(); leaf != nullptr;) {
    if (!leaf->TryLock(leaf->ReadVersion())) continue;
    const Unlocker lock(leaf);
    const uint32_t count = leaf->Count();
    for (uint32_t i = 0; i < count; ++i) {
      const RecordPointer record = leaf->RecordAt(i);
      const SequenceNumber sequence = TrailerSequence(ExtractTrailer(record.InternalKey()));
      if (sequence < first || sequence > last) continue;
      assert(record.batched());
      leaf->Set(i, leaf->DigestAt(i), record.Withdrawn());
    }
    leaf = leaf->next.load(std::memory_order_acquire);
  }
}

// Splits move records to the right: the first child stays the first.
MemtableTree::Leaf* MemtableTree::FirstLeaf() const {
  Node* node = root_.load(std::memory_order_acquire);
  while (!node->leaf) {
    node = static_cast<const Inner*>(node)->children[0].load(std::memory_order_acquire);
  }
  return static_cast<Leaf*>(node);
}

// The root is a full, locked leaf, the only node: what its keys share, later ones are likely to.
void MemtableTree::GuessPrefix(Node* only_leaf) {
  const Slice first = only_leaf->RecordAt(0).UserKey();
  const Slice last = only_leaf->RecordAt(kFanout - 1).UserKey();
  size_t common = 0;
  while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
  const Prefix* prefix = Prefix::New(arena_, Slice(first.data(), common));
  for (uint32_t i = 0; i < kFanout; ++i) {
    const RecordPointer record = only_leaf->RecordAt(i);
    only_leaf->Set(i, Digest(*prefix, record.UserKey()), record);
  }
  prefix_.store(prefix, std::memory_order_release);
}

}  // namespace dlsm
