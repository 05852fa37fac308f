#include "benchmarks/workload.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "benchmarks/seconds_since.h"
#include "benchmarks/workload_runs.h"

namespace dlsm::bench {
namespace {

Status RunCompact(Engine& engine, std::string* /*text*/) {
  Status status = engine.Compact();
  return status.ok() ? engine.WaitForBackgroundWork() : status;
}
Status RunFlush(Engine& engine, std::string* /*text*/) { return engine.Flush(); }
Status RunWait(Engine& engine, std::string* /*text*/) { return engine.WaitForBackgroundWork(); }
Status RunStats(Engine& engine, std::string* text) {
  *text += engine.Stats();
  return Status::OK();
}
// Nothing of the process goes on, as if another one had killed it.
Status RunKill(Engine& /*engine*/, std::string* /*text*/) {
  raise(SIGKILL);
  return Status::Aborted("this process cannot be killed");
}

Status RunReopen(Engine& engine, std::string* text) {
  const auto start = std::chrono::steady_clock::now();
  Status closed = engine.Close();
  if (!closed.ok()) return closed;
  const double closing = SecondsSince(start);
  double opening = 0;
  Status opened = OpenAndRead(engine, &opening);
  *text = fmt::format("closed in {:.1f} ms; opened, and an entry read, in {:.1f} ms",
                      closing * 1000, opening * 1000);
  return opened;
}

Status RunLevelStats(Engine& engine, std::string* text) {
  *text += engine.LevelStats();
  return Status::OK();
}

constexpr WriteShape kSequentialPuts = {.order = Order::kSequential};
constexpr WriteShape kUniquePuts = {.order = Order::kUnique};
constexpr WriteShape kSyncPuts = {.reduction = 1000};
constexpr WriteShape kDeletes = {.kind = StepKind::kDelete};
constexpr WriteShape kSequentialDeletes = {.kind = StepKind::kDelete, .order = Order::kSequential};
constexpr WriteShape kRangeDeletes = {.kind = StepKind::kDeleteRange, .reduction = 1000};
constexpr WriteShape kMixedPuts = {.mixed_with_reads = true};

using Kind = Workload::Kind;

const std::vector<Workload> kWorkloads = {
    {"fillseq", Kind::kFill, "put all keys in order; the threads share them out", RunWrites,
     nullptr, kSequentialPuts},
    {"fillrandom", Kind::kFill, "put num random keys in each thread", RunWrites},
    {"filluniquerandom", Kind::kFill, "put all keys once in random order; shared out", RunWrites,
     nullptr, kUniquePuts},
    {"fillbatch", Kind::kFill, "as fillseq, in batches of 1000", RunWrites, nullptr,
     kSequentialPuts, 1000},
    {"bulkload", Kind::kFill, "ingest all keys as a sorted stream; the threads share them out",
     RunBulkLoad, nullptr, kSequentialPuts},
    {"fillsync", Kind::kFill, "put num/1000 random keys, each with sync", RunSyncWrites, nullptr,
     kSyncPuts},
    {"overwrite", Kind::kWrite, "put num random keys in each thread into what is there", RunWrites},
    {"readrandom", Kind::kRead, "get random keys", RunReadRandom},
    {"readmissing", Kind::kRead, "get keys that lie between the others", RunReadMissing},
    {"readhot", Kind::kRead, "get random keys of the first 1%", RunReadHot},
    {"multireadrandom",
     Kind::kRead,
     "get random keys in batches of 32; an op is a key",
     RunMultiRead,
     nullptr,
     {},
     32},
    {"pipelinedreadrandom",
     Kind::kRead,
     "get random keys, 32 at a time under way",
     RunPipelinedRead,
     nullptr,
     {},
     32},
    {"readseq", Kind::kRead, "iterate from the first key", RunScanForward},
    {"readreverse", Kind::kRead, "iterate from the last key down", RunScanBackward},
    {"seekrandom", Kind::kRead, "new iterator, seek to a random key, --seek_nexts steps",
     RunSeekRandom},
    {"indexquery", Kind::kRead, "records by ranges of index keys, --index_records of them each",
     RunIndexQueries},
    {"readrandomwriterandom", Kind::kWrite, "get or put random keys: --readwritepercent gets",
     RunMixed, nullptr, kMixedPuts},
    {"readwhilewriting",
     Kind::kRead,
     "readrandom, while one more thread overwrites",
     RunReadRandom,
     nullptr,
     {},
     1,
     true},
    {"deleteseq", Kind::kWrite, "delete all keys in order; shared out", RunWrites, nullptr,
     kSequentialDeletes},
    {"deleterandom", Kind::kWrite, "delete num random keys in each thread", RunWrites, nullptr,
     kDeletes},
    {"deleteranges", Kind::kWrite, "delete num/1000 ranges of 100 keys in each thread", RunWrites,
     nullptr, kRangeDeletes},
    {"twophase", Kind::kTwoPhase, "the most writes/s, then latencies at a share of it"},
    {"verify", Kind::kVerify, "get and scan every key, compare with what was written", RunVerify},
    {"compact", Kind::kWhole, "merge everything down", nullptr, RunCompact},
    {"flush", Kind::kWhole, "write the memtables out", nullptr, RunFlush},
    {"waitforbackground", Kind::kWhole, "wait until no flush and no merge is due", nullptr,
     RunWait},
    {"stats", Kind::kWhole, "print the engine's statistics", nullptr, RunStats},
    {"levelstats", Kind::kWhole, "print tables and bytes of each level", nullptr, RunLevelStats},
    {"reopen", Kind::kWhole, "close, open and read one entry: how long each takes", nullptr,
     RunReopen},
    {"kill", Kind::kWhole, "kill this process: the next run with --use_existing_db recovers",
     nullptr, RunKill},
};

// Of the keys, where the threads share them out.
uint64_t KeysOfThread(const BenchOptions& options, uint32_t thread) {
  const uint64_t begin = options.num * thread / options.threads;
  return options.num * (thread + 1) / options.threads - begin;
}

uint64_t OperationsOrNum(uint64_t operations, const BenchOptions& options) {
  return operations > 0 ? operations : options.num;
}

}  // namespace

Status OpenAndRead(Engine& engine, double* seconds) {
  const auto start = std::chrono::steady_clock::now();
  Status opened = engine.Open(/*create=*/false);
  if (!opened.ok()) return opened;
  const std::unique_ptr<Session> session = engine.NewSession();
  Cursor& cursor = session->NewCursor();
  Cursor::Entry entry;
  if (cursor.SeekToFirst(&entry)) {
    const std::string key = entry.key.ToString();
    Slice value;
    static_cast<void>(session->Get(key, &value));
  }
  *seconds = SecondsSince(start);
  Status status = cursor.status();
  return status.ok() ? session->status() : status;
}

const std::vector<Workload>& Workloads() { return kWorkloads; }

const Workload* FindWorkload(const std::string& name) {
  const auto found = std::find_if(kWorkloads.begin(), kWorkloads.end(),
                                  [&](const Workload& workload) { return name == workload.name; });
  return found == kWorkloads.end() ? nullptr : &*found;
}

StreamDescription DescribeStream(const Workload& workload, const BenchOptions& options,
                                 uint16_t version) {
  StreamDescription stream;
  stream.kind = workload.writes.kind;
  stream.order = workload.writes.order;
  if (workload.kind != Kind::kFill) stream.distribution = options.distribution;
  stream.zipf_theta = options.zipf_theta;
  stream.num = options.num;
  stream.threads = workload.background_writer ? 1 : options.threads;
  stream.read_percent = workload.writes.mixed_with_reads ? options.read_percent : 0;
  stream.seed = options.seed;
  stream.version = version;
  return stream;
}

uint64_t StepsOfThread(const Workload& workload, const BenchOptions& options, uint32_t thread) {
  // However few reads the others do, verify vouches for every key.
  if (workload.kind == Kind::kVerify) return KeysOfThread(options, thread);
  if (!workload.Writes() || workload.background_writer) {
    return OperationsOrNum(options.reads, options);
  }
  if (workload.writes.mixed_with_reads) {
    return OperationsOrNum(std::max(options.reads, options.writes), options);
  }
  if (options.writes == 0 && workload.writes.order != Order::kRandom) {
    return KeysOfThread(options, thread);
  }
  return std::max<uint64_t>(1,
                            OperationsOrNum(options.writes, options) / workload.writes.reduction);
}

}  // namespace dlsm::bench
