// Reads every key of the worker's part of the range twice, by Get and by scan, and compares with
// what the write workloads must have left.
#include <fmt/core.h>

#include "benchmarks/workload_runs.h"

namespace dlsm::bench {
namespace {

// Where the history is unknown: more write workloads than this are hardly run in a row.
constexpr uint16_t kVersionsMax = 64;

class Verifier {
 public:
  Verifier(Worker& worker, const Expectation& expectation)
      : worker_(worker), expectation_(expectation) {}

  // Each returns 1, or 0 after a mismatch or failure.
  uint64_t CheckGet(uint64_t index) {
    const Slice key = worker_.keys().Format(index);
    Slice value;
    switch (worker_.session().Get(key, &value)) {
      case Outcome::kFound:
        worker_.Found(value);
        return ValueIsRight(index, value) ? 1 : Mismatch(key, "get", "another value than it must");
      case Outcome::kMissing:
        worker_.Missed();
        return MayBeMissing(index) ? 1 : Mismatch(key, "get", "no value, but was written");
      case Outcome::kFailed:
        break;
    }
    return worker_.Fail(worker_.session().status());
  }

  // Keys [begin, end), each there or rightly missing, and none in between, before the first of all,
  // nor up to the next part's first, or behind the last of all. Where the history is not known,
  // there may be others around all of them: the database may have been made with a larger --num.
  uint64_t CheckScan(uint64_t begin, uint64_t end) {
    Cursor& cursor = worker_.session().NewCursor();
    Cursor::Entry entry;
    bool valid = begin == 0 && expectation_.known
                     ? cursor.SeekToFirst(&entry)
                     : cursor.Seek(worker_.keys().Format(begin), &entry);
    for (uint64_t index = begin; index < end; ++index) {
      const Slice key = worker_.keys().Format(index);
      if (!valid || entry.key.compare(key) > 0) {
        if (!cursor.status().ok()) return worker_.Fail(cursor.status());
        if (!MayBeMissing(index)) return Mismatch(key, "scan", "no value, but was written");
        continue;
      }
      if (entry.key != key) return Mismatch(entry.key, "scan", "a key that was never written");
      if (!ValueIsRight(index, entry.value)) {
        return Mismatch(key, "scan", "another value than it must");
      }
      valid = cursor.Next(&entry);
    }
    if (!valid) return cursor.status().ok() ? 1 : worker_.Fail(cursor.status());
    const bool is_another_parts = end < worker_.options().num
                                      ? entry.key.compare(worker_.keys().Format(end)) >= 0
                                      : !expectation_.known;
    if (is_another_parts) return 1;
    return Mismatch(entry.key, "scan", "a key that was never written");
  }

 private:
  bool MayBeMissing(uint64_t index) const {
    return !expectation_.known || expectation_.versions[index] == 0;
  }

  bool ValueIsRight(uint64_t index, const Slice& value) const {
    if (expectation_.known) {
      const uint16_t version = expectation_.versions[index];
      return version > 0 && value == worker_.values().Value(index, version);
    }
    for (uint16_t version = 1; version <= kVersionsMax; ++version) {
      if (value == worker_.values().Value(index, version)) return true;
    }
    return false;
  }

  uint64_t Mismatch(const Slice& key, const char* call, const char* what) {
    return worker_.Fail(
        Status::Corruption(fmt::format("verify: {} of key {} (seed {}) gave {}", call,
                                       key.ToStringView(), worker_.options().seed, what)));
  }

  Worker& worker_;
  const Expectation& expectation_;
};

}  // namespace

void RunVerify(Worker& worker, const WorkloadInput& input) {
  const BenchOptions& options = worker.options();
  const uint64_t begin = options.num * worker.index() / options.threads;
  const uint64_t end = options.num * (worker.index() + 1) / options.threads;
  Verifier verifier(worker, *input.expectation);
  uint64_t next = begin;
  worker.Loop([&]() -> uint64_t { return next < end ? verifier.CheckGet(next++) : 0; });
  if (worker.status().ok()) verifier.CheckScan(begin, end);
  worker.session().DropCursor();
}

}  // namespace dlsm::bench
