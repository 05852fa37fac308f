#include "db/test/faults/fail_nth_testing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "util/status_macros.h"

namespace dlsm {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DLSM_SLOW_BUILD
#endif
#endif
#ifdef DLSM_SLOW_BUILD
constexpr uint64_t kStrideFactor = 4;
#else
constexpr uint64_t kStrideFactor = 1;
#endif

// How long what could not be closed is kept. Less would end sessions where the machine is busy.
constexpr auto kLease = std::chrono::milliseconds(1500);

TestNode::Config NodeConfig(const char* fabric) {
  TestNode::Config config = TestNode::Serving(fabric);
  config.bytes = uint64_t{64} << 20;
  config.lease = kLease;
  config.grace = std::chrono::milliseconds(50);
  return config;
}

}  // namespace

FailNthTest::FailNthTest()
    : nodes_(std::vector<TestNode::Config>(GetParam().nodes, NodeConfig(GetParam().fabric)),
             GetParam().fabric) {}

Options FailNthTest::ShapedOptions() const {
  const FaultShape& shape = GetParam();
  Options options = TinyOptions();
  options.write_buffer_size = size_t{64} << 10;
  options.operation_timeout_ms = 10000;
  options.open_timeout_ms = 10000;
  options.compaction_place = shape.place;
  for (int i = 1; i < shape.shards; ++i) {
    options.write_buffer_size += size_t{64} << 10;
    options.shard_boundaries.push_back(VersionedKeys::Key(
        VersionedKeys::kKeys * static_cast<uint32_t>(i) / static_cast<uint32_t>(shape.shards)));
  }
  if (shape.shards > 1) options.shards = shape.shards;
  if (shape.nodes > 1) {
    options.placement = TablePlacement::kRoundRobin;
    options.scatter_width = 2;
  }
  return nodes_.With(options);
}

uint64_t FailNthTest::Stride() {
  const char* const asked = std::getenv("DLSM_FAULT_STRIDE");
  if (asked != nullptr) return std::max<uint64_t>(1, std::strtoull(asked, nullptr, 10));
  return GetParam().stride * kStrideFactor;
}

bool FailNthTest::FailOne(const Operation& operation, uint64_t n, FaultKind kind) {
  Options options = ShapedOptions();
  operation.change(&options);
  FaultWorld world(&nodes_, options, "fail " + std::to_string(++databases_));
  const Status prepared = operation.prepare(&world);
  EXPECT_OK(prepared);
  if (!prepared.ok()) return false;
  const uint64_t before = world.faults().CountFaults();
  world.faults().FailNth(n, kind);
  const Status status = operation.attempt(&world);
  world.faults().Clear();
  const bool met = world.faults().CountFaults() != before;
  ExpectExplained(status);
  if (!met) {
    EXPECT_OK(status);
  }
  if (HasFailure()) return false;
  Status again = operation.attempt(&world);
  // A session that could not be closed goes when its memory node has seen that its connection is
  // lost, or with its lease.
  const auto lease_over = std::chrono::steady_clock::now() + 5 * kLease;
  while ((again.IsTimedOut() || again.IsBusy()) && std::chrono::steady_clock::now() < lease_over) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    again = operation.attempt(&world);
  }
  EXPECT_OK(again) << "the fault is gone";
  if (!operation.destroys) world.ExpectWhole();
  return met;
}

void FailNthTest::FailEach(const Operation& operation, const std::vector<FaultKind>& kinds) {
  constexpr uint64_t kMost = 3000;
  // What is made once is there now: connections between memory nodes, too.
  (void)FailOne({.prepare = Fill, .attempt = CompactAll}, kMost, FaultKind::kFail);
  (void)FailOne(operation, kMost, FaultKind::kFail);
  const ProcessUse before = ProcessUse::Now();
  for (const FaultKind kind : kinds) {
    uint64_t n = 1;
    for (; n < kMost; n += Stride()) {
      SCOPED_TRACE(testing::Message() << "N=" << n << " kind=" << static_cast<int>(kind));
      const bool met = FailOne(operation, n, kind);
      if (HasFailure()) return;
      if (!met) break;
    }
    EXPECT_LT(n, kMost);
    RecordProperty("Points" + std::to_string(static_cast<int>(kind)), static_cast<int>(n - 1));
  }
  before.ExpectAgain();
}

Status FailNthTest::Fill(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(world->Open());
  DLSM_RETURN_IF_ERROR(world->keys().PutAll(world->db().get()));
  DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
  world->keys().NoteFlushed();
  DLSM_RETURN_IF_ERROR(world->keys().Write(world->db().get(), 1, 30, 3));
  return Status::OK();
}

Status FailNthTest::FillAndFlush(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(Fill(world));
  DLSM_RETURN_IF_ERROR(world->db()->Flush(FlushOptions()));
  world->keys().NoteFlushed();
  return world->db()->WaitForBackgroundWork();
}

Status FailNthTest::FillAndClose(FaultWorld* world) {
  DLSM_RETURN_IF_ERROR(Fill(world));
  return world->Close();
}

}  // namespace dlsm
