#include "benchmarks/step_stream.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dlsm::bench {
namespace {

// Streams of different workloads and threads do not resemble each other.
uint64_t StreamSeed(const StreamDescription& description, uint32_t thread) {
  return SplitMix64(description.seed ^
                    SplitMix64(uint64_t{description.version} << 32 | uint64_t{thread}));
}

}  // namespace

StreamPlan::StreamPlan(const StreamDescription& description)
    : description_(description),
      chooser_(description.num, description.distribution, description.zipf_theta),
      permutation_(description.num, description.seed ^ description.version) {}

StepStream::StepStream(const StreamPlan& plan, uint32_t thread)
    : plan_(plan),
      random_(StreamSeed(plan.description(), thread)),
      begin_(plan.PartBegin(thread)),
      end_(plan.PartBegin(thread + 1)),
      next_(begin_) {
  // With more threads than keys some parts are empty; their threads share the first key.
  if (begin_ == end_) begin_ = next_ = 0, end_ = 1;
}

// Within one workload all writes of a key are alike (one kind, one version), so the order in which
// the threads took their steps does not matter.
void WriteHistory::ReplayEntry(const Entry& entry, std::vector<uint16_t>* versions) {
  const StreamPlan plan(entry.description);
  for (uint32_t thread = 0; thread < entry.steps_of_thread.size(); ++thread) {
    StepStream stream(plan, thread);
    for (uint64_t i = 0; i < entry.steps_of_thread[thread]; ++i) {
      const Step step = stream.Next();
      assert(step.key_index < versions->size());
      if (step.kind == StepKind::kPut) (*versions)[step.key_index] = entry.description.version;
      if (step.kind == StepKind::kDelete) (*versions)[step.key_index] = 0;
      if (step.kind == StepKind::kDeleteRange) {
        const uint64_t end = std::min<uint64_t>(step.key_index + kRangeKeys, versions->size());
        for (uint64_t key = step.key_index; key < end; ++key) (*versions)[key] = 0;
      }
    }
  }
}

std::vector<uint16_t> WriteHistory::Replay(uint64_t num) const {
  std::vector<uint16_t> versions(num, 0);
  for (const Entry& entry : entries_) ReplayEntry(entry, &versions);
  return versions;
}

}  // namespace dlsm::bench
