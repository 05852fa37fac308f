// The catalogue of workloads. What a thread does in each is a function of its Worker; a table of
// them, by name, is all that the rest of the program sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/engine.h"
#include "benchmarks/step_stream.h"
#include "benchmarks/worker.h"

namespace dlsm::bench {

// What verify compares with.
struct Expectation {
  // False: nobody knows what was written; a value may be of any version, any key may be missing.
  bool known = true;
  std::vector<uint16_t> versions;  // By key index; 0: must be missing.
};

// What the threads of one run share, as far as the workload uses it.
struct WorkloadInput {
  const StreamPlan* plan = nullptr;          // Workloads that write.
  const KeyChooser* chooser = nullptr;       // Those that read.
  const Expectation* expectation = nullptr;  // verify.
  uint64_t batch_size = 1;
};

// How a workload writes.
struct WriteShape {
  StepKind kind = StepKind::kPut;
  Order order = Order::kRandom;
  bool mixed_with_reads = false;
  // Of the writes there would be otherwise, one in so many. More than 1 for those that are slow.
  uint64_t reduction = 1;
};

struct Workload {
  enum class Kind {
    kFill,   // Writes, into a database that is empty.
    kWrite,  // Writes, into what is there.
    kRead,
    kVerify,
    kWhole,     // One call for the whole database.
    kTwoPhase,  // See two_phase.h.
  };
  using Run = void (*)(Worker& worker, const WorkloadInput& input);
  // Appends what is to be printed under the figures.
  using RunWhole = Status (*)(Engine& engine, std::string* text);

  const char* name;
  Kind kind;
  const char* description;
  Run run = nullptr;
  RunWhole run_whole = nullptr;
  WriteShape writes = {};
  uint64_t usual_batch_size = 1;
  // One more thread, which is not measured, writes as RunBackgroundWriter() says.
  bool background_writer = false;

  bool Writes() const {
    return kind == Kind::kFill || kind == Kind::kWrite || kind == Kind::kTwoPhase ||
           background_writer;
  }
  // Whether the flags alone say what it writes, not also how fast the store is.
  bool WritesWhatFlagsSay() const {
    return Writes() && kind != Kind::kTwoPhase && !background_writer;
  }
};

const std::vector<Workload>& Workloads();
// Null if there is none.
const Workload* FindWorkload(const std::string& name);

// Opens a database that exists, and gets its first entry: *seconds is how long that takes.
Status OpenAndRead(Engine& engine, double* seconds);

// The steps of `workload` when it is the `version`th write workload since the database was empty.
// Fills choose keys uniformly, whatever the distribution of the others.
StreamDescription DescribeStream(const Workload& workload, const BenchOptions& options,
                                 uint16_t version);
// How many of them `thread` takes, if no duration is set.
uint64_t StepsOfThread(const Workload& workload, const BenchOptions& options, uint32_t thread);

}  // namespace dlsm::bench
