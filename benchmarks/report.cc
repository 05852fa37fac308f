#include "benchmarks/report.h"

#include <fmt/core.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "port/error_text.h"

namespace dlsm::bench {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// A JSON object, field by field.
class JsonObject {
 public:
  void Add(const std::string& name, const std::string& text) { AddRaw(name, Quoted(text)); }
  void Add(const std::string& name, uint64_t number) { AddRaw(name, fmt::format("{}", number)); }
  // Counts in full, other figures as exact as they are.
  void Add(const std::string& name, double number) {
    const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
    AddRaw(name, whole ? fmt::format("{:.0f}", number) : fmt::format("{:.6g}", number));
  }
  void Add(const std::string& name, const std::optional<double>& number) {
    number ? Add(name, *number) : AddRaw(name, "null");
  }
  void Add(const std::string& name, const JsonObject& object) { AddRaw(name, object.Text()); }
  std::string Text() const { return "{" + fields_ + "}"; }

 private:
  void AddRaw(const std::string& name, const std::string& value) {
    if (!fields_.empty()) fields_ += ", ";
    fields_ += fmt::format("\"{}\": {}", name, value);
  }
  std::string fields_;
};

// By purpose, as totals: a flush or a merge is not an operation of the workload.
JsonObject WireObject(const std::vector<WireTotal>& wire) {
  JsonObject purposes;
  for (const WireTotal& total : wire) {
    JsonObject counts;
    counts.Add("round_trips", total.round_trips);
    counts.Add("work_requests", total.work_requests);
    counts.Add("doorbells", total.doorbells);
    counts.Add("read_bytes", total.read_bytes);
    counts.Add("write_bytes", total.write_bytes);
    purposes.Add(total.purpose, counts);
  }
  return purposes;
}

std::string ObjectText(const BenchResult& result) {
  const WireTotal wire = result.WireSum();
  JsonObject object;
  object.Add("name", result.name);
  object.Add("engine", result.engine);
  object.Add("threads", uint64_t{result.threads});
  object.Add("ops", result.ops);
  object.Add("seconds", result.seconds);
  object.Add("ops_per_sec", result.OpsPerSecond());
  object.Add("micros_per_op", result.MicrosPerOp());
  object.Add("p50_us", result.latencies.p50_us);
  object.Add("p99_us", result.latencies.p99_us);
  object.Add("p999_us", result.latencies.p999_us);
  object.Add("p9999_us", result.latencies.p9999_us);
  object.Add("max_us", result.latencies.max_us);
  object.Add("cpu_seconds", result.CpuSeconds());
  object.Add("peak_rss_bytes", result.peak_rss_bytes);
  object.Add("round_trips_per_op", result.PerOp(static_cast<double>(wire.round_trips)));
  object.Add("wire_read_bytes_per_op", result.PerOp(static_cast<double>(wire.read_bytes)));
  object.Add("wire_write_bytes_per_op", result.PerOp(static_cast<double>(wire.write_bytes)));
  object.Add("write_amplification", result.WriteAmplification());
  object.Add("index_bytes_per_key", result.index_bytes_per_key);
  object.Add("found", result.found);
  object.Add("misses", result.misses);
  object.Add("seconds_to_quiet", result.seconds_to_quiet.value_or(result.seconds));
  object.Add("own_cpu_seconds", result.own_cpu_seconds);
  object.Add("memory_node_cpu_seconds", result.memory_node_cpu_seconds);
  object.Add("background_writes", result.background_writes);
  object.Add("wire", WireObject(result.wire));
  if (result.value_cache) {
    JsonObject counts;
    counts.Add("hits", result.value_cache->hits);
    counts.Add("misses", result.value_cache->misses);
    counts.Add("inserts", result.value_cache->inserts);
    counts.Add("evictions", result.value_cache->evictions);
    object.Add("value_cache", counts);
  }
  for (const NamedFigure& figure : result.figures) object.Add(figure.name, figure.value);
  return object.Text();
}

std::string NumberOrDash(const std::optional<double>& value) {
  return value ? ShortNumber(*value) : "-";
}

// What has no column of its own.
std::string Remarks(const BenchResult& result) {
  std::string remarks;
  const uint64_t reads = result.found + result.misses;
  if (reads > 0) {
    remarks += fmt::format("  found {:.2f}%",
                           100 * static_cast<double>(result.found) / static_cast<double>(reads));
  }
  if (result.value_cache) {
    const uint64_t looked_up = result.value_cache->hits + result.value_cache->misses;
    if (looked_up > 0) {
      remarks +=
          fmt::format("  value cache {:.2f}%", 100 * static_cast<double>(result.value_cache->hits) /
                                                   static_cast<double>(looked_up));
    }
  }
  if (result.seconds_to_quiet) {
    const double quiet = *result.seconds_to_quiet;
    remarks += fmt::format("  quiet after {:.2f} s ({:.0f} ops/s)", quiet,
                           quiet > 0 ? static_cast<double>(result.ops) / quiet : 0);
  }
  if (result.background_writes > 0) {
    remarks += fmt::format("  {} writes beside", result.background_writes);
  }
  return remarks;
}

}  // namespace

Latencies ToLatencies(const Histogram& histogram, double micros_per_unit) {
  const auto percentile = [&](double percent) {
    return histogram.Percentile(percent) * micros_per_unit;
  };
  Latencies latencies;
  latencies.count = histogram.count();
  latencies.p50_us = percentile(50);
  latencies.p75_us = percentile(75);
  latencies.p99_us = percentile(99);
  latencies.p999_us = percentile(99.9);
  latencies.p9999_us = percentile(99.99);
  latencies.min_us = static_cast<double>(histogram.min()) * micros_per_unit;
  latencies.mean_us = histogram.Mean() * micros_per_unit;
  latencies.max_us = static_cast<double>(histogram.max()) * micros_per_unit;
  return latencies;
}

double BenchResult::WriteAmplification() const {
  return user_bytes_written == 0
             ? 0
             : static_cast<double>(storage_bytes_written) / static_cast<double>(user_bytes_written);
}

std::optional<double> BenchResult::CpuSeconds() const {
  if (!memory_node_cpu_seconds) return std::nullopt;
  return own_cpu_seconds + *memory_node_cpu_seconds;
}

WireTotal BenchResult::WireSum() const {
  WireTotal sum;
  for (const WireTotal& total : wire) {
    sum.round_trips += total.round_trips;
    sum.work_requests += total.work_requests;
    sum.doorbells += total.doorbells;
    sum.read_bytes += total.read_bytes;
    sum.write_bytes += total.write_bytes;
  }
  return sum;
}

std::string ShortNumber(double value) {
  if (value == 0) return "0";
  if (value < 10) return fmt::format("{:.3f}", value);
  if (value < 1000) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string TableHeading() {
  return fmt::format(
      "{:<22}{:>4}{:>11}{:>11}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>9}{:>9}{:>7}{:>8}{:>8}",
      "benchmark", "thr", "ops", "ops/s", "us/op", "P50 us", "P99 us", "P99.9", "max us",
      "rtrip/op", "rd B/op", "wr B/op", "w.amp", "idx/key", "cpu s");
}

std::string TableRow(const BenchResult& result) {
  const WireTotal wire = result.WireSum();
  const auto per_op = [&](uint64_t total) {
    return ShortNumber(result.PerOp(static_cast<double>(total)));
  };
  // A name with settings has a line of its own.
  const bool long_name = result.name.size() > 21;
  return (long_name ? result.name + "\n" : "") +
         fmt::format(
             "{:<22}{:>4}{:>11}{:>11.0f}{:>9}{:>9}{:>9}{:>9}{:>10}{:>9}{:>9}{:>9}{:>7}{:>8}{:>8}",
             long_name ? "" : result.name, result.threads, result.ops, result.OpsPerSecond(),
             ShortNumber(result.MicrosPerOp()), ShortNumber(result.latencies.p50_us),
             ShortNumber(result.latencies.p99_us), ShortNumber(result.latencies.p999_us),
             ShortNumber(result.latencies.max_us), per_op(wire.round_trips),
             per_op(wire.read_bytes), per_op(wire.write_bytes),
             ShortNumber(result.WriteAmplification()), NumberOrDash(result.index_bytes_per_key),
             NumberOrDash(result.CpuSeconds())) +
         Remarks(result);
}

std::string LatencyText(const BenchResult& result) {
  const Latencies& l = result.latencies;
  return fmt::format(
      "  {} calls, microseconds: min {} mean {} P50 {} P75 {} P99 {} P99.9 {} P99.99 {} max {}",
      l.count, ShortNumber(l.min_us), ShortNumber(l.mean_us), ShortNumber(l.p50_us),
      ShortNumber(l.p75_us), ShortNumber(l.p99_us), ShortNumber(l.p999_us), ShortNumber(l.p9999_us),
      ShortNumber(l.max_us));
}

std::string ToJson(const std::vector<BenchResult>& results) {
  std::string json = "[";
  for (const BenchResult& result : results) {
    json += (json.size() == 1 ? "\n  " : ",\n  ") + ObjectText(result);
  }
  return json + "\n]\n";
}

Status WriteJson(const std::string& path, const std::vector<BenchResult>& results) {
  std::ofstream file(path, std::ios::trunc);
  file << ToJson(results);
  file.close();
  if (file) return Status::OK();
  return Status::IOError(fmt::format("cannot write --json={}", path), port::ErrorText(errno));
}

}  // namespace dlsm::bench
