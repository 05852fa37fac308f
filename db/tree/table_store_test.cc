#include "db/tree/table_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/background/flush_job.h"
#include "db/test/fake_memory_node_testing.h"
#include "port/failing_allocations_testing.h"
#include "table/node_queue_pairs.h"
#include "table/thread_queue_pairs.h"
#include "util/fabric/buffer_pool.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Transfers nothing: counts the writes that nobody has waited for.
class CountingQueuePair final : public QueuePair {
 public:
  explicit CountingQueuePair(int* writes) : writes_(writes) {}

  Status PostRead(const RemoteSpan&, const LocalSpan&, Purpose, Ticket* ticket) override {
    *ticket = Ticket{++last_};
    return Status::OK();
  }
  Status PostWrite(const LocalSpan&, const RemoteSpan&, Purpose, Ticket* ticket) override {
    ++*writes_;
    *ticket = Ticket{++last_};
    return Status::OK();
  }
  Status PostCompareAndSwap(const RemoteSpan&, uint64_t, uint64_t, uint64_t*, Purpose,
                            Ticket*) override {
    return Status::NotSupported("not needed by tables");
  }
  Status PostFetchAdd(const RemoteSpan&, uint64_t, uint64_t*, Purpose, Ticket*) override {
    return Status::NotSupported("not needed by tables");
  }
  Status Ring() override { return Status::OK(); }
  size_t worth_ringing() const override { return kReadsWorthRinging; }
  Status Wait(Ticket, Deadline) override {
    *writes_ = 0;
    return Status::OK();
  }
  char* Direct(const RemoteSpan&) override { return nullptr; }
  void CountDirectRead(uint64_t, Purpose) override {}
  void CountDirectWrite(uint64_t, Purpose) override {}
  bool closed() const override { return false; }

 private:
  int* const writes_;
  uint64_t last_ = 0;
};

class CountingFabric final : public FabricConnection {
 public:
  FabricKind kind() const override { return FabricKind::kTcp; }
  Status NewQueuePair(Deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    *queue_pair = std::make_unique<CountingQueuePair>(&writes);
    return Status::OK();
  }
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return buffers_.NewBuffer(bytes, buffer);
  }
  WireTotals Totals() const override { return {}; }

  int writes = 0;  // Under way.

 private:
  BufferPool buffers_;
};

// Where there are several memory nodes, a table is still on its way when it is opened. Fails if one
// that cannot be opened is given back before: what others have there then would be written over.
TEST(TableStoreTest, WhatCannotBeOpenedIsGivenBackWhenItHasArrived) {
  constexpr std::chrono::nanoseconds kTimeout = std::chrono::seconds(10);
  Statistics statistics;
  FakeMemoryNode node(uint64_t{1} << 30);
  std::vector<PlacedMemory::Node> places(2);
  places[0].rpc = places[1].rpc = &node;
  places[0].capacity_bytes = places[1].capacity_bytes = uint64_t{1} << 30;
  places[1].id = NodeId{1};  // Nothing goes there.
  const auto memory = std::make_shared<PlacedMemory>(PlacedMemory::Config(), places, &statistics);
  CountingFabric fabric;
  ThreadQueuePairs way(&fabric, &node, kTimeout);
  NodeQueuePairs queue_pairs;
  queue_pairs.Add(places[0].id, &way);
  TableStore::Config config;
  config.timeout = kTimeout;
  const TableStore store(config, &queue_pairs, memory, &statistics);
  Memtable memtable(InternalKeyComparator(BytewiseComparator()), 0, "");
  for (SequenceNumber i = 1; i <= 100; ++i) {
    EXPECT_TRUE(memtable.Add(i, ValueType::kValue, "key" + std::to_string(i), "value", false));
  }
  const std::function<uint64_t()> number = [] { return uint64_t{7}; };
  FlushOutcome outcome;
  {
    const port::FailingAllocations failing(2);  // The first is room to hold the write under way.
    const Status status =
        FlushMemtable(memtable, {}, store, PlacedMemory::WhenFull::kReserve, number, &outcome);
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_EQ(fabric.writes, 0);
  EXPECT_TRUE(outcome.tables.empty());
  ASSERT_OK(FlushMemtable(memtable, {}, store, PlacedMemory::WhenFull::kReserve, number, &outcome));
  EXPECT_EQ(outcome.tables.size(), 1u);
  for (const TableRef& table : outcome.tables) table->MarkObsolete();
  outcome.tables.clear();
  memory->ReleaseAll(0);
  EXPECT_EQ(node.used_bytes(), 0u);
}

}  // namespace
}  // namespace dlsm
