#include "benchmarks/benchmark_settings.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

namespace dlsm::bench {
namespace {

constexpr uint64_t kCountMax = uint64_t{1} << 40;

struct Setting {
  const char* name;
  uint64_t least;
  uint64_t most;
  void (*set)(uint64_t value, BenchOptions* options);
};

// The bounds are those of the flags; but what a flag has a 0 for that stands for another value is
// left out instead.
constexpr Setting kSettings[] = {
    {"threads", 1, 1024,
     [](uint64_t value, BenchOptions* options) {
       options->threads = static_cast<uint32_t>(value);
     }},
    {"reads", 1, kCountMax, [](uint64_t value, BenchOptions* options) { options->reads = value; }},
    {"writes", 1, kCountMax,
     [](uint64_t value, BenchOptions* options) { options->writes = value; }},
    {"batch_size", 1, 1'000'000,
     [](uint64_t value, BenchOptions* options) { options->batch_size = value; }},
    {"readwritepercent", 0, 100,
     [](uint64_t value, BenchOptions* options) {
       options->read_percent = static_cast<uint32_t>(value);
     }},
    {"seek_nexts", 0, kCountMax,
     [](uint64_t value, BenchOptions* options) { options->seek_nexts = value; }},
    {"index_records", 1, kCountMax,
     [](uint64_t value, BenchOptions* options) { options->index_records = value; }},
};

std::string WorkloadNames() {
  std::string names;
  for (const Workload& workload : Workloads()) {
    names += (names.empty() ? "" : ", ") + std::string(workload.name);
  }
  return names;
}

Status Refused(const std::string& text, const std::string& part, const std::string& allowed) {
  return Status::InvalidArgument(
      fmt::format("benchmark {}: '{}': allowed is {}", text, part, allowed));
}

// Sets in *options what `part`, name=value, says.
Status Apply(const std::string& text, const std::string& part, BenchOptions* options) {
  const size_t equals = part.find('=');
  for (const Setting& setting : kSettings) {
    if (part.substr(0, equals) != setting.name) continue;
    uint64_t value = 0;
    const char* const end = part.data() + part.size();
    const char* const begin = equals == std::string::npos ? end : part.data() + equals + 1;
    const auto [parsed, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || parsed != end || value < setting.least || value > setting.most) {
      return Refused(text, part,
                     fmt::format("{}={} to {}", setting.name, setting.least, setting.most));
    }
    setting.set(value, options);
    return Status::OK();
  }
  return Refused(text, part, BenchmarkSettingNames());
}

std::vector<std::string> SplitAtColons(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::string BenchmarkSettingNames() {
  std::string names;
  for (const Setting& setting : kSettings) {
    names += (names.empty() ? "" : ", ") + std::string(setting.name) + "=";
  }
  return names;
}

Status ParseBenchmark(const std::string& text, const BenchOptions& defaults, Benchmark* benchmark) {
  const std::vector<std::string> parts = SplitAtColons(text);
  Benchmark parsed{text, FindWorkload(parts.front()), defaults};
  if (parsed.workload == nullptr) return Refused(text, parts.front(), WorkloadNames());
  for (size_t i = 1; i < parts.size(); ++i) {
    Status status = Apply(text, parts[i], &parsed.options);
    if (!status.ok()) return status;
  }
  *benchmark = std::move(parsed);
  return Status::OK();
}

}  // namespace dlsm::bench
