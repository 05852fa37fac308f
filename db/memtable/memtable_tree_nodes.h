// What a memtable's tree is made of: nodes with optimistic locks, as leaves and above them, and
// what lies beside them in the arena. For the files of MemtableTree only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "dLSM/slice.h"
#include "db/memtable/memtable_tree.h"
#include "port/cpu.h"
#include "port/thread.h"
#include "util/memory/arena.h"

namespace dlsm {

// Lies in the arena, its bytes behind it.
struct MemtableTree::Prefix {
  static const Prefix* New(Arena* arena, const Slice& bytes) {
    auto* prefix = new (arena->AllocateAligned(sizeof(Prefix) + bytes.size())) Prefix();
    prefix->size = bytes.size();
    if (!bytes.empty()) std::memcpy(prefix + 1, bytes.data(), bytes.size());
    return prefix;
  }
  Slice bytes() const { return Slice(reinterpret_cast<const char*>(this + 1), size); }

  size_t size = 0;
};

struct MemtableTree::SearchKey {
  Slice internal_key;
  const Prefix* prefix;
  uint64_t digest;
};

// The version is even when nobody writes, odd while a writer has the node.
struct MemtableTree::Node {
  explicit Node(bool is_leaf) : leaf(is_leaf) { ForgetFrom(0); }

  uint64_t ReadVersion() const {
    for (int spins = 0;; ++spins) {
      // Pairs with Unlock: what the last writer stored is visible.
      const uint64_t seen = version.load(std::memory_order_acquire);
      if ((seen & 1) == 0) return seen;
      if (spins < 1000) {
        port::CpuRelax();
      } else {
        port::Yield();
      }
    }
  }
  // Field loads before this acquire, so this load is not moved before them.
  bool Unchanged(uint64_t seen) const { return version.load(std::memory_order_acquire) == seen; }
  bool TryLock(uint64_t seen) {
    return version.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel);
  }
  void Unlock() {
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  uint32_t Count() const { return count.load(std::memory_order_acquire); }
  uint64_t DigestAt(uint32_t i) const { return digests[i].load(std::memory_order_acquire); }
  RecordPointer RecordAt(uint32_t i) const {
    return RecordPointer(records[i].load(std::memory_order_acquire));
  }
  void Set(uint32_t i, uint64_t digest, RecordPointer record) {
    digests[i].store(digest, std::memory_order_release);
    records[i].store(record.bits(), std::memory_order_release);
  }
  // The entries from `position` on are gone, but for the count.
  void ForgetFrom(uint32_t position) {
    for (uint32_t i = position; i < kFanout; ++i) {
      digests[i].store(UINT64_MAX, std::memory_order_release);
    }
  }
  // Makes room at `position`; the node is locked and not full.
  void ShiftRight(uint32_t position, uint32_t from_count) {
    for (uint32_t i = from_count; i > position; --i) Set(i, DigestAt(i - 1), RecordAt(i - 1));
  }
  void Prefetch() const {
    const char* at = reinterpret_cast<const char*>(this);
    for (size_t line = 0; line < 5; ++line) port::PrefetchRead(at + line * port::kCacheLineBytes);
  }

  std::atomic<uint64_t> version{0};
  std::atomic<uint32_t> count{0};
  const bool leaf;
  std::atomic<uint64_t> digests[kFanout];  // The largest there is where there is no entry.
  std::atomic<uintptr_t> records[kFanout];
};

struct MemtableTree::Leaf : Node {
  Leaf() : Node(true) {}
  std::atomic<Leaf*> next{nullptr};
};

// children[i] holds what is before records[i] and not before records[i - 1].
struct MemtableTree::Inner : Node {
  Inner() : Node(false) {}
  std::atomic<Node*> children[kFanout + 1];
};

// Unlocks a node that is locked, or none. A split that cannot have its memory throws, and so may a
// comparator: what is locked is as it was then, or good as it is, and others go on.
class MemtableTree::Unlocker {
 public:
  explicit Unlocker(Node* node) : node_(node) {}
  ~Unlocker() {
    if (node_ != nullptr) node_->Unlock();
  }
  Unlocker(const Unlocker&) = delete;
  Unlocker& operator=(const Unlocker&) = delete;

 private:
  Node* const node_;
};

}  // namespace dlsm
