#include "db/properties.h"

#include <fmt/format.h>

#include <charconv>

#include "db/components.h"
#include "db/db_impl.h"
#include "db/guards_property.h"

namespace dlsm {

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
  const std::shared_ptr<const Version> version = db_.tree_->views().Current()->version;
  if (name.substr(0, kAtLevel.size()) == kAtLevel) {
    return TablesAtLevel(Slice(name.substr(kAtLevel.size())), value);
  }
  if (name == "dlsm.stats") {
    *value = Stats();
  } else if (name == "dlsm.levels" || name == "dlsm.sstables") {
    *value = Levels();
  } else if (name == "dlsm.components") {
    *value = std::to_string(CountComponents(*version));
  } else if (name == "dlsm.expected-components") {
    *value = std::to_string(db_.background_->LimitsOf(*version).expected);
  } else if (name == "dlsm.pending-merge-bytes") {
    *value = std::to_string(db_.background_->PendingBytes(*version));
  } else if (name == "dlsm.stalls") {
    *value = Stalls();
  } else if (name == "dlsm.guards") {
    *value = DescribeGuards(*version);
  } else if (name == "dlsm.wire") {
    *value = Wire();
  } else if (name == "dlsm.rpc") {
    *value = Calls();
  } else if (name == "dlsm.memory" || name == "dlsm.approximate-memory-usage") {
    *value = Memory();
  } else if (name == "dlsm.fabric") {
    *value = db_.session_->connection().fabric().Describe();
  } else if (name == "dlsm.metadata-bytes") {
    *value = std::to_string(version->metadata_bytes());
  } else if (name == "dlsm.entries") {
    *value = std::to_string(version->entries());
  } else if (name == "dlsm.table-bytes") {
    *value = std::to_string(version->bytes());
  } else if (name == "dlsm.remote-cpu-micros") {
    *value = NodeStatistics(/*cpu_only=*/true);
  } else if (name == "dlsm.memory-node") {
    *value = NodeStatistics(/*cpu_only=*/false);
  } else if (name == "dlsm.merge-load") {
    *value = db_.background_->merge_load().Describe();
  } else if (name == "dlsm.merge-schedule") {
    *value = MergeScheduleInForce();
  } else if (name == "dlsm.background-error") {
    *value = db_.background_->last_error().ToString();
  } else {
    return false;
  }
  return true;
}

bool Properties::TablesAtLevel(const Slice& level, std::string* value) const {
  size_t number;
  const auto parsed = std::from_chars(level.begin(), level.end(), number);
  const std::shared_ptr<const Version> version = db_.tree_->views().Current()->version;
  if (parsed.ec != std::errc() || parsed.ptr != level.end() || number >= version->levels().size()) {
    return false;
  }
  *value = std::to_string(version->levels()[number].table_count());
  return true;
}

std::string Properties::Stats() const { return Levels() + "\n" + db_.statistics_->ToString(); }

std::string Properties::Levels() const {
  const std::shared_ptr<const Version> version = db_.tree_->views().Current()->version;
  const LevelTraffic& traffic = db_.background_->traffic();
  std::string text =
      "level guards   runs  tables       bytes   entries     written    in place taken along\n";
  for (size_t i = 0; i < version->levels().size(); ++i) {
    const Level& level = version->levels()[i];
    uint64_t entries = 0;
    size_t runs = 0;
    for (const Guard* guard : level.AllGuards()) {
      for (const TableRef& table : guard->tables) entries += table->meta().entries;
      runs += guard->index->runs();
    }
    const LevelTraffic::Counts counts = traffic.Of(i);
    text += fmt::format("{:5} {:6} {:6} {:7} {:11} {:9} {:11} {:11} {:11}\n", i,
                        level.guards().size(), runs, level.table_count(), level.bytes(), entries,
                        counts.written, counts.in_place, counts.taken_along);
  }
  return text;
}

std::string Properties::Wire() const {
  WireTotals totals = db_.session_->connection().fabric().Totals();
  WireCounts& calls = totals[static_cast<size_t>(Purpose::kRpc)];
  for (const CallCounts& counts : db_.session_->connection().rpc().Totals()) {
    calls += {.round_trips = counts.calls,
              .work_requests = counts.calls,
              .doorbells = counts.calls,
              .read_bytes = counts.reply_bytes,
              .write_bytes = counts.request_bytes};
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
  const CallTotals totals = db_.session_->connection().rpc().Totals();
  std::string text = "method               calls  failures  request bytes    reply bytes\n";
  for (size_t i = 1; i < totals.size(); ++i) {
    const CallCounts& counts = totals[i];
    text += fmt::format("{:16} {:9} {:9} {:14} {:14}\n", MethodName(static_cast<Method>(i)),
                        counts.calls, counts.failures, counts.request_bytes, counts.reply_bytes);
  }
  return text;
}

std::string Properties::Stalls() const {
  const StallTotals totals = db_.gate_.totals();
  std::string text = "cause           stalls      micros     longest\n";
  for (size_t i = 0; i < totals.size(); ++i) {
    text += fmt::format("{:12} {:9} {:11} {:11}\n", StallReasonName(static_cast<StallReason>(i)),
                        totals[i].count, totals[i].micros, totals[i].longest_micros);
  }
  return text;
}

std::string Properties::Memory() const {
  const std::shared_ptr<const Version> version = db_.tree_->views().Current()->version;
  return fmt::format("memtables {}\nindexes-and-filters {}\n", db_.tree_->Memtables().bytes,
                     version->metadata_bytes());
}

std::string Properties::NodeStatistics(bool cpu_only) const {
  std::string reply_bytes;
  NodeStatisticsReply reply;
  const Status called = db_.session_->connection().rpc().Call(
      Method::kNodeStatistics, Slice(), &reply_bytes, Deadline::In(std::chrono::seconds(5)));
  if (!called.ok() || !reply.Decode(reply_bytes).ok()) return cpu_only ? "0" : called.ToString();
  const bool embedded = db_.session_->connection().fabric().kind() == FabricKind::kLocal;
  if (cpu_only) return embedded ? "0" : std::to_string(reply.cpu_micros);
  return fmt::format(
      "capacity {}\nused {}\nlargest-free {}\ndatabases {}\nsessions {}\nmerges-done {}\n"
      "merge-bytes-read {}\nmerge-bytes-written {}\nmerges-running {}\nmerges-queued {}\n"
      "merge-bytes-waiting {}\nmerge-bytes-per-second {}\n",
      reply.capacity_bytes, reply.used_bytes, reply.largest_free_bytes, reply.databases,
      reply.sessions, reply.merges_done, reply.merge_bytes_read, reply.merge_bytes_written,
      reply.merges_running, reply.merges_queued, reply.merge_bytes_waiting,
      reply.merge_bytes_per_second);
}

}  // namespace dlsm
