#include "benchmarks/two_phase_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dlsm::bench {
namespace {

constexpr double kMicrosPerNs = 1e-3;

using Figures = std::vector<NamedFigure>;
using TreeField = std::optional<uint64_t> TreeState::*;

// Mean and maximum over the seconds of a phase; nothing if the store does not tell.
struct OverTime {
  std::optional<double> mean;
  std::optional<double> max;
};

OverTime Summarize(const std::vector<SecondRow>& rows, TreeField field) {
  double sum = 0, max = 0;
  size_t count = 0;
  for (const SecondRow& row : rows) {
    const std::optional<uint64_t>& value = row.tree.*field;
    if (!value) continue;
    ++count;
    sum += static_cast<double>(*value);
    max = std::max(max, static_cast<double>(*value));
  }
  if (count == 0) return {};
  return {sum / static_cast<double>(count), max};
}

std::string Percentiles(const Histogram& ns) {
  const Latencies l = ToLatencies(ns, kMicrosPerNs);
  return fmt::format("P50 {} P99 {} P99.9 {} P99.99 {} max {} us", ShortNumber(l.p50_us),
                     ShortNumber(l.p99_us), ShortNumber(l.p999_us), ShortNumber(l.p9999_us),
                     ShortNumber(l.max_us));
}

void AddPercentiles(const std::string& name, const Histogram& ns, Figures* figures) {
  const Latencies l = ToLatencies(ns, kMicrosPerNs);
  figures->push_back({name + "_p50_us", l.p50_us});
  figures->push_back({name + "_p99_us", l.p99_us});
  figures->push_back({name + "_p999_us", l.p999_us});
  figures->push_back({name + "_p9999_us", l.p9999_us});
  figures->push_back({name + "_max_us", l.max_us});
}

std::optional<double> Millis(const StallTotal& stall) {
  if (!stall.micros.has_value()) return std::nullopt;
  return static_cast<double>(*stall.micros) * 1e-3;
}

// Causes that did not occur are left out.
std::string StallText(const std::vector<StallTotal>& stalls) {
  if (stalls.empty()) return "the engine does not tell";
  std::string text;
  for (const StallTotal& stall : stalls) {
    const std::optional<double> millis = Millis(stall);
    if (millis.value_or(0) == 0 && stall.count.value_or(0) == 0) continue;
    text += (text.empty() ? "" : ", ") + stall.cause;
    if (millis) text += fmt::format(" {} ms", ShortNumber(*millis));
    if (stall.count) text += fmt::format(" {} times", *stall.count);
  }
  return text.empty() ? "none" : text;
}

void AddStalls(const std::string& phase, const std::vector<StallTotal>& stalls, Figures* figures) {
  for (const StallTotal& stall : stalls) {
    if (stall.micros) figures->push_back({phase + "_stall_ms_" + stall.cause, Millis(stall)});
    if (!stall.count) continue;
    figures->push_back({phase + "_stalls_" + stall.cause, static_cast<double>(*stall.count)});
  }
}

std::string TreeText(const std::vector<SecondRow>& rows) {
  const OverTime components = Summarize(rows, &TreeState::components);
  if (!components.mean) return "the engine does not tell";
  const OverTime tables = Summarize(rows, &TreeState::tables);
  const OverTime level0 = Summarize(rows, &TreeState::level0_tables);
  const OverTime pending = Summarize(rows, &TreeState::pending_bytes);
  std::string text = fmt::format(
      "{} on average, at most {}; tables {}, at most {}; in level 0 {}, at most {}",
      ShortNumber(*components.mean), *components.max, ShortNumber(tables.mean.value_or(0)),
      tables.max.value_or(0), ShortNumber(level0.mean.value_or(0)), level0.max.value_or(0));
  if (pending.max) text += fmt::format("; due to be merged at most {:.1f} MB", *pending.max / 1e6);
  return text;
}

void AddTree(const std::vector<SecondRow>& rows, Figures* figures) {
  const auto add = [&](const std::string& name, TreeField field) {
    const OverTime over_time = Summarize(rows, field);
    figures->push_back({name + "_mean", over_time.mean});
    figures->push_back({name + "_max", over_time.max});
  };
  add("components", &TreeState::components);
  add("tables", &TreeState::tables);
  add("level0_tables", &TreeState::level0_tables);
  add("pending_bytes", &TreeState::pending_bytes);
}

std::string TestingText(const BenchOptions& options, const TwoPhaseOutcome& outcome) {
  if (!outcome.testing) return "  testing   none: the arrival rate is given\n";
  return fmt::format(
      "  testing   {:.0f} writes/s in a closed loop for {:.1f} s, after {:.1f} s of warm-up; "
      "quiet {:.2f} s later\n"
      "    processing   {}\n"
      "    stalls       {}\n"
      "    components   {}\n",
      outcome.max_throughput, options.two_phase.testing_seconds, options.two_phase.warmup_seconds,
      outcome.testing_seconds_to_quiet, Percentiles(outcome.testing->latencies.processing_ns),
      StallText(outcome.testing->stalls), TreeText(outcome.testing->rows));
}

std::string ArrivalText(const TwoPhaseOptions& options, double rate) {
  if (options.arrivals.pattern == ArrivalPattern::kConstant) {
    return fmt::format("{:.0f} writes/s arrive", rate);
  }
  return fmt::format(
      "{:.0f} writes/s arrive, {} times as many as else in the last {} s of each {} s", rate,
      options.arrivals.burst_factor, options.arrivals.burst_seconds,
      options.arrivals.burst_period_seconds);
}

std::string ReadText(ReadKind kind, const ReadLatencies& reads, double seconds) {
  return fmt::format("    {:<12} {} ({:.1f}/s, {:.1f} entries each): {}\n", ReadKindName(kind),
                     reads.ns.count(), static_cast<double>(reads.ns.count()) / seconds,
                     static_cast<double>(reads.entries) /
                         static_cast<double>(std::max<uint64_t>(1, reads.ns.count())),
                     Percentiles(reads.ns));
}

std::string RunningText(const BenchOptions& options, const TwoPhaseOutcome& outcome) {
  const PhaseOutcome& running = outcome.running;
  std::string text = fmt::format(
      "  running   {} for {:.1f} s; {} of {} completed within, the last after {:.1f} s\n"
      "    write        {} (from the arrival)\n"
      "    processing   {}\n"
      "    backlog      at most {} writes at the end of a second\n"
      "    stalls       {}\n"
      "    components   {}\n",
      ArrivalText(options.two_phase, outcome.arrival_rate), options.two_phase.running_seconds,
      running.latencies.completed_in_time, running.arrivals(), running.seconds,
      Percentiles(running.latencies.write_ns), Percentiles(running.latencies.processing_ns),
      running.BacklogMax(), StallText(running.stalls), TreeText(running.rows));
  for (size_t i = 0; i < running.reads.size(); ++i) {
    text += ReadText(options.two_phase.reads[i], running.reads[i], running.seconds);
  }
  const uint64_t undone = running.arrivals() - running.completions();
  if (undone > 0) {
    text += fmt::format(
        "    NOT SUSTAINED: {} arrivals were left undone; their latency is at least what is "
        "counted\n",
        undone);
  }
  return text;
}

// Threads that read alike are one figure.
void AddReads(const BenchOptions& options, const PhaseOutcome& running, Figures* figures) {
  for (const ReadKind kind : {ReadKind::kLookup, ReadKind::kShortScan, ReadKind::kLongScan}) {
    ReadLatencies sum;
    bool asked = false;
    for (size_t i = 0; i < running.reads.size(); ++i) {
      if (options.two_phase.reads[i] != kind) continue;
      asked = true;
      sum.ns.Merge(running.reads[i].ns);
      sum.entries += running.reads[i].entries;
    }
    if (!asked) continue;
    const std::string name = ReadKindName(kind);
    const double count = static_cast<double>(sum.ns.count());
    figures->push_back({name + "_count", count});
    figures->push_back({name + "_per_sec", count / running.seconds});
    figures->push_back({name + "_entries", static_cast<double>(sum.entries)});
    AddPercentiles(name, sum.ns, figures);
  }
}

void AddTesting(const BenchOptions& options, const TwoPhaseOutcome& outcome, Figures* figures) {
  if (!outcome.testing) {
    figures->push_back({"max_throughput", std::nullopt});
    return;
  }
  figures->push_back({"max_throughput", outcome.max_throughput});
  figures->push_back({"utilization", options.two_phase.utilization});
  figures->push_back({"testing_seconds_to_quiet", outcome.testing_seconds_to_quiet});
  AddPercentiles("testing", outcome.testing->latencies.processing_ns, figures);
  AddStalls("testing", outcome.testing->stalls, figures);
}

void AddRunning(const BenchOptions& options, const TwoPhaseOutcome& outcome, Figures* figures) {
  const PhaseOutcome& running = outcome.running;
  const auto add = [&](const char* name, uint64_t number) {
    figures->push_back({name, static_cast<double>(number)});
  };
  figures->push_back({"arrival_rate", outcome.arrival_rate});
  add("arrivals", running.arrivals());
  add("completions", running.completions());
  add("completions_in_time", running.latencies.completed_in_time);
  add("undone", running.arrivals() - running.completions());
  add("backlog_max", running.BacklogMax());
  AddPercentiles("write", running.latencies.write_ns, figures);
  AddPercentiles("processing", running.latencies.processing_ns, figures);
  AddStalls("running", running.stalls, figures);
  AddTree(running.rows, figures);
  AddReads(options, running, figures);
}

}  // namespace

void DescribeTwoPhase(const BenchOptions& options, const TwoPhaseOutcome& outcome,
                      BenchResult* result) {
  const PhaseOutcome& running = outcome.running;
  result->ops = running.completions();
  result->latencies = ToLatencies(running.latencies.write_ns, kMicrosPerNs);
  result->user_bytes_written = running.user_bytes_written;
  result->found = running.found;
  result->misses = running.misses;
  AddTesting(options, outcome, &result->figures);
  AddRunning(options, outcome, &result->figures);
  result->text = TestingText(options, outcome) + RunningText(options, outcome);
}

}  // namespace dlsm::bench
