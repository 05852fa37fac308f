// A stress run in this process: rounds of random operations by many threads, and between the rounds
// what needs them to rest: verification of everything, reopening with other options, faults
// beginning and ending.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/stress/expected_state.h"
#include "benchmarks/stress/key_space.h"
#include "benchmarks/stress/random_options.h"
#include "benchmarks/stress/worker.h"
#include "dLSM/db.h"
#include "dLSM/status.h"
#include "util/random.h"

namespace dlsm {
class FaultInjector;
}

namespace dlsm::stress {

struct RunConfig {
  uint64_t seed = 1;
  uint64_t threads = 4;
  uint64_t operations_per_round = 2000;  // Of each thread.
  uint64_t rounds = 0;                   // 0: until `until`.
  std::chrono::steady_clock::time_point until;
  double fault_rate = 0;  // Of transfers and calls, in every other round.
  bool delays = false;    // Threads are held up where their order matters (port/sync_point.h).
  bool verbose = false;
  uint64_t operation_timeout_ms = 0;  // 0: what the options have, and less where there are faults.
  // How long to wait for what readers that were killed keep in memory nodes up to the end of their
  // leases, each of which is at least as long as an operation may take.
  std::chrono::milliseconds lease_patience() const {
    return std::max(std::chrono::milliseconds(60'000),
                    3 * std::chrono::milliseconds(operation_timeout_ms));
  }
  // Ends the life of a memory node (true), and begins another one at its place (false); both once,
  // at the end of the run. Empty: they all live.
  std::function<Status(bool)> lose_node;
  size_t lost_node = 0;  // Which one it is, and of how many.
  size_t nodes = 1;
  SharedTally* tally = nullptr;  // Gets each step and each round's; null: none.
  // Where the memory nodes are, and how they are reached: as in Options.
  bool has_files = false;  // The memory nodes have, so logs can be on disk.
  std::string memory_nodes;
  std::string fabric;
  std::string embedded_dir;
  // Memory nodes may be killed and started again at any time in a round: nothing but rounds, whose
  // operations may fail.
  bool nodes_die = false;
  bool take_over = false;  // At the first opening, if the database was open before.
  int shards_max = 6;
  std::string database = "stress";
  // How many processes have used the database before, each of which has been killed. It is the same
  // database for all of them; what to do with it each draws by itself.
  uint64_t processes_before = 0;
};

struct RunResult {
  Tally tally;
  uint64_t rounds = 0;
  uint64_t reopenings = 0;
  uint64_t take_overs = 0;
  uint64_t losses = 0;  // Of memory nodes.
  uint64_t shards_that_survived = 0;
  uint64_t faults = 0;
  uint64_t publications_followed = 0;  // Verified as a whole.
  uint64_t leases_ended = 0;           // While they were being verified.
  uint64_t torn_by_crash = 0;
  std::string options;  // Of the last opening.
};

class StressRun {
 public:
  StressRun(const RunConfig& config, const KeySpace* space, ExpectedState* state);
  ~StressRun();

  // Corruption with the seed, the operation and what was wrong, if the database has done wrong. The
  // database stays.
  Status Run(RunResult* result);
  // For the end, when nothing else is to come.
  Status Destroy();
  // What a run of this configuration draws.
  static LogLevel LogOf(const RunConfig& config, const KeySpace& space);

 private:
  Status Open();
  Status Close();
  Status CloseHandle();
  void WaitForRoom();
  Status Round(bool faults);
  // A memory node dies in the middle of operations, and comes back, or another in its place. Who
  // has data there may be told so; nobody is told anything wrong, and every call comes to an end.
  // The database is closed, and fit for nothing but to be destroyed.
  Status LoseNode();
  // While it is dead: shards that are altogether on the others can be read.
  Status VerifySurvivors();
  // Operations until *stop, none of which may take long.
  Status UseInSpiteOfLoss(Worker* worker, const std::atomic<bool>& stop);
  Status Verify();
  Status AfterCrash();
  // Another handle opens the database while this one has it; then it is the one.
  Status TakeOver();
  bool publishes() const { return drawn_.options.publish_interval_ms > 0; }
  Status OpenFollower(std::unique_ptr<DB>* follower) const;
  // Until *stop.
  Status Follow(const std::atomic<bool>& stop);
  Status FollowOnce(const std::atomic<bool>& stop);
  Options Complete(const DrawnOptions& drawn) const;
  uint64_t TimeoutMs(uint64_t usual) const {
    return config_.operation_timeout_ms > 0 ? config_.operation_timeout_ms : usual;
  }

  const RunConfig config_;
  const KeySpace* const space_;
  ExpectedState* const state_;
  Random random_;
  const std::shared_ptr<FaultInjector> injector_;
  DrawnOptions drawn_;
  bool always_by_shard_ = false;  // Each table is on its shard's own memory node.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<DB> db_;
  // When db_ was opened: all that it publishes has this much.
  std::vector<uint32_t> durable_at_open_;
  RunResult result_;
};

}  // namespace dlsm::stress
