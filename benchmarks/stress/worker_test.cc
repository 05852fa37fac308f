#include "benchmarks/stress/worker.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "util/fabric/decorators/fault_injector.h"
#include "util/status_testing.h"

namespace dlsm::stress {
namespace {

// Fails if a merge that fails goes unnoticed, or is an error though faults explain it.
TEST(WorkerTest, MergesMayFailUnderFaultsOnly) {
  constexpr uint64_t kKeys = 64;
  const KeySpace space(7, kKeys, 100);
  std::vector<char> memory(ExpectedState::BytesFor(kKeys));
  ExpectedState state(memory.data(), kKeys);
  Worker::Config config;
  config.reshape_one_in = 1;  // It does nothing but flush and compact.
  Worker worker(config, &space, &state);
  Options options;
  options.create_if_missing = true;
  options.embedded_memory_bytes = uint64_t{256} << 20;
  options.compaction_place = CompactionPlace::kComputeNode;
  options.idle_size_amplification_percent = 0;  // Nothing is merged but by request.
  options.fault_injector = std::make_shared<FaultInjector>();
  options.fault_injector->OnlyPurpose(Purpose::kCompaction);
  options.fault_injector->SetProbability(FaultKind::kFail, 1);
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, "worker", &db));
  for (const char* value : {"old", "new"}) {
    for (uint64_t key = 0; key < kKeys; ++key) {
      ASSERT_OK(db->Put(WriteOptions(), space.KeyBytes(key), value));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  Status failed;
  for (int i = 0; i < 1000 && failed.ok(); ++i) failed = worker.Step(db.get(), /*faults=*/false);
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_EQ(worker.last(), "compact range");
  EXPECT_EQ(worker.tally().tolerated, 0u);
  for (int i = 0; i < 200; ++i) ASSERT_OK(worker.Step(db.get(), /*faults=*/true));
  EXPECT_GT(worker.tally().tolerated, 0u);
  options.fault_injector->Clear();
  EXPECT_OK(db->Close());
  db.reset();
  EXPECT_OK(DestroyDB("worker", options));
}

}  // namespace
}  // namespace dlsm::stress
