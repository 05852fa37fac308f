#include "db/metrics/property_metrics.h"

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

namespace dlsm {
namespace {

// Reads a line of "name number number ...". Returns false where there are fewer numbers.
template <size_t kCount>
bool ParseLine(const std::string& line, std::string* name, double (&numbers)[kCount]) {
  std::istringstream fields(line);
  fields >> *name;
  for (double& number : numbers) fields >> number;
  return !fields.fail();
}

// Calls tell(name, numbers) for each such line of the property. Other lines are passed over.
template <size_t kCount, typename Tell>
void ForEachLine(DB* db, const std::string& property, const Tell& tell) {
  std::string text;
  if (!db->GetProperty(property, &text)) return;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    double numbers[kCount];
    if (ParseLine(line, &name, numbers)) tell(name, numbers);
  }
}

std::map<std::string, double> NumbersOf(DB* db, const std::string& property) {
  std::map<std::string, double> numbers;
  ForEachLine<1>(db, property, [&numbers](const std::string& name, const double(&number)[1]) {
    numbers[name] = number[0];
  });
  return numbers;
}

void AddNumbers(DB* db, MetricFamilies* families) {
  struct Number {
    const char* property;
    const char* name;
    const char* help;
  };
  constexpr Number kNumbers[] = {
      {"dlsm.entries", "dlsm_db_entries", "Entries in tables, older versions and deletions, too"},
      {"dlsm.table-bytes", "dlsm_db_table_bytes", "Bytes of all tables"},
      {"dlsm.components", "dlsm_db_components", "Sorted runs that a lookup may have to search"},
      {"dlsm.expected-components", "dlsm_db_expected_components",
       "How many these are at most while merges keep up"},
      {"dlsm.pending-merge-bytes", "dlsm_db_pending_merge_bytes",
       "About how many bytes the merges that are due will read"},
      {"dlsm.approximate-memory-usage", "dlsm_db_memory_bytes",
       "Memory of the compute node that the handle uses"},
  };
  for (const Number& number : kNumbers) {
    uint64_t value = 0;
    if (db->GetIntProperty(number.property, &value)) {
      families->Gauge(number.name, number.help, static_cast<double>(value));
    }
  }
  uint64_t tables = 0;
  for (int level = 0;
       db->GetIntProperty("dlsm.num-files-at-level" + std::to_string(level), &tables); ++level) {
    families->Gauge("dlsm_db_level_tables", "Tables, by level", static_cast<double>(tables),
                    {{"level", std::to_string(level)}});
  }
  std::string error;
  if (db->GetProperty("dlsm.background-error", &error)) {
    families->Gauge("dlsm_db_background_failing",
                    "1: the last flush, merge or heartbeat has failed", error == "OK" ? 0 : 1);
  }
}

void AddMemory(DB* db, MetricFamilies* families) {
  for (const auto& [part, bytes] : NumbersOf(db, "dlsm.memory")) {
    // The others are no part, but how much there may be.
    if (part == "budget" || part == "indexes-and-filters-max" || part == "value-cache-records") {
      continue;
    }
    families->Gauge("dlsm_db_memory_part_bytes", "Memory of the handle, by what it is for", bytes,
                    {{"part", part}});
  }
}

void AddStalls(DB* db, MetricFamilies* families) {
  ForEachLine<3>(db, "dlsm.stalls", [&](const std::string& reason, const double(&stall)[3]) {
    constexpr double kMicrosecond = 1e-6;
    families->Counter("dlsm_db_stalls_total", "Waits of writers, by what they waited for", stall[0],
                      {{"reason", reason}});
    families->Gauge("dlsm_db_stall_longest_seconds", "The longest of these waits so far",
                    stall[2] * kMicrosecond, {{"reason", reason}});
  });
}

void AddWire(DB* db, MetricFamilies* families) {
  ForEachLine<5>(db, "dlsm.wire", [&](const std::string& purpose, const double(&counts)[5]) {
    families->Counter("dlsm_db_wire_round_trips_total", "Round trips to memory nodes", counts[0],
                      {{"purpose", purpose}});
    families->Counter("dlsm_db_wire_requests_total", "Work requests to memory nodes", counts[1],
                      {{"purpose", purpose}});
    families->Counter("dlsm_db_wire_bytes_total", "Bytes from and to memory nodes", counts[3],
                      {{"purpose", purpose}, {"direction", "read"}});
    families->Counter("dlsm_db_wire_bytes_total", "Bytes from and to memory nodes", counts[4],
                      {{"purpose", purpose}, {"direction", "written"}});
  });
  ForEachLine<2>(db, "dlsm.rpc", [&](const std::string& method, const double(&counts)[2]) {
    families->Counter("dlsm_db_rpc_calls_total", "Calls to memory nodes", counts[0],
                      {{"method", method}});
    families->Counter("dlsm_db_rpc_failures_total", "Calls to memory nodes that failed", counts[1],
                      {{"method", method}});
  });
}

void AddLog(DB* db, MetricFamilies* families) {
  std::map<std::string, double> log = NumbersOf(db, "dlsm.log");
  if (log.empty()) return;
  const double end = log["end"];
  const bool has_files = log["files"] > 0;
  // In mapped memory a frame is safe as soon as it is complete.
  const double safe = has_files ? log["persisted"] : log["mapped"] > 0 ? end : log["durable"];
  families->Counter("dlsm_db_log_bytes_total", "Bytes that were written into the log", end);
  families->Gauge("dlsm_db_log_waiting_bytes",
                  "Bytes of the log that are not yet in the log node's files, or memory if it has "
                  "none",
                  end > safe ? end - safe : 0);
  families->Gauge("dlsm_db_log_needed_bytes", "Bytes of the log whose writes are not in tables yet",
                  end - log["start"]);
  families->Gauge("dlsm_db_log_held_bytes", "Bytes of memory nodes that the log has",
                  (log["segments"] + log["spare-segments"]) * log["segment-bytes"]);
}

// A memory node inside this process has no port of its own to tell its metrics.
void AddEmbeddedNode(DB* db, MetricFamilies* families) {
  std::string fabric;
  if (!db->GetProperty("dlsm.fabric", &fabric) || fabric != "local") return;
  std::map<std::string, double> node = NumbersOf(db, "dlsm.memory-node");
  families->Gauge("dlsm_db_embedded_capacity_bytes", "Memory of the embedded memory node",
                  node["capacity"]);
  families->Gauge("dlsm_db_embedded_used_bytes", "Of this, what databases own", node["used"]);
  families->Gauge("dlsm_db_embedded_largest_free_bytes", "The largest free piece of it",
                  node["largest-free"]);
}

}  // namespace

void AddProperties(DB* db, MetricFamilies* families) {
  AddNumbers(db, families);
  AddMemory(db, families);
  AddStalls(db, families);
  AddWire(db, families);
  AddLog(db, families);
  AddEmbeddedNode(db, families);
}

}  // namespace dlsm
