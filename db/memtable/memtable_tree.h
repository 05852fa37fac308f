// The ordered index of a memtable: a B+-tree over records that lie in an arena.
//
//   inner   | digest, record | digest, record | ...      a child before, between and after them
//   leaf    | digest, record | digest, record | ... | -> next leaf
//
// Any number of threads insert and read at once. Nothing is ever removed, and nodes live as long as
// the arena, which makes it simple:
//   1. Every node has a version word, odd while a writer changes the node. Readers take no lock:
//      they read the version, then the fields, then check that the version is still the same, and
//      start again if not. (Optimistic lock coupling, Leis et al., 2016.)
//   2. A writer descends like a reader and locks only the leaf it inserts into. Full nodes are
//      split on the way down, with their parent locked.
//   3. Beside each pointer to a record stands a digest: the 8 bytes of user key that follow the
//      tree's common prefix. Records are looked at only where digests are equal, so that a descent
//      costs a cache miss for a node, not for a comparison. The prefix is a guess: keys that do not
//      share it get the smallest or the largest digest, by their order, and full comparisons.
//   4. A cursor copies a whole leaf and walks the copy. Entries inserted after the copy was made
//      are newer than any snapshot that was settled before it, so nobody misses them.
//
// All fields that change are atomics. Loads of fields acquire and stores release: a reader that
// sees a changed field therefore also sees the locked version and starts again.
//
// memtable_tree.cc searches and inserts, memtable_cursor.cc walks; memtable_tree_nodes.h is what
// both go through.
#pragma once

#include <atomic>
#include <cstdint>

#include "table/internal_key.h"
#include "util/coding.h"
#include "util/memory/arena.h"

namespace dlsm {

// A record in the arena, and, in bits that its alignment leaves free, whether it belongs to a batch
// of several entries, and whether that was given up, so that it is as if it were not there.
//
//   record: varint32 internal key bytes | varint32 value bytes | internal key | value
class RecordPointer {
 public:
  RecordPointer() = default;
  explicit RecordPointer(uintptr_t bits) : bits_(bits) {}
  RecordPointer(const char* record, bool batched)
      : bits_(reinterpret_cast<uintptr_t>(record) | (batched ? kBatched : 0)) {}

  uintptr_t bits() const { return bits_; }
  bool null() const { return bits_ == 0; }
  bool batched() const { return (bits_ & kBatched) != 0; }
  // Only such as are batched.
  bool withdrawn() const { return (bits_ & kWithdrawn) != 0; }
  RecordPointer Withdrawn() const { return RecordPointer(bits_ | kWithdrawn); }
  const char* data() const {
    return reinterpret_cast<const char*>(bits_ & ~(kBatched | kWithdrawn));
  }

  Slice InternalKey() const {
    Slice internal_key;
    Slice value;
    Parse(&internal_key, &value);
    return internal_key;
  }
  Slice UserKey() const { return ExtractUserKey(InternalKey()); }
  void Parse(Slice* internal_key, Slice* value) const {
    // Our own bytes in our own memory: the limits cannot be exceeded.
    const char* at = data();
    uint32_t key_bytes = 0;
    uint32_t value_bytes = 0;
    at = DecodeVarint32(at, at + kVarint32BytesMax, &key_bytes);
    at = DecodeVarint32(at, at + kVarint32BytesMax, &value_bytes);
    *internal_key = Slice(at, key_bytes);
    *value = Slice(at + key_bytes, value_bytes);
  }

 private:
  static constexpr uintptr_t kBatched = 1;
  static constexpr uintptr_t kWithdrawn = 2;

  uintptr_t bits_ = 0;
};

// Writes a record, allocated by the caller with MemtableRecordBytes() bytes.
size_t MemtableRecordBytes(size_t internal_key_bytes, size_t value_bytes);
void WriteMemtableRecord(char* to, const Slice& user_key, uint64_t trailer, const Slice& value);

class MemtableTree {
 public:
  // `prefix_guess`: what most user keys are likely to begin with; only speed depends on it. If
  // empty, the first keys decide.
  MemtableTree(const InternalKeyComparator& comparator, Arena* arena, const Slice& prefix_guess);
  MemtableTree(const MemtableTree&) = delete;
  MemtableTree& operator=(const MemtableTree&) = delete;

  // The internal key must not be in the tree (sequence numbers are unique). Throws std::bad_alloc,
  // and the record is not there then, if the arena has no room for a node.
  void Insert(RecordPointer record);

  // Marks those of a batch's records that are there, none of which is being inserted any more.
  // Goes through all of the tree; allocates nothing.
  void Withdraw(SequenceNumber first, SequenceNumber last);

  bool Empty() const;

  // The first record at or after `internal_key`; null if there is none.
  RecordPointer FirstAtOrAfter(const Slice& internal_key) const;

  class Cursor;

 private:
  static constexpr uint32_t kFanout = 32;
  struct Node;
  struct Leaf;
  struct Inner;
  struct Prefix;
  struct SearchKey;
  class Unlocker;

  uint64_t Digest(const Prefix& prefix, const Slice& user_key) const;
  SearchKey MakeSearchKey(const Slice& internal_key) const;
  static uint32_t CountBelow(const Node& node, uint64_t digest);
  uint32_t LowerBound(const Node& node, uint32_t count, const SearchKey& key, bool* exact) const;
  const Leaf* FindLeaf(SearchKey* key, bool strictly_before, uint64_t* version) const;
  const Node* Descend(const Node& node, const SearchKey& key, bool strictly_before,
                      uint64_t* seen) const;

  Leaf* FirstLeaf() const;
  bool TryInsert(RecordPointer record, SearchKey* key);
  void SplitNode(Inner* parent, uint64_t parent_version, Node* node, uint64_t node_version,
                 const SearchKey& key);
  void SplitBelow(Inner* parent, Node* node, const SearchKey& key);
  Node* SplitLeaf(Leaf* leaf, uint32_t split);
  Node* SplitInner(Inner* inner, uint32_t split);
  void GuessPrefix(Node* only_leaf);

  const InternalKeyComparator comparator_;
  Arena* const arena_;
  std::atomic<const Prefix*> prefix_;  // Changes at most once, while the root is a locked leaf.
  std::atomic<Node*> root_;
};

// Walks the tree in order. Thread-compatible; the arena outlives it.
class MemtableTree::Cursor {
 public:
  explicit Cursor(const MemtableTree& tree) : tree_(&tree) {}

  bool Valid() const { return position_ < count_; }
  RecordPointer record() const { return records_[position_]; }
  void SeekToFirst();
  void SeekToLast();
  void Seek(const Slice& internal_key);        // First at or after.
  void SeekBefore(const Slice& internal_key);  // Last before.
  void Next();
  void Prev();

  // For who walks through all of the tree and looks at whole records. They lie in the order in
  // which they came, so each is several cache misses; this brings the first lines of the records
  // that are some way ahead and all of those that are nearer. To be called at each step.
  void PrefetchAhead() const;

 private:
  RecordPointer Peek(uint32_t ahead) const;
  void CopyLeaf(const Leaf* leaf);
  bool TryCopyLeaf(const Leaf* leaf, uint64_t version);
  void Position(const Slice& internal_key, bool before);
  void NextLeaf();

  const MemtableTree* tree_;
  RecordPointer records_[kFanout];
  uint32_t count_ = 0;
  uint32_t position_ = 0;
  const Leaf* next_ = nullptr;
};

}  // namespace dlsm
