#include "db/nodes/table_placement.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dlsm {

uint64_t RoomOf(const PlacementNode& node) {
  const uint64_t as_good_as_taken = node.merge_bytes_waiting / 4;
  return node.free_bytes > as_good_as_taken ? node.free_bytes - as_good_as_taken : 0;
}

std::vector<size_t> OrderForMerge(const std::vector<PlacementNode>& nodes,
                                  const std::vector<uint64_t>& input_bytes_at,
                                  const std::vector<size_t>& order) {
  constexpr size_t kTriesMax = 3;
  assert(nodes.size() == input_bytes_at.size());
  uint64_t used_bytes = 0;
  uint64_t most_free = 0;
  for (const PlacementNode& node : nodes) {
    used_bytes += node.used_bytes;
    if (node.usable) most_free = std::max(most_free, node.free_bytes);
  }
  const auto most_input = static_cast<size_t>(
      std::max_element(input_bytes_at.begin(), input_bytes_at.end()) - input_bytes_at.begin());
  const uint64_t mean_bytes = used_bytes / nodes.size();
  const PlacementNode& nearest = nodes[most_input];
  std::vector<size_t> best = order;
  if (nearest.usable && nearest.free_bytes + mean_bytes / 32 >= most_free) {
    std::erase(best, most_input);
    best.insert(best.begin(), most_input);
  }
  if (best.size() > kTriesMax) best.resize(kTriesMax);
  return best;
}

size_t TablePlacer::WidthAmong(size_t nodes, size_t width) const {
  if (placement_ == TablePlacement::kByShard) return 1;
  return std::clamp<size_t>(width, 1, nodes);
}

std::vector<size_t> TablePlacer::Order(const std::vector<PlacementNode>& nodes, size_t width) {
  assert(!nodes.empty());
  if (placement_ == TablePlacement::kByShard) return {0};
  width = WidthAmong(nodes.size(), width);
  std::vector<size_t> order(nodes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = (next_ + i) % order.size();
  const auto more_room = [&nodes](size_t a, size_t b) {
    return RoomOf(nodes[a]) > RoomOf(nodes[b]);
  };
  if (placement_ == TablePlacement::kRoundRobin) {
    next_ = (next_ + width) % order.size();
  } else {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Uniform(i)]);
  }
  const auto unusable = std::stable_partition(order.begin(), order.end(),
                                              [&nodes](size_t i) { return nodes[i].usable; });
  if (placement_ == TablePlacement::kPowerOfD) {
    const auto drawn_max = static_cast<ptrdiff_t>(width == 1 ? d_ : std::max(d_, 2 * width));
    const auto drawn = order.begin() + std::min(drawn_max, unusable - order.begin());
    std::stable_sort(order.begin(), drawn, more_room);
    std::stable_sort(drawn, unusable, more_room);
  }
  return order;
}

}  // namespace dlsm
