#include "db/handle/guards_property.h"

#include <fmt/core.h>

#include <algorithm>

#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

// What is not printable, as \xx.
std::string Printable(const std::string& key) {
  constexpr size_t kShown = 40;
  std::string text;
  for (const char c : key.substr(0, kShown)) {
    if (c > ' ' && c < '\x7f' && c != '\\') {
      text.push_back(c);
    } else {
      text += fmt::format("\\{:02x}", static_cast<unsigned char>(c));
    }
  }
  return key.size() > kShown ? text + "..." : text;
}

struct Counts {
  size_t runs = 0;
  size_t tables = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

Counts CountsOf(const Guard& guard) {
  Counts counts;
  counts.tables = guard.tables.size();
  counts.runs = CountRuns(guard);
  counts.bytes = BytesOf(guard.tables);
  for (const TableRef& table : guard.tables) counts.entries += table->meta().entries;
  return counts;
}

std::string Line(const Counts& counts) {
  return fmt::format("runs {} tables {} bytes {} entries {}\n", counts.runs, counts.tables,
                     counts.bytes, counts.entries);
}

}  // namespace

std::string DescribeGuards(const Version& version) {
  std::string text;
  for (size_t i = 0; i < version.levels().size(); ++i) {
    const Level& level = version.levels()[i];
    if (level.table_count() == 0 && level.guards().empty()) continue;
    Counts total;
    size_t runs_most = 0;
    std::string lines;
    for (const Guard* guard : level.AllGuards()) {
      if (guard->tables.empty()) continue;
      const Counts counts = CountsOf(*guard);
      total.runs += counts.runs;
      total.tables += counts.tables;
      total.bytes += counts.bytes;
      total.entries += counts.entries;
      runs_most = std::max(runs_most, counts.runs);
      const bool sentinel = guard == &level.sentinel();
      lines +=
          fmt::format("  {} {}", sentinel ? "(sentinel)" : Printable(guard->key), Line(counts));
    }
    text += fmt::format("level {} guards {} runs-most {} ", i, level.guards().size(), runs_most) +
            Line(total) + lines;
  }
  return text;
}

}  // namespace dlsm
