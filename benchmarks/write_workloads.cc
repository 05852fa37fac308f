#include <algorithm>

#include "benchmarks/step_stream.h"
#include "benchmarks/step_taker.h"
#include "benchmarks/workload_runs.h"

namespace dlsm::bench {
namespace {

// The puts of a stream of sequential steps, as many as are left of one pass over the thread's part.
class StreamSource final : public SortedSource {
 public:
  StreamSource(Worker& worker, const StreamPlan& plan, uint64_t entries)
      : worker_(worker),
        version_(plan.description().version),
        stream_(plan, worker.index()),
        left_(entries) {}

  bool Next(Slice* key, Slice* value) override {
    if (left_ == 0) return false;
    --left_;
    const Step step = stream_.Next();
    *key = worker_.keys().Format(step.key_index);
    *value = worker_.values().Value(step.key_index, version_);
    bytes_ += key->size() + value->size();
    return true;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  Worker& worker_;
  const uint16_t version_;
  StepStream stream_;
  uint64_t left_;
  uint64_t bytes_ = 0;
};

}  // namespace

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

void RunBulkLoad(Worker& worker, const WorkloadInput& input) {
  const StreamPlan& plan = *input.plan;
  const uint64_t part = plan.PartBegin(worker.index() + 1) - plan.PartBegin(worker.index());
  worker.Loop([&]() -> uint64_t {
    const uint64_t entries = std::min(part, worker.operations() - worker.done());
    StreamSource source(worker, plan, entries);
    const Status loaded = worker.session().BulkLoad(&source);
    if (!loaded.ok()) return worker.Fail(loaded);
    worker.CountWrite(source.bytes());
    worker.CountSteps(entries);
    return entries;
  });
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
