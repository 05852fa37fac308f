// Merges by request, with real tables: through a loopback, over shm and over tcp.
#include "memory_node/merge_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "table/table_sink.h"
#include "util/extent_allocator.h"
#include "util/rpc/loopback_rpc.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using Contents = std::map<std::string, std::string>;

// The connection of one thread's queue pair.
class OneQueuePair final : public QueuePairs {
 public:
  explicit OneQueuePair(FabricConnection* fabric) : fabric_(fabric) {}
  Status ForThisThread(NodeId /*node*/, QueuePair** queue_pair) override {
    if (made_ == nullptr || made_->closed()) {
      const Status status = fabric_->NewQueuePair(TestDeadline(), &made_);
      if (!status.ok()) return status;
    }
    *queue_pair = made_.get();
    return Status::OK();
  }
  Status NewBuffer(NodeId /*node*/, size_t bytes, RegisteredBuffer* buffer) override {
    return fabric_->NewBuffer(bytes, buffer);
  }

 private:
  FabricConnection* const fabric_;
  std::unique_ptr<QueuePair> made_;
};

enum class Way { kEmbedded, kShm, kTcp };

class MergeServiceTest : public testing::TestWithParam<Way> {
 protected:
  MergeServiceTest() {
    if (GetParam() == Way::kEmbedded) {
      EmbeddedNodeOptions options;
      options.bytes = uint64_t{64} << 20;
      EXPECT_OK(ConnectEmbeddedNode(options, FabricOptions(), &connection_));
    } else {
      server_ = std::make_unique<TestServer>();
      NodeConnectionOptions options;
      options.fabric.kind = GetParam() == Way::kShm ? FabricKind::kShm : FabricKind::kTcp;
      options.client_name = "tester";
      EXPECT_OK(ConnectNode(server_->address(), options, TestDeadline(), &connection_));
    }
    queue_pairs_ = std::make_unique<OneQueuePair>(&connection_->fabric());
    client_ = std::make_unique<TestClient>(&connection_->rpc());
    EXPECT_OK(client_->Open("merges"));
  }
  ~MergeServiceTest() override {
    if (client_ == nullptr) return;
    EXPECT_OK(client_->Close());
    EXPECT_EQ(client_->Statistics().used_bytes, 0u);
  }

  void Transfer(const RemoteSpan& remote, std::string* bytes, bool write) {
    RegisteredBuffer buffer;
    ASSERT_OK(connection_->fabric().NewBuffer(bytes->size(), &buffer));
    const LocalSpan local = buffer.span().Sub(0, bytes->size());
    QueuePair* pair = nullptr;
    ASSERT_OK(queue_pairs_->ForThisThread(remote.node, &pair));
    Ticket ticket{};
    if (write) {
      std::copy(bytes->begin(), bytes->end(), buffer.data());
      ASSERT_OK(pair->PostWrite(local, remote, Purpose::kFlush, &ticket));
    } else {
      ASSERT_OK(pair->PostRead(remote, local, Purpose::kRead, &ticket));
    }
    ASSERT_OK(pair->Wait(ticket, TestDeadline()));
    if (!write) bytes->assign(buffer.data(), bytes->size());
  }

  // A table with these entries, written to a grant of its own; an empty value is a deletion.
  TableMeta WriteTable(const Contents& contents, SequenceNumber sequence) {
    std::string image(size_t{4} << 20, '\0');
    MemorySink sink(image.data(), image.size());
    const auto builder = NewTableBuilder(TableOptions(), &sink);
    for (const auto& [key, value] : contents) {
      std::string internal_key;
      AppendInternalKey(&internal_key, key, sequence,
                        value.empty() ? ValueType::kDeletion : ValueType::kValue);
      EXPECT_OK(builder->Add(internal_key, value));
    }
    TableMeta meta;
    std::string resident;
    EXPECT_OK(builder->Finish(&meta, &resident));
    EXPECT_OK(sink.Finish());
    image.resize(meta.image.bytes);
    meta.image = client_->Grant(meta.image.bytes).Sub(0, meta.image.bytes);
    Transfer(meta.image, &image, /*write=*/true);
    return meta;
  }

  Contents ReadTable(const TableMeta& meta) {
    std::string resident(meta.resident_span().bytes, '\0');
    Transfer(meta.resident_span(), &resident, /*write=*/false);
    std::unique_ptr<TableReader> reader;
    Contents contents;
    const Status opened =
        TableReader::Open(TableOptions(), meta, resident, nullptr, nullptr, &reader);
    EXPECT_OK(opened);
    if (!opened.ok()) return contents;
    const auto iterator = reader->NewIterator(TableReadOptions(), queue_pairs_.get());
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      contents[ExtractUserKey(iterator->key()).ToString()] = iterator->value().ToString();
    }
    EXPECT_OK(iterator->status());
    return contents;
  }

  std::unique_ptr<TestServer> server_;  // Not for the embedded node.
  std::unique_ptr<NodeConnection> connection_;
  std::unique_ptr<OneQueuePair> queue_pairs_;
  std::unique_ptr<TestClient> client_;
};

Contents Numbers(int begin, int end, int step, const std::string& value) {
  Contents contents;
  for (int i = begin; i < end; i += step) {
    contents[fmt::format("{:08}", i)] = value.empty() ? value : fmt::format("{}-{}", value, i);
  }
  return contents;
}

// Fails if the result is not what a map would hold, if an output lies where it should not, or if a
// byte is left over.
TEST_P(MergeServiceTest, MergesLikeAMap) {
  const Contents oldest = Numbers(0, 3000, 1, "old");
  const Contents newer = Numbers(0, 3000, 3, "new");
  const Contents newest = Numbers(0, 3000, 5, "");  // Deletions.
  Contents expected = oldest;
  for (const auto& [key, value] : newer) expected[key] = value;
  for (const auto& [key, value] : newest) expected.erase(key);

  MergeRequest request;
  request.runs = {{WriteTable(newest, 30)}, {WriteTable(oldest, 10)}, {WriteTable(newer, 20)}};
  request.options.table_bytes_max = 64 << 10;
  const uint64_t inputs_bytes = client_->Statistics().used_bytes;
  const uint64_t merges_before = client_->Statistics().merges_done;
  MergeReply reply;
  ASSERT_OK(client_->Merge(request, &reply));
  EXPECT_GT(reply.outputs.size(), 1u);
  EXPECT_EQ(reply.statistics.records_read, oldest.size() + newer.size() + newest.size());
  EXPECT_EQ(reply.statistics.records_written, expected.size());
  Contents merged;
  uint64_t outputs_bytes = 0;
  std::vector<RemoteSpan> to_free;
  for (const TableMeta& output : reply.outputs) {
    merged.merge(ReadTable(output));
    outputs_bytes += RoundUpToExtent(output.image.bytes);
    to_free.push_back(output.image);
  }
  EXPECT_EQ(merged, expected);
  const NodeStatisticsReply statistics = client_->Statistics();
  EXPECT_EQ(statistics.used_bytes, inputs_bytes + outputs_bytes);
  EXPECT_EQ(statistics.merges_done, merges_before + 1);
  EXPECT_EQ(statistics.merges_running, 0u);
  EXPECT_GT(statistics.merge_bytes_written, 0u);
  EXPECT_GT(statistics.cpu_micros, 0u);
  EXPECT_GT(statistics.peak_rss_bytes, 0u);
  ASSERT_OK(client_->Free(to_free));
  EXPECT_EQ(client_->Statistics().used_bytes, inputs_bytes);
}

// Fails if merges of several threads disturb each other.
TEST_P(MergeServiceTest, SeveralAtOnce) {
  MergeRequest request;
  request.runs = {{WriteTable(Numbers(0, 2000, 2, "a"), 1)},
                  {WriteTable(Numbers(1, 2000, 2, "b"), 2)}};
  std::vector<MergeReply> replies(6);
  std::vector<std::thread> threads;
  for (MergeReply& reply : replies) {
    threads.emplace_back([&] { EXPECT_OK(client_->Merge(request, &reply)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MergeReply& reply : replies) {
    ASSERT_EQ(reply.outputs.size(), 1u);
    EXPECT_EQ(ReadTable(reply.outputs[0]).size(), 2000u);
  }
}

// Fails if a request that names what is not the session's, or is garbage, is carried out.
TEST_P(MergeServiceTest, WrongRequestsAreRefused) {
  const TableMeta good = WriteTable(Numbers(0, 100, 1, "v"), 1);
  const uint64_t used = client_->Statistics().used_bytes;
  MergeReply reply;
  MergeRequest request;
  for (const uint64_t offset : {good.image.offset + 64, uint64_t{32} << 20, uint64_t{1} << 40}) {
    TableMeta wrong = good;
    wrong.image.offset = offset;
    request.runs = {{good}, {wrong}};
    const Status status = client_->Merge(request, &reply);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  }
  TableMeta other_node = good;
  other_node.image.node = NodeId{77};
  request.runs = {{other_node}};
  EXPECT_TRUE(client_->Merge(request, &reply).IsInvalidArgument());
  std::string bytes;
  EXPECT_FALSE(connection_->rpc().Call(Method::kMerge, "garbage", &bytes, TestDeadline()).ok());
  EXPECT_TRUE(connection_->rpc()
                  .Call(static_cast<Method>(99), "", &bytes, TestDeadline())
                  .IsNotSupported());
  EXPECT_EQ(client_->Statistics().used_bytes, used);
}

// Fails if a heartbeat does not tell what merges have shown, or if the reply to a merge does not.
TEST_P(MergeServiceTest, TellsItsLoad) {
  MergeRequest request;
  request.runs = {{WriteTable(Numbers(0, 20000, 2, "a"), 1)},
                  {WriteTable(Numbers(1, 20000, 2, "b"), 2)}};
  MergeReply reply;
  ASSERT_OK(client_->Merge(request, &reply));
  EXPECT_GT(reply.load.bytes_merged, 0u);
  EXPECT_GT(reply.load.bytes_per_second, 0u);
  EXPECT_EQ(reply.load.running, 0u);
  HeartbeatReply beat;
  ASSERT_OK(client_->Heartbeat(&beat));
  EXPECT_EQ(beat.merges.workers, 2u);
  EXPECT_EQ(beat.merges.bytes_merged, reply.load.bytes_merged);
  EXPECT_EQ(beat.merges.bytes_per_second, reply.load.bytes_per_second);
  EXPECT_EQ(beat.merges.queued, 0u);
  EXPECT_EQ(beat.merges.bytes_waiting, 0u);
  EXPECT_EQ(client_->Statistics().merge_bytes_per_second, reply.load.bytes_per_second);
}

// Fails if a schedule does not apply, if a name that is none passes, or if asking changes it.
TEST_P(MergeServiceTest, TheScheduleCanBeSet) {
  SetMergeScheduleReply schedule;
  ASSERT_OK(client_->SetMergeSchedule({}, &schedule));
  EXPECT_EQ(schedule.schedule, "greedy");
  EXPECT_EQ(schedule.bytes_per_second, 0u);
  SetMergeScheduleRequest request;
  request.schedule = "fair";
  request.sets_budget = true;
  request.bytes_per_second = 1'000'000'000;
  ASSERT_OK(client_->SetMergeSchedule(request, &schedule));
  EXPECT_EQ(schedule.schedule, "fair");
  HeartbeatReply beat;
  ASSERT_OK(client_->Heartbeat(&beat));
  EXPECT_EQ(beat.merges.bytes_per_second_max, 1'000'000'000u);

  SetMergeScheduleRequest wrong;
  wrong.schedule = "lazy";
  wrong.sets_budget = true;
  const Status refused = client_->SetMergeSchedule(wrong, &schedule);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("spring_and_gear"));
  ASSERT_OK(client_->SetMergeSchedule({}, &schedule));
  EXPECT_EQ(schedule.schedule, "fair");
  EXPECT_EQ(schedule.bytes_per_second, 1'000'000'000u);

  request.schedule = "greedy";  // The embedded memory node is that of other tests, too.
  request.bytes_per_second = 0;
  ASSERT_OK(client_->SetMergeSchedule(request, &schedule));
  EXPECT_EQ(schedule.schedule, "greedy");
  EXPECT_EQ(schedule.bytes_per_second, 0u);
}

// Fails if what is queued is not counted, or is counted after it was dropped or begun.
TEST_P(MergeServiceTest, WhatIsQueuedWaits) {
  if (server_ == nullptr) GTEST_SKIP() << "slows the memory node of other tests down";
  SetMergeScheduleReply schedule;
  SetMergeScheduleRequest slow;
  slow.sets_budget = true;
  slow.bytes_per_second = 1;
  ASSERT_OK(client_->SetMergeSchedule(slow, &schedule));
  MergeRequest request;
  request.runs = {{WriteTable(Numbers(0, 2000, 1, "a"), 1)}};
  const uint64_t table_bytes = request.runs[0][0].image.bytes;
  constexpr uint64_t kMerges = 7;  // Four are under way, for there are two workers and two more.
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kMerges; ++i) {
    threads.emplace_back([&] {
      MergeReply reply;
      EXPECT_OK(client_->Merge(request, &reply));
    });
  }
  HeartbeatReply beat;
  do {
    ASSERT_OK(client_->Heartbeat(&beat));
  } while (beat.merges.queued < 3 || beat.merges.running < 4);
  EXPECT_EQ(beat.merges.queued, 3u);
  EXPECT_GE(beat.merges.bytes_waiting, 3 * table_bytes);
  EXPECT_LE(beat.merges.bytes_waiting, kMerges * table_bytes);
  EXPECT_EQ(client_->Statistics().merges_queued, 3u);
  slow.bytes_per_second = 0;
  ASSERT_OK(client_->SetMergeSchedule(slow, &schedule));
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(client_->Heartbeat(&beat));
  EXPECT_EQ(beat.merges.bytes_waiting, 0u);
  EXPECT_EQ(beat.merges.queued, 0u);
}

// Fails if a damaged table passes, brings the node down, or leaks what was written before it was
// found.
TEST_P(MergeServiceTest, DamagedInputsAreCorruption) {
  const Contents contents = Numbers(0, 2000, 1, "value");
  for (const bool in_index : {false, true}) {
    const TableMeta meta = WriteTable(contents, 1);
    RemoteSpan damaged = in_index ? meta.resident_span() : meta.data_span();
    damaged = damaged.Sub(damaged.bytes - 9, 1);
    std::string byte(1, '\0');
    Transfer(damaged, &byte, /*write=*/false);
    byte[0] = static_cast<char>(~byte[0]);
    Transfer(damaged, &byte, /*write=*/true);
    const uint64_t used = client_->Statistics().used_bytes;
    MergeRequest request;
    request.runs = {{meta}};
    request.options.table_bytes_max = 16 << 10;
    MergeReply reply;
    const Status status = client_->Merge(request, &reply);
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    EXPECT_EQ(client_->Statistics().used_bytes, used);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryWay, MergeServiceTest,
                         testing::Values(Way::kEmbedded, Way::kShm, Way::kTcp),
                         [](const testing::TestParamInfo<Way>& way) -> std::string {
                           switch (way.param) {
                             case Way::kEmbedded:
                               return "Embedded";
                             case Way::kShm:
                               return "Shm";
                             case Way::kTcp:
                               return "Tcp";
                           }
                           return "";
                         });

// Fails if a node without merge threads leaves the caller waiting.
TEST(MergeServiceOptionsTest, NoThreadsNoMerges) {
  NodeServerOptions options = TestServer::SmallOptions();
  options.node.merge_threads = 0;
  TestServer server(options);
  const auto rpc = NewLoopbackRpcClient(&server.node(), RpcPeer{1, "me"});
  TestClient client(rpc.get());
  ASSERT_OK(client.Open("a"));
  MergeReply reply;
  const Status status = client.Merge(MergeRequest(), &reply);
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_THAT(status.ToString(), HasSubstr("--merge_threads"));
}

}  // namespace
}  // namespace dlsm
