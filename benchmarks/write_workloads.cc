#include <algorithm>

#include "benchmarks/step_taker.h"
#include "benchmarks/workload_runs.h"

namespace dlsm::bench {

void RunWrites(Worker& worker, const WorkloadInput& input) {
  StepTaker taker(worker, *input.plan, worker.index());
  const uint64_t steps = worker.operations();
  if (input.batch_size <= 1) {
    worker.Loop([&] { return taker.TakeOne(); });
  } else {
    worker.Loop([&] { return taker.TakeBatch(std::min(input.batch_size, steps - worker.done())); });
  }
}

void RunSyncWrites(Worker& worker, const WorkloadInput& input) {
  worker.session().SetSync(true);
  RunWrites(worker, input);
}

void RunMixed(Worker& worker, const WorkloadInput& input) {
  StepTaker taker(worker, *input.plan, worker.index());
  worker.Loop([&] { return taker.TakeOne(); });
}

void RunBackgroundWriter(Worker& worker, const WorkloadInput& input) {
  StepTaker taker(worker, *input.plan, 0);
  while (worker.MeasuredThreadsRun() && taker.TakeOne() > 0) {
  }
}

}  // namespace dlsm::bench
