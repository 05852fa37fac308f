#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench_index.h"
#include "benchmarks/workload_runs.h"

namespace dlsm::bench {
namespace {

// Returns the number of operations done, 0 after a failure.
uint64_t GetOne(Worker& worker, const Slice& key) {
  Slice value;
  switch (worker.session().Get(key, &value)) {
    case Outcome::kFound:
      worker.Found(value);
      return 1;
    case Outcome::kMissing:
      worker.Missed();
      return 1;
    case Outcome::kFailed:
      break;
  }
  return worker.Fail(worker.session().status());
}

// Batches of keys, each with a buffer of its own.
class KeyBatch {
 public:
  KeyBatch(uint64_t size, const BenchOptions& options)
      : formatters_(size, KeyFormatter(options.key_bytes, options.first_key)), keys_(size) {}

  const std::vector<Slice>& Choose(const KeyChooser& chooser, Random& random) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      keys_[i] = formatters_[i].Format(chooser.Choose(random));
    }
    return keys_;
  }

 private:
  std::vector<KeyFormatter> formatters_;
  std::vector<Slice> keys_;
};

// Entry by entry: `first` positions the cursor, `next` moves it on. One latency is that of several
// entries: to read the clock and to count takes as long as a fast engine's step.
template <typename First, typename NextStep>
void Scan(Worker& worker, First first, NextStep next) {
  constexpr uint64_t kEntriesPerLatency = 16;
  Cursor& cursor = worker.session().NewCursor();
  Cursor::Entry entry;
  bool valid = first(cursor, &entry);
  worker.Loop([&]() -> uint64_t {
    const uint64_t most = std::min(kEntriesPerLatency, worker.operations() - worker.done());
    uint64_t count = 0;
    for (; valid && count < most; ++count) {
      worker.Found(entry.value);
      valid = next(cursor, &entry);
    }
    return count > 0 ? count : worker.Fail(cursor.status());  // Or the end of the data: it is OK.
  });
  worker.session().DropCursor();
}

}  // namespace

void RunReadRandom(Worker& worker, const WorkloadInput& input) {
  worker.Loop(
      [&] { return GetOne(worker, worker.keys().Format(input.chooser->Choose(worker.random()))); });
}

void RunReadMissing(Worker& worker, const WorkloadInput& input) {
  worker.Loop([&] {
    return GetOne(worker, worker.keys().FormatAbsent(input.chooser->Choose(worker.random())));
  });
  if (worker.found() > 0) {
    worker.Fail(Status::Corruption("readmissing: a key was found that was never written"));
  }
}

void RunReadHot(Worker& worker, const WorkloadInput& /*input*/) {
  const uint64_t hot = (worker.options().num + 99) / 100;
  worker.Loop([&] { return GetOne(worker, worker.keys().Format(worker.random().Uniform(hot))); });
}

void RunMultiRead(Worker& worker, const WorkloadInput& input) {
  KeyBatch batch(input.batch_size, worker.options());
  std::vector<std::optional<Slice>> values;
  worker.Loop([&]() -> uint64_t {
    const auto& keys = batch.Choose(*input.chooser, worker.random());
    const Status status = worker.session().MultiGet(keys, &values);
    if (!status.ok()) return worker.Fail(status);
    for (const auto& value : values) {
      if (value) {
        worker.Found(*value);
      } else {
        worker.Missed();
      }
    }
    return keys.size();
  });
}

void RunPipelinedRead(Worker& worker, const WorkloadInput& input) {
  const auto pipeline = worker.session().NewGetPipeline(input.batch_size);
  if (pipeline == nullptr) {
    worker.Fail(Status::NotSupported("this engine has no gets that overlap"));
    return;
  }
  GetPipeline::Answer answer;
  // A tag is when its get was submitted: to whoever asks, a get takes from there to its answer, not
  // from the answer before.
  worker.LoopOverlapping([&](uint64_t* begun) -> uint64_t {
    while (pipeline->outstanding() < pipeline->depth()) {
      const Slice key = worker.keys().Format(input.chooser->Choose(worker.random()));
      const Status submitted = pipeline->Submit(key, /*tag=*/worker.clock().Now());
      if (!submitted.ok()) return worker.Fail(submitted);
    }
    pipeline->Next(&answer);
    *begun = answer.tag;
    if (answer.status.ok()) {
      worker.Found(answer.value);
    } else if (answer.status.IsNotFound()) {
      worker.Missed();
    } else {
      return worker.Fail(answer.status);
    }
    return 1;
  });
}

void RunScanForward(Worker& worker, const WorkloadInput& /*input*/) {
  Scan(
      worker, [](Cursor& cursor, Cursor::Entry* entry) { return cursor.SeekToFirst(entry); },
      [](Cursor& cursor, Cursor::Entry* entry) { return cursor.Next(entry); });
}

void RunScanBackward(Worker& worker, const WorkloadInput& /*input*/) {
  Scan(
      worker, [](Cursor& cursor, Cursor::Entry* entry) { return cursor.SeekToLast(entry); },
      [](Cursor& cursor, Cursor::Entry* entry) { return cursor.Prev(entry); });
}

// A new iterator for each seek, as in the peers' own benchmarks: it sees the present.
void RunSeekRandom(Worker& worker, const WorkloadInput& input) {
  const uint64_t nexts = worker.options().seek_nexts;
  worker.Loop([&]() -> uint64_t {
    const Slice target = worker.keys().Format(input.chooser->Choose(worker.random()));
    Cursor& cursor = worker.session().NewCursor();
    Cursor::Entry entry;
    bool valid = cursor.Seek(target, &entry);
    if (valid && entry.key == target) {
      worker.Found(entry.value);
    } else {
      worker.Missed();
    }
    for (uint64_t i = 0; i < nexts && valid; ++i) {
      valid = cursor.Next(&entry);
      if (valid) worker.Read(entry.value);
    }
    if (!valid && !cursor.status().ok()) return worker.Fail(cursor.status());
    return 1;
  });
  worker.session().DropCursor();
}

// An operation is a query, which also counts as found or missing records.
void RunIndexQueries(Worker& worker, const WorkloadInput& /*input*/) {
  const BenchOptions& options = worker.options();
  std::vector<std::string> values;
  worker.Loop([&]() -> uint64_t {
    const IndexKeyRange range =
        RandomIndexRange(worker.random(), options.index_records, options.num);
    const Status status = worker.session().QueryIndex(range.begin, range.end, &values);
    if (!status.ok()) return worker.Fail(status);
    for (const std::string& value : values) worker.Found(value);
    if (values.empty()) worker.Missed();
    return 1;
  });
}

}  // namespace dlsm::bench
