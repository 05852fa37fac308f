// db_simulate: a database, its memory nodes and their network in one process, under a virtual clock
// and a seeded scheduler. A seed is a run: the same seed does the same again.
//
// Each seed runs in a process of its own, so that it depends on nothing but itself, and so that one
// that crashes or hangs is a failed seed like any other.
//
// Exit codes: 0 nothing wrong, 1 a seed has failed, 2 wrong arguments, 3 it could not run.
#include <fcntl.h>
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <poll.h>
#include <sched.h>
#include <spdlog/logger.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "benchmarks/changed_flags.h"
#include "benchmarks/flag_checks.h"
#include "benchmarks/simulation/simulation_run.h"
#include "port/error_text.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/log.h"
#include "util/program_version.h"

DEFINE_uint64(seed, 1, "the first seed");
DEFINE_uint64(seeds, 1, "how many seeds to run, one after the other");
DEFINE_int32(seconds, 0, "stop after so many seconds, whatever --seeds says; 0: never");
DEFINE_int32(jobs, 1, "seeds at a time");
DEFINE_uint64(rounds, 4, "rounds of a seed, at most");
DEFINE_uint64(operations, 60, "operations of each thread in a round, at most");
DEFINE_bool(twice, false, "run each seed twice: it must do the same");
DEFINE_bool(keep_going, false, "run the seeds that come after one that failed, too");
DEFINE_int32(patience_seconds, 120, "a seed that takes longer hangs, and has failed");
DEFINE_bool(verbose, false, "tell what is drawn, and log");

namespace dlsm::simulation {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitWrong = 1;
constexpr int kExitUsage = 2;
constexpr int kExitFailed = 3;

// What a seed's process tells of it.
struct Outcome {
  bool ok = false;
  SimulationCounts counts;
};

[[noreturn]] void RunSeed(uint64_t seed, int result) {
  if (!FLAGS_verbose) Log().sink().set_level(spdlog::level::off);
  SimulationConfig config;
  config.seed = seed;
  config.rounds_max = FLAGS_rounds;
  config.operations_max = FLAGS_operations;
  config.verbose = FLAGS_verbose;
  alarm(static_cast<unsigned>(FLAGS_patience_seconds));
  Simulation simulation(config, [seed](const std::string& why) {
    std::printf("seed %llu: %s", static_cast<unsigned long long>(seed), why.c_str());
    std::fflush(stdout);
    _exit(kExitWrong);
  });
  Outcome outcome;
  const Status status = simulation.Run(&outcome.counts);
  outcome.ok = status.ok();
  if (!status.ok()) {
    std::printf("seed %llu: %s\n  %s\n", static_cast<unsigned long long>(seed),
                status.ToString().c_str(), simulation.text().c_str());
    std::fflush(stdout);
  }
  const ssize_t written = write(result, &outcome, sizeof(outcome));
  _exit(written == sizeof(outcome) ? 0 : kExitFailed);
}

// A seed under way.
struct Job {
  uint64_t seed = 0;
  pid_t process = 0;
  int result = -1;
  bool again = false;  // The second time.
  uint64_t trace = 0;  // Of the first time.
};

class Seeds {
 public:
  int Run();

 private:
  bool Begin(uint64_t seed, bool again, uint64_t trace);
  void AwaitOne();
  void End(const Job& job);
  void Failed(uint64_t seed, const std::string& why);
  void Print() const;

  std::vector<Job> jobs_;
  SimulationCounts sum_;
  uint64_t done_ = 0;
  uint64_t failed_ = 0;
};

bool Seeds::Begin(uint64_t seed, bool again, uint64_t trace) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  Job job;
  job.seed = seed;
  job.again = again;
  job.trace = trace;
  job.result = ends[0];
  job.process = fork();
  if (job.process == 0) {
    close(ends[0]);
    RunSeed(seed, ends[1]);
  }
  close(ends[1]);
  if (job.process > 0) jobs_.push_back(job);
  return job.process > 0;
}

void Seeds::AwaitOne() {
  std::vector<pollfd> waited;
  for (const Job& job : jobs_) waited.push_back({job.result, POLLIN, 0});
  static_cast<void>(poll(waited.data(), waited.size(), -1));
  for (size_t i = waited.size(); i > 0; --i) {
    if (waited[i - 1].revents == 0) continue;
    const Job job = jobs_[i - 1];
    jobs_.erase(jobs_.begin() + static_cast<ptrdiff_t>(i - 1));
    End(job);
  }
}

void Seeds::End(const Job& job) {
  Outcome outcome;
  const bool told = read(job.result, &outcome, sizeof(outcome)) == sizeof(outcome);
  close(job.result);
  int exited = 0;
  waitpid(job.process, &exited, 0);
  if (!told) {
    if (!WIFSIGNALED(exited)) return Failed(job.seed, "it makes no progress");
    const int signal = WTERMSIG(exited);
    return Failed(job.seed, signal == SIGALRM
                                ? "it hangs: a thread waits for another without saying so"
                                : fmt::format("it died of signal {}", signal));
  }
  if (!outcome.ok) return Failed(job.seed, "the database has done wrong");
  if (job.again && outcome.counts.trace != job.trace) {
    return Failed(job.seed, fmt::format("it did not do the same again: {:016x}, then {:016x}",
                                        job.trace, outcome.counts.trace));
  }
  if (FLAGS_twice && !job.again) {
    if (!Begin(job.seed, /*again=*/true, outcome.counts.trace)) Failed(job.seed, "no process");
    return;
  }
  ++done_;
  sum_.Add(outcome.counts);
}

void Seeds::Failed(uint64_t seed, const std::string& why) {
  ++done_;
  ++failed_;
  std::printf("FAILED: %s, after %llu seeds\n", why.c_str(),
              static_cast<unsigned long long>(done_));
  std::printf("again: db_simulate --seed=%llu%s\n", static_cast<unsigned long long>(seed),
              ChangedFlags({"seed", "seeds", "seconds", "jobs", "keep_going"}).c_str());
  std::fflush(stdout);
}

void Seeds::Print() const {
  const auto number = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  std::printf("%llu seeds, %llu failed\n", number(done_), number(failed_));
  std::printf("%llu operations, %llu observations checked, %llu errors that faults explain\n",
              number(sum_.operations), number(sum_.observations), number(sum_.tolerated));
  std::printf("rounds with");
  for (size_t i = 0; i < kOrdealCount; ++i) {
    std::printf("%s %s %llu", i == 0 ? "" : ",", OrdealName(static_cast<Ordeal>(i)),
                number(sum_.rounds[i]));
  }
  std::printf("\nfaults:");
  for (size_t i = 0; i < kNetworkFaultCount; ++i) {
    std::printf("%s %s %llu", i == 0 ? "" : ",", NetworkFaultName(static_cast<NetworkFault>(i)),
                number(sum_.faults[i]));
  }
  std::printf(
      "\n%llu flushes, %llu merges (%llu of them steps), %llu published states followed, %.0f "
      "virtual seconds, %llu "
      "threads, %llu steps, %llu "
      "switches, %llu events, %llu hold-ups\n",
      number(sum_.flushes), number(sum_.merges), number(sum_.merge_steps),
      number(sum_.publications), static_cast<double>(sum_.virtual_us) / 1e6,
      number(sum_.scheduler.threads), number(sum_.scheduler.steps), number(sum_.scheduler.switches),
      number(sum_.scheduler.events), number(sum_.scheduler.hold_ups));
  std::printf("trace %016llx\n", number(sum_.trace));
}

int Seeds::Run() {
  const auto until = Clock::now() + std::chrono::seconds(FLAGS_seconds);
  const uint64_t end = FLAGS_seed + FLAGS_seeds;
  uint64_t next = FLAGS_seed;
  const auto more = [&] {
    return next < end && (failed_ == 0 || FLAGS_keep_going) &&
           (FLAGS_seconds == 0 || Clock::now() < until);
  };
  while (more() || !jobs_.empty()) {
    while (more() && jobs_.size() < static_cast<size_t>(FLAGS_jobs)) {
      if (!Begin(next++, /*again=*/false, 0)) {
        std::fprintf(stderr, "db_simulate: no process for a seed: %s\n",
                     port::ErrorText(errno).c_str());
        return kExitFailed;
      }
    }
    AwaitOne();
  }
  Print();
  if (done_ == 0) {
    std::fprintf(stderr, "db_simulate: no seed was run: raise --seconds\n");
    return kExitFailed;
  }
  return failed_ == 0 ? 0 : kExitWrong;
}

Status CheckFlags() {
  using bench::CheckRange;
  constexpr uint64_t kCountMax = uint64_t{1} << 40;
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  return bench::FirstError({
      CheckRange<uint64_t>("seeds", FLAGS_seeds, 1, std::numeric_limits<uint64_t>::max()),
      FLAGS_seed <= std::numeric_limits<uint64_t>::max() - FLAGS_seeds
          ? Status::OK()
          : bench::Wrong("seeds", FLAGS_seeds,
                         fmt::format("what can be counted from --seed={} on", FLAGS_seed)),
      CheckRange<int32_t>("seconds", FLAGS_seconds, 0, kMost),
      CheckRange<int32_t>("jobs", FLAGS_jobs, 1, 1024),
      CheckRange<uint64_t>("rounds", FLAGS_rounds, 1, kCountMax),
      CheckRange<uint64_t>("operations", FLAGS_operations, 1, kCountMax),
      CheckRange<int32_t>("patience_seconds", FLAGS_patience_seconds, 1, kMost),
  });
}

// Where memory lies must not decide anything; that it is the same each time makes sure of it.
void FixAddresses(char** argv) {
  const int now = personality(0xffffffff);
  if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) return;
  execv("/proc/self/exe", argv);
}

// Only one thread of a seed runs at a time; on one processor the turn is handed over fastest.
void StayOnOneProcessor() {
  if (FLAGS_jobs > 1) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  const int current = sched_getcpu();
  if (current < 0) return;
  CPU_SET(current, &one);
  static_cast<void>(sched_setaffinity(0, sizeof(one), &one));
}

}  // namespace
}  // namespace dlsm::simulation

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  dlsm::simulation::FixAddresses(argv);
  gflags::SetUsageMessage("a simulated cluster, seed by seed");
  if (const dlsm::Status known = dlsm::CheckFlagsAreKnown(argc, argv); !known.ok()) {
    std::fprintf(stderr, "db_simulate: %s\n", known.ToString().c_str());
    return dlsm::simulation::kExitUsage;
  }
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const dlsm::Status flags = argc > 1 ? dlsm::Status::InvalidArgument(fmt::format(
                                            "unknown argument {}: flags begin with --", argv[1]))
                                      : dlsm::simulation::CheckFlags();
  if (!flags.ok()) {
    std::fprintf(stderr, "db_simulate: %s; see --help\n", flags.ToString().c_str());
    return dlsm::simulation::kExitUsage;
  }
  dlsm::simulation::StayOnOneProcessor();
  return dlsm::simulation::Seeds().Run();
}
