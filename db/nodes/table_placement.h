// Which memory nodes a shard's new tables go to.
//
//   by shard      the shard's home, and no other
//   round robin   one after the other
//   power of d    of d nodes drawn at random the one with the most room (Nova-LSM section 4.4: two
//                 are nearly as good as to ask all, and do not send everybody to the same one)
//
// What is scattered is cut into `width` fragments, each a table, that go to different nodes; of
// power of d, to the best of 2 * width drawn ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dLSM/options.h"
#include "util/random.h"

namespace dlsm {

// What is known of a memory node when a place is sought.
struct PlacementNode {
  uint64_t free_bytes = 0;           // For tables, by now.
  uint64_t used_bytes = 0;           // By the shard's tables.
  uint64_t merge_bytes_waiting = 0;  // Input of the merges in its queue.
  bool usable = true;                // Answers, and had room when last asked.
};

// What counts as room: a merge takes memory before it gives any back, so part of what is queued is
// as good as taken, and of two nodes with like room the idler one wins.
uint64_t RoomOf(const PlacementNode& node);

// The nodes on which a merge had better run, of whose input each node has so much: the one that has
// most of it, for what is there need not be moved; unless it has clearly less room than another, by
// more than a 32nd of what a node's tables take on average: then, like when it is refused there,
// first come the first ones of `order`, which is the placement's. No more than three.
std::vector<size_t> OrderForMerge(const std::vector<PlacementNode>& nodes,
                                  const std::vector<uint64_t>& input_bytes_at,
                                  const std::vector<size_t>& order);

// Not thread-safe.
class TablePlacer {
 public:
  // `d` of kPowerOfD, at least 1. Nodes are numbered; the home is 0.
  TablePlacer(TablePlacement placement, size_t d, uint64_t seed)
      : placement_(placement), d_(d), random_(seed) {}

  // The nodes for a table (width 1) or for the fragments of what is scattered, in the order in
  // which they are to be tried: fragment i goes to the i-th one, modulo `width`, and to those
  // behind where that has no room. Each node once; those that are not usable last.
  std::vector<size_t> Order(const std::vector<PlacementNode>& nodes, size_t width);

  // How many fragments a table may be cut into, of `width` wanted ones.
  size_t WidthAmong(size_t nodes, size_t width) const;

 private:
  const TablePlacement placement_;
  const size_t d_;
  Random random_;
  size_t next_ = 0;  // kRoundRobin.
};

}  // namespace dlsm
