#include "benchmarks/two_phase_flags.h"

#include <gflags/gflags.h>

#include "benchmarks/flag_checks.h"
#include "benchmarks/running_reads.h"

DEFINE_double(warmup_seconds, 10, "twophase: seconds of the testing phase that are not counted");
DEFINE_double(testing_seconds, 60, "twophase: seconds of the testing phase that are counted");
DEFINE_double(running_seconds, 60, "twophase: seconds in which writes arrive");
DEFINE_double(utilization, 0.95,
              "twophase: arrivals of the running phase, as a share of the throughput that the "
              "testing phase measured");
DEFINE_double(arrival_rate, 0,
              "twophase: arrivals per second of the running phase; then there is no testing phase");
DEFINE_string(arrivals, "constant", "twophase: constant or bursty");
DEFINE_double(burst_factor, 4,
              "twophase, bursty: how many times as many writes arrive in a burst as before it");
DEFINE_double(burst_seconds, 5, "twophase, bursty: how long a burst lasts");
DEFINE_double(burst_period_seconds, 30,
              "twophase, bursty: from the end of a burst to the next end");
DEFINE_string(running_reads, "",
              "twophase: reads beside the writes of the running phase, a thread for each in this "
              "list: lookup, short_scan, long_scan");
DEFINE_uint64(short_scan_entries, 100, "twophase: entries of a short_scan");
DEFINE_uint64(long_scan_entries, 1'000'000, "twophase: entries of a long_scan");
DEFINE_string(timeseries, "",
              "twophase: file that gets a line of figures for each second (CSV); script/plot "
              "draws it");

namespace dlsm::bench {
namespace {

constexpr double kSecondsMin = 0.01;
constexpr double kSecondsMax = 1e6;
constexpr size_t kReadersMax = 256;

Status CheckTwoPhaseRanges() {
  constexpr uint64_t kEntriesMax = uint64_t{1} << 40;
  return FirstError({
      CheckRange<double>("warmup_seconds", FLAGS_warmup_seconds, 0, kSecondsMax),
      CheckRange<double>("testing_seconds", FLAGS_testing_seconds, kSecondsMin, kSecondsMax),
      CheckRange<double>("running_seconds", FLAGS_running_seconds, kSecondsMin, kSecondsMax),
      // More than 1 shows how a store behaves that is asked too much.
      CheckRange<double>("utilization", FLAGS_utilization, 0.001, 10),
      CheckRange<double>("arrival_rate", FLAGS_arrival_rate, 0, 1e9),
      CheckRange<double>("burst_factor", FLAGS_burst_factor, 1, 1e6),
      CheckRange<double>("burst_period_seconds", FLAGS_burst_period_seconds, kSecondsMin,
                         kSecondsMax),
      CheckRange<uint64_t>("short_scan_entries", FLAGS_short_scan_entries, 1, kEntriesMax),
      CheckRange<uint64_t>("long_scan_entries", FLAGS_long_scan_entries, 1, kEntriesMax),
      0 < FLAGS_burst_seconds && FLAGS_burst_seconds < FLAGS_burst_period_seconds
          ? Status::OK()
          : Wrong("burst_seconds", FLAGS_burst_seconds,
                  "more than 0 and less than --burst_period_seconds"),
  });
}

Status ParseReads(std::vector<ReadKind>* reads) {
  for (const std::string& name : SplitAtCommas(FLAGS_running_reads)) {
    ReadKind kind{};
    if (!ParseReadKind(name, &kind)) {
      return Wrong("running_reads", name, "a list of lookup, short_scan, long_scan");
    }
    reads->push_back(kind);
  }
  if (reads->size() <= kReadersMax) return Status::OK();
  return Wrong("running_reads", FLAGS_running_reads, "a list of at most 256");
}

}  // namespace

Status MakeTwoPhaseOptions(TwoPhaseOptions* options) {
  size_t pattern = 0;
  Status status =
      FirstError({CheckTwoPhaseRanges(), ParseReads(&options->reads),
                  CheckChoice("arrivals", FLAGS_arrivals, {"constant", "bursty"}, &pattern)});
  if (!status.ok()) return status;
  options->warmup_seconds = FLAGS_warmup_seconds;
  options->testing_seconds = FLAGS_testing_seconds;
  options->running_seconds = FLAGS_running_seconds;
  options->utilization = FLAGS_utilization;
  options->arrival_rate = FLAGS_arrival_rate;
  options->arrivals.pattern = static_cast<ArrivalPattern>(pattern);
  options->arrivals.burst_factor = FLAGS_burst_factor;
  options->arrivals.burst_seconds = FLAGS_burst_seconds;
  options->arrivals.burst_period_seconds = FLAGS_burst_period_seconds;
  options->short_scan_entries = FLAGS_short_scan_entries;
  options->long_scan_entries = FLAGS_long_scan_entries;
  options->time_series = FLAGS_timeseries;
  return status;
}

}  // namespace dlsm::bench
