#include "benchmarks/two_phase.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/cost_meter.h"
#include "benchmarks/run_threads.h"
#include "benchmarks/seconds_since.h"
#include "benchmarks/step_taker.h"
#include "benchmarks/two_phase_report.h"
#include "benchmarks/waiting_line.h"

namespace dlsm::bench {
namespace {

// How long the backlog of the running phase is worked off, at most: the length of the phase again,
// and no longer than this. A store that needs more does not sustain the load, which the arrivals
// left undone then show.
constexpr double kDrainSecondsMax = 60;
// How late the sampler sees that the writers are done, at most.
constexpr auto kSamplerNap = std::chrono::milliseconds(10);

constexpr uint64_t kSecondNs = 1'000'000'000;

uint64_t ToNs(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

uint64_t MicrosOf(const std::vector<StallTotal>& stalls) {
  uint64_t micros = 0;
  for (const StallTotal& stall : stalls) micros += stall.micros.value_or(0);
  return micros;
}

// Causes that only the later totals have count from 0.
std::vector<StallTotal> StallDifference(std::vector<StallTotal> after,
                                        const std::vector<StallTotal>& before) {
  for (StallTotal& total : after) {
    for (const StallTotal& earlier : before) {
      if (earlier.cause != total.cause) continue;
      if (total.micros) *total.micros -= earlier.micros.value_or(0);
      if (total.count) *total.count -= earlier.count.value_or(0);
    }
  }
  return after;
}

}  // namespace

// The threads of a phase: writers, which are measured, then readers, then one that looks at the
// engine every second.
class TwoPhase::Phase {
 public:
  // What a writer does; `write` is its next step.
  using Loop = std::function<void(const std::function<bool()>& write, WriteLatencies* latencies,
                                  TimeSeries::Recorder* recorder)>;

  Phase(const TwoPhase& owner, std::vector<ReadKind> reads)
      : owner_(owner),
        reads_(std::move(reads)),
        plan_(DescribeStream(owner.workload_, owner.options_, owner.history_.NextVersion())),
        shared_{owner.options_, owner.values_, owner.ticks_},
        clock_(owner.ticks_),
        series_(owner.options_.threads),
        write_latencies_(owner.options_.threads),
        read_latencies_(reads_.size()) {
    shared_.measured_threads = owner.options_.threads;
    const uint32_t threads = shared_.measured_threads + static_cast<uint32_t>(reads_.size()) + 1;
    for (uint32_t i = 0; i < threads; ++i) {
      // The phases of a run draw differently.
      const uint64_t seed =
          WorkerSeed(owner.options_.seed ^ plan_.description().version, owner.run_, i);
      workers_.push_back(std::make_unique<Worker>(shared_, i, UINT64_MAX, seed));
    }
  }

  ArrivalClock& clock() { return clock_; }
  CommonStart& start() { return start_; }

  Status Run(const char* name, const Loop& loop, PhaseOutcome* outcome) {
    const std::vector<StallTotal> stalls_before = owner_.engine_.Stalls();
    stalled_micros_ = MicrosOf(stalls_before);
    ProgressLine progress(owner_.NameOf(name), 0, owner_.options_.progress);
    outcome->seconds = RunThreads(
        owner_.engine_, shared_, workers_, [&](Worker& worker) { RunThread(worker, loop); },
        progress);
    outcome->stalls = StallDifference(owner_.engine_.Stalls(), stalls_before);
    return Collect(name, outcome);
  }

 private:
  void RunThread(Worker& worker, const Loop& loop) {
    const size_t writers = shared_.measured_threads;
    const size_t index = worker.index();
    if (index < writers) {
      RunWriter(worker, loop);
    } else if (index < writers + reads_.size()) {
      const ReadKind kind = reads_[index - writers];
      const TwoPhaseOptions& options = owner_.options_.two_phase;
      const uint64_t entries =
          kind == ReadKind::kShortScan ? options.short_scan_entries : options.long_scan_entries;
      RunReads(kind, entries, plan_.chooser(), worker, &read_latencies_[index - writers]);
    } else {
      Sample(worker);
    }
  }

  void RunWriter(Worker& worker, const Loop& loop) {
    StepTaker taker(worker, plan_, worker.index());
    const auto write = [&] {
      const uint64_t done = taker.TakeOne();
      worker.CountDone(done);
      return done > 0;
    };
    loop(write, &write_latencies_[worker.index()], &series_.recorder(worker.index()));
    series_.recorder(worker.index()).Finish();
  }

  // At the end of each second, and when the writers are done.
  void Sample(const Worker& worker) {
    const uint64_t start_ns = start_.Get(clock_);
    bool running = true;
    for (uint64_t second = 0; running; ++second) {
      const uint64_t end_ns = start_ns + (second + 1) * kSecondNs;
      uint64_t now = clock_.NowNs();
      for (; running && now < end_ns; now = clock_.NowNs()) {
        const auto left = std::chrono::nanoseconds(end_ns - now);
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kSamplerNap));
        running = worker.MeasuredThreadsRun();
      }
      // The last write may have completed in the next second, which then gets a sample too.
      if (now >= end_ns) running = true;
      SampleSecond(second);
    }
  }

  void SampleSecond(uint64_t second) {
    const uint64_t stalled_micros = MicrosOf(owner_.engine_.Stalls());
    series_.Sample(second, stalled_micros - stalled_micros_, owner_.engine_.Tree());
    stalled_micros_ = stalled_micros;
  }

  Status Collect(const char* name, PhaseOutcome* outcome) {
    std::vector<uint64_t> steps;
    Status status;
    for (const auto& worker : workers_) {
      if (status.ok()) status = worker->status();
      outcome->user_bytes_written += worker->bytes_written();
      outcome->found += worker->found();
      outcome->misses += worker->missed();
      if (worker->measured()) steps.push_back(worker->steps());
    }
    owner_.history_.Add(plan_.description(), std::move(steps));
    for (const WriteLatencies& latencies : write_latencies_) outcome->latencies.Merge(latencies);
    outcome->reads = std::move(read_latencies_);
    outcome->rows = series_.Rows();
    Status written = owner_.file_.Append(name, outcome->rows);
    return status.ok() ? written : status;
  }

  const TwoPhase& owner_;
  const std::vector<ReadKind> reads_;
  const StreamPlan plan_;
  SharedState shared_;
  TickArrivalClock clock_;
  CommonStart start_;
  TimeSeries series_;
  std::vector<std::unique_ptr<Worker>> workers_;
  // Each element is one thread's.
  std::vector<WriteLatencies> write_latencies_;
  std::vector<ReadLatencies> read_latencies_;
  uint64_t stalled_micros_ = 0;  // The sampler's, while threads run: the total at the last sample.
};

uint64_t PhaseOutcome::BacklogMax() const {
  uint64_t arrived = 0, completed = 0, most = 0;
  for (const SecondRow& row : rows) {
    arrived += row.arrivals;
    completed += row.completions;
    most = std::max(most, arrived - completed);
  }
  return most;
}

// What a store sustains when no merge is put off for others: otherwise a testing phase counts
// writes whose merges it has left undone.
class TwoPhase::SustainableMerges {
 public:
  explicit SustainableMerges(Engine& engine) : engine_(engine) {}
  ~SustainableMerges() {
    // After an error, which is the one to tell.
    if (active_) engine_.ScheduleMergesSustainably(false).PermitUncheckedError();
  }
  Status Begin() {
    Status status = engine_.ScheduleMergesSustainably(true);
    active_ = status.ok();
    return status;
  }
  Status End() {
    active_ = false;
    return engine_.ScheduleMergesSustainably(false);
  }

 private:
  Engine& engine_;
  bool active_ = false;
};

TwoPhase::TwoPhase(const Workload& workload, const BenchOptions& options, Engine& engine,
                   const ValueGenerator& values, const TickClock& ticks, WriteHistory& history,
                   uint64_t run)
    : workload_(workload),
      options_(options),
      engine_(engine),
      values_(values),
      ticks_(ticks),
      history_(history),
      run_(run),
      file_(options.two_phase.time_series) {}

std::string TwoPhase::NameOf(const char* phase) const {
  return std::string(workload_.name) + " " + phase;
}

Status TwoPhase::Run(BenchResult* result) {
  TwoPhaseOutcome outcome;
  outcome.arrival_rate = options_.two_phase.arrival_rate;
  if (outcome.arrival_rate == 0) {
    Status status = RunTesting(&outcome);
    if (!status.ok()) return status;
    outcome.arrival_rate = options_.two_phase.utilization * outcome.max_throughput;
  }
  CostMeter meter(engine_);
  Status status = RunOpen(outcome.arrival_rate, &outcome.running);
  const auto written = std::chrono::steady_clock::now();
  if (status.ok()) status = AwaitQuiet(engine_, NameOf("running"), options_.progress);
  meter.Stop(result);
  result->seconds = outcome.running.seconds;
  result->seconds_to_quiet = result->seconds + SecondsSince(written);
  result->threads = options_.threads;
  DescribeTwoPhase(options_, outcome, result);
  return status;
}

Status TwoPhase::RunTesting(TwoPhaseOutcome* outcome) {
  const TwoPhaseOptions& options = options_.two_phase;
  SustainableMerges merges(engine_);
  Status status = merges.Begin();
  if (status.ok() && options.warmup_seconds > 0) {
    PhaseOutcome ignored;
    status = RunClosed(options.warmup_seconds, "warmup", &ignored);
  }
  PhaseOutcome& testing = outcome->testing.emplace();
  if (status.ok()) status = RunClosed(options.testing_seconds, "testing", &testing);
  const auto written = std::chrono::steady_clock::now();
  if (status.ok()) status = AwaitQuiet(engine_, NameOf("testing"), options_.progress);
  if (status.ok()) status = merges.End();
  if (!status.ok()) return status;
  outcome->testing_seconds_to_quiet = SecondsSince(written);
  const uint64_t completed = testing.latencies.completed_in_time;
  outcome->max_throughput = static_cast<double>(completed) / options.testing_seconds;
  if (completed > 0) return status;
  return Status::Aborted("no write completed in the testing phase: raise --testing_seconds");
}

Status TwoPhase::RunClosed(double seconds, const char* name, PhaseOutcome* outcome) {
  Phase phase(*this, {});
  const auto loop = [&](const auto& write, auto* latencies, auto* recorder) {
    RunClosedLoop(ToNs(seconds), phase.clock(), phase.start(), write, latencies, recorder);
  };
  return phase.Run(name, loop, outcome);
}

Status TwoPhase::RunOpen(double arrival_rate, PhaseOutcome* outcome) {
  const TwoPhaseOptions& options = options_.two_phase;
  ArrivalPlan plan = options.arrivals;
  plan.mean_rate = arrival_rate;
  const ArrivalSchedule schedule(plan, options.running_seconds);
  Phase phase(*this, options.reads);
  OpenLoop open_loop(schedule, phase.clock(),
                     ToNs(std::min(options.running_seconds, kDrainSecondsMax)));
  const auto loop = [&](const auto& write, auto* latencies, auto* recorder) {
    open_loop.Run(phase.start(), write, latencies, recorder);
  };
  return phase.Run("running", loop, outcome);
}

}  // namespace dlsm::bench
