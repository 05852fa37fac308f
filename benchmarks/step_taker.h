// Does to the store what a stream of steps says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "benchmarks/step_stream.h"
#include "benchmarks/worker.h"

namespace dlsm::bench {

// Takes the steps of one stream to the worker's session.
class StepTaker {
 public:
  StepTaker(Worker& worker, const StreamPlan& plan, uint32_t stream_index)
      : worker_(worker), version_(plan.description().version), stream_(plan, stream_index) {}

  // Each returns the number of operations done, 0 after a failure.
  uint64_t TakeOne() {
    const Step step = stream_.Next();
    const Slice key = worker_.keys().Format(step.key_index);
    switch (step.kind) {
      case StepKind::kRead:
        return Read(key);
      case StepKind::kDelete:
        return Written(worker_.session().Delete(key), 1, key.size());
      case StepKind::kDeleteRange:
        return DeleteRange(step.key_index, key.ToString());
      case StepKind::kPut:
        break;
    }
    const Slice value = worker_.values().Value(step.key_index, version_);
    return Written(worker_.session().Put(key, value), 1, key.size() + value.size());
  }

  uint64_t TakeBatch(uint64_t count) {
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const Step step = stream_.Next();
      const Slice key = worker_.keys().Format(step.key_index);
      bytes += key.size();
      if (step.kind == StepKind::kDelete) {
        worker_.session().BatchDelete(key);
        continue;
      }
      const Slice value = worker_.values().Value(step.key_index, version_);
      worker_.session().BatchPut(key, value);
      bytes += value.size();
    }
    return Written(worker_.session().WriteBatch(), count, bytes);
  }

 private:
  uint64_t DeleteRange(uint64_t first, const std::string& begin) {
    const uint64_t num = stream_.plan().description().num;
    const Slice end = worker_.keys().Format(std::min(first + kRangeKeys, num));
    return Written(worker_.session().DeleteRange(begin, end), 1, begin.size() + end.size());
  }

  uint64_t Read(const Slice& key) {
    Slice value;
    switch (worker_.session().Get(key, &value)) {
      case Outcome::kFound:
        worker_.Found(value);
        break;
      case Outcome::kMissing:
        worker_.Missed();
        break;
      case Outcome::kFailed:
        return worker_.Fail(worker_.session().status());
    }
    worker_.CountSteps(1);
    return 1;
  }

  uint64_t Written(const Status& status, uint64_t count, size_t bytes) {
    if (!status.ok()) [[unlikely]]
      return worker_.Fail(status);
    worker_.CountWrite(bytes);
    worker_.CountSteps(count);
    return count;
  }

  Worker& worker_;
  const uint16_t version_;
  StepStream stream_;
};

}  // namespace dlsm::bench
