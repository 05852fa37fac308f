#include "benchmarks/time_series.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "port/error_text.h"

namespace dlsm::bench {
namespace {

constexpr const char* kHeading =
    "phase,second,arrivals,completions,p50_us,p99_us,p999_us,max_us,stalled_ms,components,tables,"
    "level0_tables,pending_bytes\n";

std::string Field(const std::optional<uint64_t>& number) {
  return number ? std::to_string(*number) : std::string();
}

std::string Line(const std::string& phase, const SecondRow& row) {
  return fmt::format("{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{},{}\n", phase,
                     row.second, row.arrivals, row.completions, row.p50_us, row.p99_us, row.p999_us,
                     row.max_us, row.stalled_ms, Field(row.tree.components), Field(row.tree.tables),
                     Field(row.tree.level0_tables), Field(row.tree.pending_bytes));
}

Status Write(const std::string& path, std::ios::openmode mode, const std::string& text) {
  if (path.empty()) return Status::OK();
  std::ofstream file(path, mode);
  file << text;
  file.close();
  if (file) return Status::OK();
  return Status::IOError(fmt::format("cannot write --timeseries={}", path), port::ErrorText(errno));
}

}  // namespace

void TimeSeries::Recorder::Advance(uint64_t second) {
  assert(second > second_);
  series_.Merge(index_, second_, second, latency_ns_);
  latency_ns_.Clear();
  second_ = second;
}

void TimeSeries::Recorder::Finish() {
  series_.CountCompletions(completions_);
  series_.Merge(index_, second_, kFinished, latency_ns_);
  latency_ns_.Clear();
  completions_.clear();
}

TimeSeries::TimeSeries(size_t recorders) : reached_(recorders, 0) {
  for (size_t i = 0; i < recorders; ++i) {
    recorders_.push_back(std::make_unique<Recorder>(*this, i));
  }
}

void TimeSeries::Sample(uint64_t second, uint64_t stalled_micros, const TreeState& tree) {
  const port::MutexLock lock(mutex_);
  SecondRow& row = RowLocked(second);
  row.stalled_ms += static_cast<double>(stalled_micros) * 1e-3;
  row.tree = tree;
}

std::vector<SecondRow> TimeSeries::Rows() const {
  const port::MutexLock lock(mutex_);
  assert(open_.empty());
  return rows_;
}

void TimeSeries::Merge(size_t recorder, uint64_t from, uint64_t to, const Histogram& latency_ns) {
  const port::MutexLock lock(mutex_);
  if (latency_ns.count() > 0) open_[from].Merge(latency_ns);
  reached_[recorder] = to;
  CloseSecondsLocked();
}

void TimeSeries::CountCompletions(const std::vector<uint64_t>& completions) {
  const port::MutexLock lock(mutex_);
  for (size_t second = 0; second < completions.size(); ++second) {
    RowLocked(second).completions += completions[second];
  }
}

SecondRow& TimeSeries::RowLocked(uint64_t second) {
  while (rows_.size() <= second) {
    rows_.emplace_back();
    rows_.back().second = rows_.size() - 1;
  }
  return rows_[second];
}

void TimeSeries::CloseSecondsLocked() {
  const uint64_t reached = *std::min_element(reached_.begin(), reached_.end());
  while (!open_.empty() && open_.begin()->first < reached) {
    const auto& [second, latency_ns] = *open_.begin();
    SecondRow& row = RowLocked(second);
    row.arrivals = latency_ns.count();
    row.p50_us = latency_ns.Percentile(50) * 1e-3;
    row.p99_us = latency_ns.Percentile(99) * 1e-3;
    row.p999_us = latency_ns.Percentile(99.9) * 1e-3;
    row.max_us = static_cast<double>(latency_ns.max()) * 1e-3;
    open_.erase(open_.begin());
  }
}

Status TimeSeriesFile::Create() const { return Write(path_, std::ios::trunc, kHeading); }

Status TimeSeriesFile::Append(const std::string& phase, const std::vector<SecondRow>& rows) const {
  std::string text;
  for (const SecondRow& row : rows) text += Line(phase, row);
  return Write(path_, std::ios::app, text);
}

}  // namespace dlsm::bench
