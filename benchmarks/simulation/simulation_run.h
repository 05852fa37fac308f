// One seed: memory nodes, processes that use a database one after the other, and what befalls them.
//
// In each round threads do the random operations of db_stress against its model of what each key
// may hold (benchmarks/stress/). What a round suffers is drawn:
//
//   nothing     nothing may fail then
//   faults      connections break, messages are lost; what fails must fail as IOError, TimedOut,
//               Busy or Aborted, and afterwards all is well again without opening anything anew
//   death       the compute node dies in the middle of an operation; another opens the database
//               when the lease has ended, or takes it over at once. What was flushed is there
//   take-over   another process takes the database over from a living one that goes on using it
//   restart     a memory node dies and comes back empty. Until the database is made anew, reads
//               are right or fail
//
// Half of the seeds have memory nodes with disks (all of them, or some). There, half of the rounds
// have other ordeals:
//
//   resumption     a memory node's process is killed and started again. It is an outage, as in a
//                  round with faults: nothing is lost, and nothing is opened anew
//   power failure  a memory node loses its power, and has another boot afterwards. The database is
//                  opened again, and has what was flushed
//   blackout       all memory nodes lose their power, and the compute node dies
//   full disk      a disk takes no more for a while
//   broken disk    a call of a disk fails. The memory node changes nothing until it is started
//                  again, and nothing is lost then
//
// A memory node that is started again may be killed right away, up to twice.
//
// At the end the database is destroyed, and no byte of any memory node may be left to it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/simulation/simulated_connector.h"
#include "benchmarks/simulation/simulated_memory_node.h"
#include "benchmarks/simulation/simulated_network.h"
#include "benchmarks/simulation/simulated_scheduler.h"
#include "benchmarks/stress/expected_state.h"
#include "benchmarks/stress/key_space.h"
#include "benchmarks/stress/random_options.h"
#include "benchmarks/stress/worker.h"
#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "port/thread.h"
#include "util/random.h"

namespace dlsm::simulation {

enum class Ordeal : uint8_t {
  kNothing = 0,
  kFaults,
  kDeath,
  kTakeOver,
  kRestart,
  kResumption,
  kPowerFailure,
  kBlackout,
  kFullDisk,
  kBrokenDisk,
};
inline constexpr size_t kOrdealCount = 10;
const char* OrdealName(Ordeal ordeal);

struct SimulationConfig {
  uint64_t seed = 1;
  uint64_t rounds_max = 4;
  uint64_t operations_max = 60;  // Of each thread in a round.
  bool verbose = false;
};

// Plain numbers, so that they can be handed from process to process.
struct SimulationCounts {
  uint64_t operations = 0;
  uint64_t observations = 0;
  uint64_t tolerated = 0;  // Errors, in rounds that explain them.
  uint64_t publications = 0;
  uint64_t flushes = 0;
  uint64_t merges = 0;
  uint64_t merge_steps = 0;  // Of the merges.
  std::array<uint64_t, kOrdealCount> rounds{};
  SimulatedNetwork::Counts faults{};
  SimulatedScheduler::Counts scheduler{};
  uint64_t virtual_us = 0;
  uint64_t trace = 0;

  void Add(const SimulationCounts& other);
};

class Simulation {
 public:
  // `failure` is told what makes no progress, and does not return.
  Simulation(const SimulationConfig& config, SimulatedScheduler::Failure failure);
  ~Simulation();

  // Corruption if the database has done wrong.
  Status Run(SimulationCounts* counts);

  // What was drawn, for people.
  const std::string& text() const { return text_; }

 private:
  // A process that uses the database.
  struct Client {
    std::shared_ptr<SimulatedHost> host;
    std::shared_ptr<NodeConnector> connector;
    std::unique_ptr<DB> db;
  };

  Status RunAll();
  Status StartNodes();
  Client NewClient(const char* role);
  Options Complete(const Client& client) const;
  Status Open(bool take_over);
  Status Close(Client* client);
  Status CloseHandle(Client* client);
  Status OpenFollower(Client* client) const;
  // Until it succeeds, for what the last round has left behind may be in its way.
  Status Insist(const char* what, const std::function<Status()>& attempt);
  // Says in what.
  static Status With(const std::string& what, const Status& status);

  Ordeal DrawOrdeal();
  Ordeal DrawDiskOrdeal();
  SimulatedMemoryNode* DrawNode(bool with_disk);
  Status Round(Ordeal ordeal);
  void Work(size_t worker, DB* db, Ordeal ordeal, uint64_t operations, Status* status);
  // `floor`: what all publications have.
  Status Follow(Ordeal ordeal, std::vector<uint32_t> floor);
  // In the middle of an operation of some worker.
  void Strike(Ordeal ordeal);
  // Kills it, and starts it again when it has been down for a while.
  void StartAgain(SimulatedMemoryNode* node, bool lose_power);
  Status Recover(Ordeal ordeal);
  Status RecoverFromDeath(bool power_failed);
  Status Succeed(bool take_over);
  Status StartAnew();
  Status OpenAfterPowerFailure();
  Status Settle();
  Status AfterLoss(bool power_failed);
  Status Verify();
  Status Finish();
  Status CheckDisks();
  uint64_t UsedBytes() const;

  static constexpr const char* kDatabase = "simulated";

  const SimulationConfig config_;
  Random random_;
  SimulatedScheduler scheduler_;
  SimulatedNetwork network_;
  std::vector<std::unique_ptr<SimulatedMemoryNode>> nodes_;
  size_t disks_ = 0;  // Of the memory nodes.
  SimulatedNodes addresses_;
  std::string node_list_;

  const stress::KeySpace space_;
  std::vector<char> state_memory_;
  stress::ExpectedState state_;
  stress::DrawnOptions drawn_;
  std::vector<std::unique_ptr<stress::Worker>> workers_;
  Client client_;
  std::vector<uint32_t> durable_at_open_;  // By client_.
  Client former_;  // After a take-over or a death, until it has been closed.
  uint64_t hosts_ = 0;
  bool torn_by_death_ = false;
  bool restarted_ = false;                 // A memory node was, and had lost something.
  SimulatedMemoryNode* broken_ = nullptr;  // Its disk is.
  bool open_accepts_log_loss_ = false;
  Status start_failure_;       // Of a memory node with a disk.
  uint64_t until_strike_ = 0;  // Operations; 0: it has happened, or will not.
  bool struck_ = false;
  bool failed_ = false;
  bool round_ended_ = false;
  std::string text_;
  const std::shared_ptr<Statistics> statistics_ = CreateStatistics();
  SimulationCounts counts_;
};

}  // namespace dlsm::simulation
