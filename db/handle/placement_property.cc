#include "db/handle/placement_property.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "util/escape.h"

namespace dlsm {
namespace {

struct TablesAtNode {
  uint64_t tables = 0;
  uint64_t bytes = 0;
  bool full = false;
  bool answers = true;
};

TablesAtNode TablesAt(const MemoryNodeLink& link,
                      const std::vector<std::unique_ptr<Shard>>& shards) {
  TablesAtNode at;
  for (const auto& shard : shards) {
    const size_t node = shard->NodeAt(link);
    if (node == shard->nodes()) continue;
    at.full |= shard->memory().full(node);
    at.answers &= shard->background().answers(node);
    const auto version = shard->tree().views().Current()->version;
    for (const Level& level : version->levels()) {
      for (const TableRef& table : level.AllTables()) {
        if (table->meta().image.node != link.peer().node) continue;
        ++at.tables;
        at.bytes += table->meta().image.bytes;
      }
    }
  }
  return at;
}

}  // namespace

std::string DescribePlacement(const std::vector<std::unique_ptr<MemoryNodeLink>>& links,
                              const std::vector<std::unique_ptr<Shard>>& shards) {
  std::string text = "number  tables       bytes full answers memory-node\n";
  uint64_t most = 0;
  uint64_t total = 0;
  for (const auto& link : links) {
    const TablesAtNode at = TablesAt(*link, shards);
    most = std::max(most, at.bytes);
    total += at.bytes;
    text += fmt::format("{:6} {:7} {:11} {:>4} {:>7} {}\n",
                        static_cast<uint32_t>(link->peer().node), at.tables, at.bytes,
                        at.full ? "yes" : "no", at.answers ? "yes" : "no", link->name());
  }
  const double mean = static_cast<double>(total) / static_cast<double>(links.size());
  text += fmt::format("max/mean {:.3f}\n", total == 0 ? 1 : static_cast<double>(most) / mean);
  return text;
}

std::string DescribeBoundaries(const ShardMap& map) {
  std::string text;
  for (const std::string& boundary : map.boundaries) {
    AppendEscaped(&text, boundary);
    text.push_back('\n');
  }
  return text;
}

}  // namespace dlsm
