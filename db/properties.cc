#include "db/properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "db/components.h"
#include "db/db_impl.h"
#include "db/guards_property.h"
#include "db/placement_property.h"
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

Status AskNode(MemoryNodeLink& link, NodeStatisticsReply* reply) {
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(link.rpc().Call(Method::kNodeStatistics, Slice(), &reply_bytes,
                                       Deadline::In(std::chrono::seconds(5))));
  return reply->Decode(reply_bytes);
}

std::string NodeStatistics(MemoryNodeLink& link) {
  NodeStatisticsReply reply;
  const Status asked = AskNode(link, &reply);
  if (!asked.ok()) return asked.ToString();
  return fmt::format(
      "capacity {}\nused {}\nlargest-free {}\ndatabases {}\nsessions {}\nmerges-done {}\n"
      "merge-bytes-read {}\nmerge-bytes-written {}\nmerges-running {}\nmerges-queued {}\n"
      "merge-bytes-waiting {}\nmerge-bytes-per-second {}\n",
      reply.capacity_bytes, reply.used_bytes, reply.largest_free_bytes, reply.databases,
      reply.sessions, reply.merges_done, reply.merge_bytes_read, reply.merge_bytes_written,
      reply.merges_running, reply.merges_queued, reply.merge_bytes_waiting,
      reply.merge_bytes_per_second);
}

}  // namespace

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

std::string Properties::ForEachNode(
    const std::function<std::string(MemoryNodeLink&)>& of_node) const {
  std::string text;
  for (const auto& link : db_.links_) {
    if (db_.links_.size() > 1) text += "memory-node " + link->name() + "\n";
    text += of_node(*link);
  }
  return text;
}

bool Properties::Get(const Slice& property, std::string* value) const {
  constexpr std::string_view kAtLevel = "dlsm.num-files-at-level";
  std::string_view name = property.ToStringView();
  // LevelDB's names work too.
  constexpr std::string_view kLevelDb = "leveldb.";
  std::string renamed;
  if (name.substr(0, kLevelDb.size()) == kLevelDb) {
    renamed = "dlsm." + std::string(name.substr(kLevelDb.size()));
    name = renamed;
  }
  if (name.substr(0, kAtLevel.size()) == kAtLevel) {
    return TablesAtLevel(Slice(name.substr(kAtLevel.size())), value);
  }
  if (name == "dlsm.stats") {
    *value = Stats();
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
  } else if (name == "dlsm.placement") {
    *value = DescribePlacement(db_.links_, db_.shards_);
  } else if (name == "dlsm.stalls") {
    *value = Stalls();
  } else if (name == "dlsm.guards") {
    *value = Guards();
  } else if (name == "dlsm.wire") {
    *value = Wire();
  } else if (name == "dlsm.rpc") {
    *value = Calls();
  } else if (name == "dlsm.memory" || name == "dlsm.approximate-memory-usage") {
    *value = Memory();
  } else if (name == "dlsm.fabric") {
    *value = Fabric();
  } else if (name == "dlsm.metadata-bytes") {
    *value = std::to_string(Sum(&Version::metadata_bytes));
  } else if (name == "dlsm.entries") {
    *value = std::to_string(Sum(&Version::entries));
  } else if (name == "dlsm.table-bytes") {
    *value = std::to_string(Sum(&Version::bytes));
  } else if (name == "dlsm.remote-cpu-micros") {
    *value = RemoteCpuMicros();
  } else if (name == "dlsm.memory-node") {
    *value = ForEachNode(NodeStatistics);
  } else if (name == "dlsm.merge-load") {
    *value = ForEachNode([](MemoryNodeLink& link) { return link.merge_load().Describe(); });
  } else if (name == "dlsm.merge-schedule") {
    *value = MergeScheduleInForce();
  } else if (name == "dlsm.background-error") {
    *value = BackgroundError();
  } else {
    return false;
  }
  return true;
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
    most = std::max(most, expected ? shard->background().LimitsOf(*version).expected
                                   : CountComponents(*version));
  }
  return std::to_string(most);
}

std::string Properties::Fabric() const {
  std::string text;
  for (const auto& link : db_.links_) {
    const std::string described = link->fabric().Describe();
    if (text.find(described) != std::string::npos) continue;
    text += (text.empty() ? "" : "; ") + described;
  }
  return text;
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

std::string Properties::Wire() const {
  WireTotals totals{};
  for (const auto& link : db_.links_) {
    const WireTotals of_link = link->fabric().Totals();
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += of_link[i];
    WireCounts& calls = totals[static_cast<size_t>(Purpose::kRpc)];
    for (const CallCounts& counts : link->rpc().Totals()) {
      calls += {.round_trips = counts.calls,
                .work_requests = counts.calls,
                .doorbells = counts.calls,
                .read_bytes = counts.reply_bytes,
                .write_bytes = counts.request_bytes};
    }
  }
  std::string text;
  for (size_t i = 0; i < totals.size(); ++i) {
    const WireCounts& counts = totals[i];
    text +=
        fmt::format("{} {} {} {} {} {}\n", PurposeName(static_cast<Purpose>(i)), counts.round_trips,
                    counts.work_requests, counts.doorbells, counts.read_bytes, counts.write_bytes);
  }
  return text;
}

std::string Properties::Calls() const {
  CallTotals totals{};
  for (const auto& link : db_.links_) {
    const CallTotals of_link = link->rpc().Totals();
    for (size_t i = 0; i < totals.size(); ++i) {
      totals[i].calls += of_link[i].calls;
      totals[i].failures += of_link[i].failures;
      totals[i].request_bytes += of_link[i].request_bytes;
      totals[i].reply_bytes += of_link[i].reply_bytes;
    }
  }
  std::string text = "method               calls  failures  request bytes    reply bytes\n";
  for (size_t i = 1; i < totals.size(); ++i) {
    const CallCounts& counts = totals[i];
    text += fmt::format("{:16} {:9} {:9} {:14} {:14}\n", MethodName(static_cast<Method>(i)),
                        counts.calls, counts.failures, counts.request_bytes, counts.reply_bytes);
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

std::string Properties::Memory() const {
  size_t memtables = 0;
  for (const auto& shard : db_.shards_) memtables += shard->tree().Memtables().bytes;
  return fmt::format("memtables {}\nindexes-and-filters {}\n", memtables,
                     Sum(&Version::metadata_bytes));
}

// An embedded memory node's are this process's own.
std::string Properties::RemoteCpuMicros() const {
  uint64_t micros = 0;
  for (const auto& link : db_.links_) {
    NodeStatisticsReply reply;
    if (link->fabric().kind() == FabricKind::kLocal || !AskNode(*link, &reply).ok()) continue;
    micros += reply.cpu_micros;
  }
  return std::to_string(micros);
}

}  // namespace dlsm
