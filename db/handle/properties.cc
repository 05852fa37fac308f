#include "db/handle/properties.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "dLSM/cache.h"
#include "dLSM/version.h"
#include "db/handle/db_impl.h"
#include "db/handle/guards_property.h"
#include "db/handle/placement_property.h"
#include "db/nodes/link_properties.h"
#include "db/tree/components.h"
#include "util/cache/value_cache.h"
#include "util/numa.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

StallTotals& operator+=(StallTotals& sum, const StallTotals& more) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i].count += more[i].count;
    sum[i].micros += more[i].micros;
    sum[i].longest_micros = std::max(sum[i].longest_micros, more[i].longest_micros);
  }
  return sum;
}

}  // namespace

bool DB::GetIntProperty(const Slice& property, uint64_t* value) {
  std::string text;
  if (value == nullptr || !GetProperty(property, &text)) return false;
  const char* const end = text.data() + text.size();
  uint64_t number;
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  *value = number;
  return true;
}

std::vector<Properties::VersionRef> Properties::Versions() const {
  std::vector<VersionRef> versions;
  for (const auto& shard : db_.shards_) {
    versions.push_back(shard->tree().views().Current()->version);
  }
  return versions;
}

uint64_t Properties::Sum(const std::function<uint64_t(const Version&)>& of_shard) const {
  uint64_t sum = 0;
  for (const VersionRef& version : Versions()) sum += of_shard(*version);
  return sum;
}

std::string OwnPropertyName(const Slice& property) {
  constexpr std::string_view kLevelDb = "leveldb.";
  const std::string_view name = property.ToStringView();
  if (!name.starts_with(kLevelDb)) return std::string(name);
  return "dlsm." + std::string(name.substr(kLevelDb.size()));
}

bool Properties::Get(const Slice& property, std::string* value) const {
  constexpr std::string_view kAtLevel = "dlsm.num-files-at-level";
  const std::string own_name = OwnPropertyName(property);
  const std::string_view name = own_name;
  if (name.substr(0, kAtLevel.size()) == kAtLevel) {
    return TablesAtLevel(Slice(name.substr(kAtLevel.size())), value);
  }
  if (name == "dlsm.stats") {
    *value = Stats();
  } else if (name == "dlsm.version") {
    *value = VersionString();
  } else if (name == "dlsm.levels" || name == "dlsm.sstables") {
    *value = Levels();
  } else if (name == "dlsm.components") {
    *value = Components(/*expected=*/false);
  } else if (name == "dlsm.expected-components") {
    *value = Components(/*expected=*/true);
  } else if (name == "dlsm.pending-merge-bytes") {
    uint64_t bytes = 0;
    for (const auto& shard : db_.shards_) {
      bytes += shard->background().PendingBytes(*shard->tree().views().Current()->version);
    }
    *value = std::to_string(bytes);
  } else if (name == "dlsm.shards") {
    *value = Shards();
  } else if (name == "dlsm.comparator") {
    *value = db_.options_.comparator->Name();
  } else if (name == "dlsm.filter-policy") {
    *value = db_.objects_.FilterName();
  } else if (name == "dlsm.shard-boundaries") {
    *value = DescribeBoundaries(db_.map_);
  } else if (name == "dlsm.placement") {
    *value = DescribePlacement(db_.links_, db_.shards_);
  } else if (name == "dlsm.stalls") {
    *value = Stalls();
  } else if (name == "dlsm.guards") {
    *value = Guards();
  } else if (name == "dlsm.memory") {
    *value = Memory();
  } else if (name == "dlsm.log") {
    if (db_.log_ == nullptr) return false;
    *value = db_.log_->Describe();
  } else if (name == "dlsm.numa") {
    *value = Numa();
  } else if (name == "dlsm.approximate-memory-usage") {
    *value = std::to_string(MemoryBytes());
  } else if (name == "dlsm.ownership-epoch") {
    *value = std::to_string(db_.shards_.front()->epoch());
  } else if (name == "dlsm.metadata-bytes") {
    *value = std::to_string(Sum(&Version::metadata_bytes));
  } else if (name == "dlsm.entries") {
    *value = std::to_string(Sum(&Version::entries));
  } else if (name == "dlsm.range-tombstones") {
    *value = std::to_string(Sum(&Version::tombstone_count));
  } else if (name == "dlsm.table-bytes") {
    *value = std::to_string(Sum(&Version::bytes));
  } else if (name == "dlsm.merge-load") {
    *value =
        ForEachNode(LinksOf(), [](MemoryNodeLink& link) { return link.merge_load().Describe(); });
  } else if (name == "dlsm.merge-schedule") {
    *value = MergeScheduleInForce();
  } else if (name == "dlsm.background-error") {
    *value = BackgroundError();
  } else if (name == "dlsm.publications") {
    if (db_.publisher_ == nullptr) return false;
    *value = db_.publisher_->Describe();
  } else {
    return GetLinkProperty(LinksOf(), std::string(name), value);
  }
  return true;
}

Links Properties::LinksOf() const {
  Links links;
  for (const auto& link : db_.links_) links.push_back(link.get());
  return links;
}

bool Properties::TablesAtLevel(const Slice& level, std::string* value) const {
  size_t number;
  const auto parsed = std::from_chars(level.begin(), level.end(), number);
  const std::vector<VersionRef> versions = Versions();
  if (parsed.ec != std::errc() || parsed.ptr != level.end() ||
      number >= versions.front()->levels().size()) {
    return false;
  }
  size_t tables = 0;
  for (const VersionRef& version : versions) tables += version->levels()[number].table_count();
  *value = std::to_string(tables);
  return true;
}

std::string Properties::Shards() const {
  std::string text = "shard  tables       bytes   entries   memtables memory-node from\n";
  for (const auto& shard : db_.shards_) {
    const VersionRef version = shard->tree().views().Current()->version;
    const size_t i = shard->number();
    text += fmt::format("{:5} {:7} {:11} {:9} {:11} {} \"{}\"\n", i, version->table_count(),
                        version->bytes(), version->entries(), shard->tree().Memtables().bytes,
                        shard->link().name(), i == 0 ? "" : ShownKey(db_.map_.boundaries[i - 1]));
  }
  return text;
}

std::string Properties::Guards() const {
  const std::vector<VersionRef> versions = Versions();
  if (versions.size() == 1) return DescribeGuards(*versions.front());
  std::string text;
  for (size_t i = 0; i < versions.size(); ++i) {
    text += fmt::format("shard {}\n{}", i, DescribeGuards(*versions[i]));
  }
  return text;
}

// A lookup goes to one shard.
std::string Properties::Components(bool expected) const {
  size_t most = 0;
  for (const auto& shard : db_.shards_) {
    const VersionRef version = shard->tree().views().Current()->version;
    most = std::max(most, expected ? shard->background().ExpectedComponents(*version)
                                   : CountComponents(*version));
  }
  return std::to_string(most);
}

std::string Properties::BackgroundError() const {
  for (const auto& shard : db_.shards_) {
    const Status error = shard->background().last_error();
    if (!error.ok()) return shard->Named(error).ToString();
  }
  return Status::OK().ToString();
}

std::string Properties::Stats() const { return Levels() + "\n" + db_.statistics_->ToString(); }

std::string Properties::Levels() const {
  const std::vector<VersionRef> versions = Versions();
  std::string text =
      "level guards   runs  tables       bytes   entries     written    in place taken along\n";
  for (size_t i = 0; i < versions.front()->levels().size(); ++i) {
    size_t guards = 0;
    size_t runs = 0;
    size_t tables = 0;
    uint64_t bytes = 0;
    uint64_t entries = 0;
    LevelTraffic::Counts counts;
    for (size_t shard = 0; shard < versions.size(); ++shard) {
      const Level& level = versions[shard]->levels()[i];
      guards += level.guards().size();
      tables += level.table_count();
      bytes += level.bytes();
      for (const Guard* guard : level.AllGuards()) {
        for (const TableRef& table : guard->tables) entries += table->meta().entries;
        runs += guard->index->runs();
      }
      const LevelTraffic::Counts more = db_.shards_[shard]->background().traffic().Of(i);
      counts.written += more.written;
      counts.in_place += more.in_place;
      counts.taken_along += more.taken_along;
    }
    text +=
        fmt::format("{:5} {:6} {:6} {:7} {:11} {:9} {:11} {:11} {:11}\n", i, guards, runs, tables,
                    bytes, entries, counts.written, counts.in_place, counts.taken_along);
  }
  return text;
}

std::string Properties::Stalls() const {
  StallTotals totals{};
  for (const auto& shard : db_.shards_) totals += shard->gate().totals();
  std::string text = "cause           stalls      micros     longest\n";
  for (size_t i = 0; i < totals.size(); ++i) {
    text += fmt::format("{:12} {:9} {:11} {:11}\n", StallReasonName(static_cast<StallReason>(i)),
                        totals[i].count, totals[i].micros, totals[i].longest_micros);
  }
  return text;
}

Properties::MemtableBytes Properties::BytesOfMemtables() const {
  MemtableBytes sum;
  for (const auto& shard : db_.shards_) {
    const Tree::MemtableCounts counts = shard->tree().Memtables();
    sum.entries += counts.bytes;
    sum.filters += counts.filter_bytes;
  }
  return sum;
}

uint64_t Properties::MemoryBytes() const {
  const MemtableBytes memtables = BytesOfMemtables();
  uint64_t bytes = memtables.entries + memtables.filters + Sum(&Version::metadata_bytes);
  if (db_.value_cache_ != nullptr) bytes += db_.value_cache_->bytes();
  const Cache* const block_cache = db_.objects_.block_cache.get();
  if (block_cache != nullptr) bytes += block_cache->TotalCharge();
  if (db_.memory_budget_ != nullptr) bytes += db_.memory_budget_->buffer_bytes();
  return bytes;
}

std::string Properties::Numa() const {
  if (db_.numa_node_ == kNoNumaNode) return "node none\n";
  const NumaUse use = NumaUseOf(db_.numa_node_);
  return fmt::format("node {}\nmemory-of-process {}\nthreads-of-process {}\n", db_.numa_node_,
                     use.preferred_bytes, use.threads);
}

std::string Properties::Memory() const {
  const MemtableBytes memtables = BytesOfMemtables();
  std::string text =
      fmt::format("memtables {}\nmemtable-filters {}\nindexes-and-filters {}\n", memtables.entries,
                  memtables.filters, Sum(&Version::metadata_bytes));
  if (const ValueCache* const cache = db_.value_cache_.get(); cache != nullptr) {
    text +=
        fmt::format("value-cache {}\nvalue-cache-records {}\n", cache->bytes(), cache->UsedBytes());
  }
  if (const MemoryBudget* const budget = db_.memory_budget_.get(); budget != nullptr) {
    text += fmt::format("buffers {}\nindexes-and-filters-max {}\nbudget {}\n",
                        budget->buffer_bytes(), budget->metadata_max(), budget->bytes());
  }
  return text;
}

}  // namespace dlsm
