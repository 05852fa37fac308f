#include "benchmarks/bench_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "benchmarks/cost_meter.h"
#include "benchmarks/run_threads.h"
#include "benchmarks/seconds_since.h"
#include "benchmarks/two_phase.h"
#include "benchmarks/waiting_line.h"
#include "benchmarks/workload_runs.h"

namespace dlsm::bench {

BenchRunner::BenchRunner(const BenchOptions& options, std::string engine_name, Engine& engine)
    : options_(options),
      engine_name_(std::move(engine_name)),
      engine_(engine),
      values_(options.seed, options.value_bytes, options.compression_ratio) {}

Status BenchRunner::Open() {
  if (!options_.use_existing_db) return Empty();
  Status status = TakeHistory();
  return status.ok() ? OpenAndRead(engine_, &opening_seconds_) : status;
}

// Leaves an empty database open.
Status BenchRunner::Empty() {
  Status status = engine_.Close();
  if (status.ok()) status = engine_.Destroy();
  if (status.ok()) status = engine_.Open(/*create=*/true);
  history_.Clear();
  return status;
}

// Takes the word of options.history for what the existing database has seen.
Status BenchRunner::TakeHistory() {
  history_known_ = !options_.history.empty();
  for (const std::string& name : options_.history) {
    Benchmark benchmark;
    Status status = ParseBenchmark(name, options_, &benchmark);
    if (!status.ok()) return status;
    const Workload& workload = *benchmark.workload;
    const BenchOptions& options = benchmark.options;
    if (workload.kind == Workload::Kind::kFill) history_.Clear();
    std::vector<uint64_t> steps;
    for (uint32_t thread = 0; thread < options.threads; ++thread) {
      steps.push_back(StepsOfThread(workload, options, thread));
    }
    history_.Add(DescribeStream(workload, options, history_.NextVersion()), std::move(steps));
  }
  return Status::OK();
}

BenchResult BenchRunner::Run(const Benchmark& benchmark) {
  const Workload& workload = *benchmark.workload;
  BenchResult result;
  result.name = benchmark.name;
  result.engine = engine_name_;
  ++runs_;
  // The database that Open() left is still empty before the first write.
  if (workload.kind == Workload::Kind::kFill && history_.NextVersion() > 1) {
    result.status = Empty();
    if (!result.status.ok()) return result;
  }
  if (workload.kind == Workload::Kind::kTwoPhase) {
    result.status = TwoPhase(workload, benchmark.options, engine_, values_, clock_, history_, runs_)
                        .Run(&result);
  } else if (workload.kind == Workload::Kind::kWhole) {
    RunWhole(workload, &result);
  } else {
    RunMeasured(benchmark, &result);
  }
  return result;
}

void BenchRunner::RunWhole(const Workload& workload, BenchResult* result) {
  CostMeter meter(engine_);
  const auto start = std::chrono::steady_clock::now();
  {
    const WaitingLine line(result->name, options_.progress);
    result->status = workload.run_whole(engine_, &result->text);
  }
  result->seconds = SecondsSince(start);
  result->ops = 1;
  const double micros = result->seconds * 1e6;
  result->latencies = {1, micros, micros, micros, micros, micros, micros, micros, micros};
  meter.Stop(result);
}

void BenchRunner::RunMeasured(const Benchmark& benchmark, BenchResult* result) {
  const Workload& workload = *benchmark.workload;
  const BenchOptions& options = benchmark.options;
  SharedState shared{options, values_, clock_};
  shared.measured_threads = options.threads;
  const bool timed = options.duration_seconds > 0 && workload.kind != Workload::Kind::kVerify;
  if (timed) shared.duration_seconds = options.duration_seconds;

  const StreamPlan plan(DescribeStream(workload, options, history_.NextVersion()));
  Expectation expectation;
  if (workload.kind == Workload::Kind::kVerify) expectation = Expected();
  const WorkloadInput input{
      &plan, &plan.chooser(), &expectation,
      options.batch_size > 0 ? options.batch_size : workload.usual_batch_size};
  const auto workers = MakeWorkers(benchmark, shared);
  uint64_t operations = 0;
  for (uint32_t i = 0; i < options.threads; ++i) operations += workers[i]->operations();

  CostMeter meter(engine_);
  ProgressLine progress(benchmark.name, timed ? 0 : operations, options.progress);
  result->seconds = RunThreads(
      engine_, shared, workers,
      [&](Worker& worker) {
        worker.measured() ? workload.run(worker, input) : RunBackgroundWriter(worker, input);
      },
      progress);
  result->threads = options.threads;
  Collect(workers, result);
  if (workload.Writes()) {
    history_.Add(plan.description(), StepsTaken(workload, workers));
    WaitUntilQuiet(result);
  }
  meter.Stop(result);
}

std::vector<std::unique_ptr<Worker>> BenchRunner::MakeWorkers(const Benchmark& benchmark,
                                                              const SharedState& shared) const {
  const Workload& workload = *benchmark.workload;
  std::vector<std::unique_ptr<Worker>> workers;
  const uint32_t count = benchmark.options.threads + (workload.background_writer ? 1 : 0);
  for (uint32_t i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<Worker>(shared, i,
                                               StepsOfThread(workload, benchmark.options, i),
                                               WorkerSeed(options_.seed, runs_, i)));
  }
  return workers;
}

void BenchRunner::Collect(const std::vector<std::unique_ptr<Worker>>& workers,
                          BenchResult* result) const {
  Histogram latency;
  for (const auto& worker : workers) {
    if (result->status.ok()) result->status = worker->status();
    result->user_bytes_written += worker->bytes_written();
    if (!worker->measured()) {
      result->background_writes += worker->steps();
      continue;
    }
    result->ops += worker->done();
    result->found += worker->found();
    result->misses += worker->missed();
    latency.Merge(worker->latency());
  }
  result->latencies = ToLatencies(latency, clock_.ToMicroseconds(1));
}

// A store that has failed may never be: what it could not write stays due.
void BenchRunner::WaitUntilQuiet(BenchResult* result) {
  if (!result->status.ok()) return;
  const auto written = std::chrono::steady_clock::now();
  result->status = AwaitQuiet(engine_, result->name, options_.progress);
  result->seconds_to_quiet = result->seconds + SecondsSince(written);
}

// The steps that the history needs: those of the writers.
std::vector<uint64_t> BenchRunner::StepsTaken(const Workload& workload,
                                              const std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<uint64_t> steps;
  for (const auto& worker : workers) {
    if (!workload.background_writer || !worker->measured()) steps.push_back(worker->steps());
  }
  return steps;
}

Expectation BenchRunner::Expected() const {
  Expectation expectation;
  expectation.known = history_known_;
  if (expectation.known) expectation.versions = history_.Replay(options_.num);
  return expectation;
}

}  // namespace dlsm::bench
