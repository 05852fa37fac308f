// Times what puts, flushes and merges are made of, one thread, no network and no other process:
// inserts into a memtable, a walk through it, a table built from it, a merge of several tables.
//
//   structure_bench [--benchmark_filter=REGEX] [--benchmark_repetitions=N]    Google Benchmark's
//
// Keys are of 20 bytes, as db_bench's are, and come at random. What oneTBB has for the same work as
// structures of this library is in structure_bench_peers.cc.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/filter_policy.h"
#include "db/memtable/memtable.h"
#include "table/cached_blocks.h"
#include "table/memory_queue_pairs_testing.h"
#include "table/merge_tables.h"
#include "table/table_builder.h"
#include "util/file_descriptor.h"
#include "util/out_of_memory.h"
#include "util/program_version.h"
#include "util/random.h"

namespace dlsm {
namespace {

// With values of 400 bytes, a memtable of 64 MB.
constexpr size_t kRecords = 150000;
constexpr uint64_t kKeys = 20000000;

const InternalKeyComparator& Order() {
  static const InternalKeyComparator order(BytewiseComparator());
  return order;
}

TableOptions TablesWithFilters() {
  static const std::unique_ptr<const FilterPolicy> filter(NewBloomFilterPolicy(10));
  TableOptions options;
  options.filter_policy = filter.get();
  return options;
}

std::vector<std::string> RandomKeys(uint64_t seed) {
  Random random(seed);
  std::vector<std::string> keys;
  keys.reserve(kRecords);
  for (size_t i = 0; i < kRecords; ++i) {
    keys.push_back(fmt::format("{:020}", random.Uniform(kKeys)));
  }
  return keys;
}

std::unique_ptr<Memtable> NewMemtable() {
  return std::make_unique<Memtable>(Order(), /*number=*/1, Slice(), size_t{64} << 20);
}

void Fill(const std::vector<std::string>& keys, const std::string& value, Memtable* memtable) {
  SequenceNumber sequence = 0;
  for (const std::string& key : keys) {
    if (!memtable->Add(++sequence, ValueType::kValue, key, value, /*batched=*/false)) {
      EndForLackOfMemory();
    }
  }
}

// What a flush does with each entry, but for versions that nobody sees.
void Build(const Memtable& memtable, TableBuilder* builder, TableMeta* meta,
           std::string* resident) {
  const std::unique_ptr<InternalIterator> entries = memtable.NewIterator(/*whole=*/true);
  std::string last;
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    const Slice user_key = ExtractUserKey(entries->key());
    const bool same = Slice(last) == user_key;
    builder->Add(entries->key(), entries->value(), same).PermitUncheckedError();
    last.assign(user_key.data(), user_key.size());
  }
  builder->Finish(meta, resident).PermitUncheckedError();
}

uint64_t ImageBytesMax(const std::string& value) { return kRecords * (value.size() + 96) + 65536; }

void CountRecords(benchmark::State& state, uint64_t records_each) {
  state.SetItemsProcessed(static_cast<int64_t>(records_each) * state.iterations());
  state.counters["record"] = benchmark::Counter(
      static_cast<double>(records_each),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void MemtableInsert(benchmark::State& state) {
  const std::vector<std::string> keys = RandomKeys(1);
  const std::string value(static_cast<size_t>(state.range(0)), 'v');
  while (state.KeepRunning()) {
    state.PauseTiming();
    std::unique_ptr<Memtable> memtable = NewMemtable();
    state.ResumeTiming();
    Fill(keys, value, memtable.get());
    state.PauseTiming();
    memtable.reset();
    state.ResumeTiming();
  }
  CountRecords(state, kRecords);
}
BENCHMARK(MemtableInsert)->ArgName("value")->Arg(400)->Arg(100);

void MemtableWalk(benchmark::State& state) {
  const std::unique_ptr<Memtable> memtable = NewMemtable();
  Fill(RandomKeys(1), std::string(static_cast<size_t>(state.range(0)), 'v'), memtable.get());
  const std::unique_ptr<InternalIterator> entries = memtable->NewIterator(/*whole=*/true);
  while (state.KeepRunning()) {
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      benchmark::DoNotOptimize(entries->value().data()[0]);
    }
  }
  CountRecords(state, kRecords);
}
BENCHMARK(MemtableWalk)->ArgName("value")->Arg(400)->Arg(100);

void TableOfMemtable(benchmark::State& state) {
  const std::unique_ptr<Memtable> memtable = NewMemtable();
  const std::string value(static_cast<size_t>(state.range(0)), 'v');
  Fill(RandomKeys(1), value, memtable.get());
  std::string image(ImageBytesMax(value), '\0');
  while (state.KeepRunning()) {
    MemorySink sink(image.data(), image.size());
    TableMeta meta;
    std::string resident;
    Build(*memtable, NewTableBuilder(TablesWithFilters(), &sink).get(), &meta, &resident);
    benchmark::DoNotOptimize(resident.data());
  }
  CountRecords(state, kRecords);
}
BENCHMARK(TableOfMemtable)->ArgName("value")->Arg(400)->Arg(100);

// Tables as flushes make them, each a run of its own, in memory that is read in place.
class Runs {
 public:
  Runs(size_t count, const std::string& value) : queue_pairs_(&memory_, /*direct=*/true) {
    for (size_t i = 0; i < count; ++i) {
      const std::unique_ptr<Memtable> memtable = NewMemtable();
      Fill(RandomKeys(i + 1), value, memtable.get());
      const RemoteSpan image = memory_.Allocate(ImageBytesMax(value));
      MemorySink sink(memory_.At(image), image.bytes);
      TableMeta meta;
      Build(*memtable, NewTableBuilder(TablesWithFilters(), &sink).get(), &meta,
            &residents_.emplace_back());
      meta.image = image.Sub(0, meta.image.bytes);
      std::unique_ptr<TableReader>& reader = readers_.emplace_back();
      TableReader::Open(TablesWithFilters(), meta, residents_.back(), nullptr, CachedBlocks(),
                        &reader)
          .PermitUncheckedError();
      runs_.push_back({reader.get()});
    }
  }

  const std::vector<TableRun>& runs() const { return runs_; }
  QueuePairs* queue_pairs() { return &queue_pairs_; }

 private:
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  std::deque<std::string> residents_;
  std::vector<std::unique_ptr<TableReader>> readers_;
  std::vector<TableRun> runs_;
};

// One output behind the other, over those of the merge before.
class OneBehindTheOther final : public MergeOutput {
 public:
  explicit OneBehindTheOther(uint64_t bytes) : memory_(bytes, '\0') {}

  void Clear() { used_ = 0; }
  Status NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) override {
    if (bytes > memory_.size() - used_) return Status::Busy("the benchmark's memory is used up");
    *sink = std::make_unique<MemorySink>(memory_.data() + used_, bytes);
    return Status::OK();
  }
  Status TableDone(TableMeta meta, const Slice& /*resident*/) override {
    used_ += meta.image.bytes;
    return Status::OK();
  }

 private:
  std::string memory_;
  uint64_t used_ = 0;
};

class AtOnce final : public MergePace {
 public:
  Status Proceed(uint64_t /*bytes*/) override { return Status::OK(); }
};

void MergeRuns(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const std::string value(static_cast<size_t>(state.range(1)), 'v');
  Runs runs(count, value);
  MergeOptions options;
  options.table = TablesWithFilters();
  options.cut_hash_bits = 10;
  TableReadOptions read_options;
  read_options.purpose = Purpose::kCompaction;
  OneBehindTheOther output(count * ImageBytesMax(value) + options.table_bytes_max);
  AtOnce pace;
  MergeStatistics statistics;
  while (state.KeepRunning()) {
    output.Clear();
    const Status merged = MergeTables(options, runs.runs(), read_options, runs.queue_pairs(), &pace,
                                      &output, &statistics);
    if (!merged.ok()) return state.SkipWithError(merged.ToString().c_str());
  }
  CountRecords(state, statistics.records_read);
}
BENCHMARK(MergeRuns)
    ->ArgNames({"runs", "value"})
    ->Args({2, 400})
    ->Args({5, 400})
    ->Args({10, 400})
    ->Args({5, 100});

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
