#include "db/memtable/memtable_ranges.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

#include "port/scheduler.h"

namespace dlsm {

struct MemtableRanges::Node {
  Node* older;
  SequenceNumber sequence;
  Slice begin;
  Slice end;
  bool batched;
  std::atomic<bool> withdrawn{false};
};

void MemtableRanges::Add(Arena* arena, SequenceNumber sequence, const Slice& begin,
                         const Slice& end, uint64_t bytes, bool batched) {
  static_assert(std::is_trivially_destructible_v<Node>);
  char* const memory = arena->AllocateAligned(sizeof(Node) + begin.size() + end.size());
  Node* const node = new (memory) Node;
  char* const keys = memory + sizeof(Node);
  if (!begin.empty()) std::memcpy(keys, begin.data(), begin.size());
  if (!end.empty()) std::memcpy(keys + begin.size(), end.data(), end.size());
  node->sequence = sequence;
  node->begin = Slice(keys, begin.size());
  node->end = Slice(keys + begin.size(), end.size());
  node->batched = batched;
  node->older = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(node->older, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  port::InterleavingPoint();
}

void MemtableRanges::Withdraw(SequenceNumber first, SequenceNumber last) {
  for (Node* node = newest_.load(std::memory_order_acquire); node != nullptr; node = node->older) {
    if (node->sequence < first || node->sequence > last) continue;
    node->withdrawn.store(true, std::memory_order_release);
  }
}

SequenceNumber MemtableRanges::NewestAt(const InternalKeyComparator& comparator,
                                        const Slice& user_key, SequenceNumber most,
                                        Sequencer* sequencer) const {
  SequenceNumber newest = 0;
  for (const Node* node = newest_.load(std::memory_order_acquire); node != nullptr;
       node = node->older) {
    if (node->sequence <= newest || node->sequence > most) continue;
    if (comparator.CompareUserKeys(user_key, node->begin) < 0 ||
        comparator.CompareUserKeys(user_key, node->end) >= 0) {
      continue;
    }
    if (node->batched) {
      port::InterleavingPoint();
      // In this order: a batch that is given up is withdrawn before it ends.
      if (sequencer->OpenBatchOf(node->sequence) != 0) continue;
      if (node->withdrawn.load(std::memory_order_acquire)) continue;
    }
    newest = node->sequence;
  }
  return newest;
}

std::vector<RangeTombstone> MemtableRanges::List(SequenceNumber most) const {
  std::vector<RangeTombstone> list;
  for (const Node* node = newest_.load(std::memory_order_acquire); node != nullptr;
       node = node->older) {
    if (node->sequence > most || node->withdrawn.load(std::memory_order_acquire)) continue;
    list.push_back({node->begin.ToString(), node->end.ToString(), node->sequence});
  }
  return list;
}

}  // namespace dlsm
