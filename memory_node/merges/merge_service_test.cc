// Merges by request, with real tables: through a loopback, over shm and over tcp.
#include "memory_node/merges/merge_service.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "memory_node/table_client_testing.h"
#include "util/eventually_testing.h"
#include "util/memory/extent_allocator.h"
#include "util/named_testing.h"
#include "util/rpc/loopback_rpc.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

enum class Way { kEmbedded, kShm, kTcp };

class MergeServiceTest : public testing::TestWithParam<Named<Way>> {
 protected:
  // There are two workers, and two more for what a budget pauses.
  static constexpr uint64_t kRunningMost = 4;

  MergeServiceTest() {
    std::unique_ptr<NodeConnection> connection;
    if (GetParam() == Way::kEmbedded) {
      EmbeddedNodeOptions options;
      options.bytes = uint64_t{64} << 20;
      EXPECT_OK(ConnectEmbeddedNode(options, FabricOptions(), &connection));
    } else {
      server_ = std::make_unique<TestServer>();
      NodeConnectionOptions options;
      options.fabric.kind = GetParam() == Way::kShm ? FabricKind::kShm : FabricKind::kTcp;
      options.client_name = "tester";
      EXPECT_OK(ConnectNode(server_->address(), options, TestDeadline(), &connection));
    }
    tables_ = std::make_unique<TableClient>(std::move(connection));
    client_ = &tables_->client();
    EXPECT_OK(client_->Open("merges"));
  }
  ~MergeServiceTest() override {
    if (tables_ == nullptr) return;
    EXPECT_OK(client_->Close());
    EXPECT_EQ(client_->Statistics().used_bytes, 0u);
  }

  // Bytes of input that all merges here may take a second; 0: no limit.
  void SetBudget(uint64_t bytes_per_second) {
    SetMergeScheduleRequest request;
    request.sets_budget = true;
    request.bytes_per_second = bytes_per_second;
    SetMergeScheduleReply schedule;
    ASSERT_OK(client_->SetMergeSchedule(request, &schedule));
  }
  // What the memory node tells of its merges once so many run and wait.
  MergeLoad AwaitMerges(uint64_t running, uint64_t queued) {
    HeartbeatReply beat;
    EXPECT_TRUE(Eventually([&] {
      EXPECT_OK(client_->Heartbeat(&beat));
      return beat.merges.running == running && beat.merges.queued == queued;
    }));
    return beat.merges;
  }
  // Asks for it in a thread of its own. *status outlives that.
  std::thread MergeAside(const MergeRequest& request, Status* status) {
    return std::thread([this, request, status] {
      MergeReply reply;
      *status = client_->Merge(request, &reply);
    });
  }

  std::unique_ptr<TestServer> server_;  // Not for the embedded node.
  std::unique_ptr<TableClient> tables_;
  TestClient* client_ = nullptr;  // Of tables_.
};

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
  request.runs = {{tables_->WriteTable(newest, 30)},
                  {tables_->WriteTable(oldest, 10)},
                  {tables_->WriteTable(newer, 20)}};
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
    merged.merge(tables_->ReadTable(output));
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

// Fails if one request makes the memory node copy more than it has room for beside its memory.
TEST_P(MergeServiceTest, WhatIsCopiedOfTablesIsBounded) {
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 100, 1, "a"), 1)}};
  MergeReply reply;
  request.runs.push_back(request.runs.front());
  EXPECT_TRUE(client_->Merge(request, &reply).IsInvalidArgument()) << "the same table twice";
  request.runs.pop_back();
  TableMeta& meta = request.runs.front().front();
  const TableMeta real = meta;
  const RemoteSpan large = client_->Grant(client_->Statistics().capacity_bytes / 3);
  meta.image = large;
  meta.filter_bytes = large.bytes - meta.data_bytes - meta.index_bytes;
  const Status refused = client_->Merge(request, &reply);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("indexes and filters"));
  ASSERT_OK(client_->Free({large}));
  meta = real;
  ASSERT_OK(client_->Merge(request, &reply));
  std::vector<RemoteSpan> to_free;
  for (const TableMeta& output : reply.outputs) to_free.push_back(output.image);
  ASSERT_OK(client_->Free(to_free));
}

// Fails if sizes that wrap when they are added up count as little: those of tables on other memory
// nodes are what a client says.
TEST_P(MergeServiceTest, SizesOfTablesElsewhereDoNotWrap) {
  TableMeta meta = tables_->WriteTable(Numbers(0, 100, 1, "a"), 1);
  meta.image = RemoteSpan{NodeId{77}, RegionId{}, 0, uint64_t{1} << 63};
  meta.data_bytes = 0;
  meta.index_bytes = meta.image.bytes;
  meta.filter_bytes = 0;
  meta.entries = 0;
  MergeRequest request;
  request.runs = {{meta}, {meta}};
  MergeReply reply;
  const Status refused = client_->Merge(request, &reply);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
}

// Fails if requests make the memory node keep more than it has room for beside its memory while
// they wait: the queue is long, and a request may be as large as a frame.
TEST_P(MergeServiceTest, WhatRequestsTakeIsBounded) {
  if (server_ == nullptr) GTEST_SKIP() << "slows the memory node of other tests down";
  SetBudget(1);
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 2000, 1, "a"), 1)}};
  std::vector<Status> ended(kRunningMost + 2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kRunningMost; ++i) threads.push_back(MergeAside(request, &ended[i]));
  AwaitMerges(kRunningMost, 0);
  const uint64_t room = client_->Statistics().capacity_bytes / 4;
  request.options.cut_points = {std::string(room / 5 * 2, 'z')};
  for (size_t i = kRunningMost; i < ended.size(); ++i) {
    threads.push_back(MergeAside(request, &ended[i]));
  }
  AwaitMerges(kRunningMost, 2);
  MergeReply reply;
  const Status busy = client_->Merge(request, &reply);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  MergeRequest too_large = request;
  too_large.options.cut_points = {std::string(room, 'z')};
  const Status refused = client_->Merge(too_large, &reply);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  SetBudget(0);
  for (std::thread& thread : threads) thread.join();
  for (const Status& each : ended) EXPECT_OK(each);
  EXPECT_OK(client_->Merge(request, &reply));
}

// Fails if a merge may make any number of tables: how small they are is for the client to say, and
// what tells of each is kept beside the memory node's memory. Or if that counts when it has ended.
TEST_P(MergeServiceTest, WhatTellsOfOutputsIsBounded) {
  constexpr int kRecords = 60000;
  const uint64_t room = client_->Statistics().capacity_bytes / 4;
  ASSERT_GT(uint64_t{kRecords} * 2 * sizeof(TableMeta), room);
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, kRecords, 1, "a"), 1)}};
  const uint64_t inputs_bytes = client_->Statistics().used_bytes;
  request.options.table_bytes_max = 1;  // A table for each record.
  MergeReply reply;
  const Status refused = client_->Merge(request, &reply);
  EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("max_file_size"));
  EXPECT_EQ(client_->Statistics().used_bytes, inputs_bytes);
  request.options.table_bytes_max = 64 << 10;
  EXPECT_OK(client_->Merge(request, &reply));
  EXPECT_GT(reply.outputs.size(), 1u);
}

// Fails if merges of several threads disturb each other.
TEST_P(MergeServiceTest, SeveralAtOnce) {
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 2000, 2, "a"), 1)},
                  {tables_->WriteTable(Numbers(1, 2000, 2, "b"), 2)}};
  std::vector<MergeReply> replies(6);
  std::vector<std::thread> threads;
  for (MergeReply& reply : replies) {
    threads.emplace_back([&] { EXPECT_OK(client_->Merge(request, &reply)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MergeReply& reply : replies) {
    ASSERT_EQ(reply.outputs.size(), 1u);
    EXPECT_EQ(tables_->ReadTable(reply.outputs[0]).size(), 2000u);
  }
}

// Fails if a request that names what is not the session's, or is garbage, is carried out.
TEST_P(MergeServiceTest, WrongRequestsAreRefused) {
  const TableMeta good = tables_->WriteTable(Numbers(0, 100, 1, "v"), 1);
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
  EXPECT_FALSE(
      tables_->connection().rpc().Call(Method::kMerge, "garbage", &bytes, TestDeadline()).ok());
  EXPECT_TRUE(tables_->connection()
                  .rpc()
                  .Call(static_cast<Method>(99), "", &bytes, TestDeadline())
                  .IsNotSupported());
  EXPECT_EQ(client_->Statistics().used_bytes, used);
}

// Fails if a heartbeat does not tell what merges have shown, or if the reply to a merge does not.
TEST_P(MergeServiceTest, TellsItsLoad) {
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 20000, 2, "a"), 1)},
                  {tables_->WriteTable(Numbers(1, 20000, 2, "b"), 2)}};
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
  SetBudget(1);
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 2000, 1, "a"), 1)}};
  const uint64_t table_bytes = request.runs[0][0].image.bytes;
  std::vector<Status> ended(kRunningMost + 3);
  std::vector<std::thread> threads;
  for (Status& each : ended) threads.push_back(MergeAside(request, &each));
  const MergeLoad load = AwaitMerges(kRunningMost, 3);
  EXPECT_GE(load.bytes_waiting, 3 * table_bytes);
  EXPECT_LE(load.bytes_waiting, ended.size() * table_bytes);
  EXPECT_EQ(client_->Statistics().merges_queued, 3u);
  SetBudget(0);
  for (std::thread& thread : threads) thread.join();
  for (const Status& each : ended) EXPECT_OK(each);
  EXPECT_EQ(AwaitMerges(0, 0).bytes_waiting, 0u);
}

// Fails if other clients are told what a client says of its merges, not what these name: it could
// make the memory node look idle, or busy.
TEST_P(MergeServiceTest, WhatWaitsIsBoundedByWhatIsNamed) {
  if (server_ == nullptr) GTEST_SKIP() << "slows the memory node of other tests down";
  SetBudget(1);
  MergeRequest busy;
  busy.runs = {{tables_->WriteTable(Numbers(0, 400, 1, "a"), 1)}};
  const uint64_t busy_bytes = kRunningMost * busy.runs[0][0].image.bytes;
  MergeRequest made_little;
  made_little.runs = {{tables_->WriteTable(Numbers(0, 20000, 1, "b"), 1)}};
  made_little.input_bytes = 1;
  const uint64_t table_bytes = made_little.runs[0][0].image.bytes;
  ASSERT_GT(table_bytes, busy_bytes);
  MergeRequest made_much = busy;
  TableMeta& elsewhere = made_much.runs[0][0];
  elsewhere.image = RemoteSpan{NodeId{77}, RegionId{}, 0, uint64_t{1} << 62};
  elsewhere.data_bytes = elsewhere.image.bytes - elsewhere.index_bytes - elsewhere.filter_bytes;
  std::vector<Status> ended(kRunningMost + 2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kRunningMost; ++i) threads.push_back(MergeAside(busy, &ended[i]));
  AwaitMerges(kRunningMost, 0);
  threads.push_back(MergeAside(made_little, &ended[kRunningMost]));
  threads.push_back(MergeAside(made_much, &ended[kRunningMost + 1]));
  const uint64_t waiting = AwaitMerges(kRunningMost, 2).bytes_waiting;
  const uint64_t capacity = client_->Statistics().capacity_bytes;
  EXPECT_GE(waiting, capacity + table_bytes);
  EXPECT_LE(waiting, capacity + table_bytes + busy_bytes);
  SetBudget(0);
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i <= kRunningMost; ++i) EXPECT_OK(ended[i]);
  EXPECT_FALSE(ended.back().ok()) << "there is no such memory node";
  EXPECT_EQ(AwaitMerges(0, 0).bytes_waiting, 0u);
}

// Fails if what a merge has made stays when its client tells that the answer never came, or if one
// that has not begun when that is told is carried out all the same.
TEST_P(MergeServiceTest, WhatNobodyHasHeardOfGoes) {
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 2000, 1, "a"), 1)}};
  const uint64_t inputs_bytes = client_->Statistics().used_bytes;
  request.number.own = 1;
  MergeReply reply;
  ASSERT_OK(client_->Merge(request, &reply));
  EXPECT_GT(client_->Statistics().used_bytes, inputs_bytes);
  EXPECT_TRUE(client_->Merge(request, &reply).IsAborted()) << "it was carried out";
  ASSERT_OK(client_->Tell({.next = 3, .awaited = {}, .lost = {1, 2}}));
  EXPECT_EQ(client_->Statistics().used_bytes, inputs_bytes);
  request.number.own = 2;
  EXPECT_TRUE(client_->Merge(request, &reply).IsAborted());
  EXPECT_EQ(client_->Statistics().used_bytes, inputs_bytes);
}

// Fails if a merge that its client has given up runs to its end: the budget lets it take hours.
TEST_P(MergeServiceTest, OnesThatAreGivenUpEnd) {
  if (server_ == nullptr) GTEST_SKIP() << "slows the memory node of other tests down";
  SetBudget(1);
  MergeRequest request;
  request.runs = {{tables_->WriteTable(Numbers(0, 20000, 1, "a"), 1)}};
  const uint64_t inputs_bytes = client_->Statistics().used_bytes;
  request.number = {1, {.next = 2, .awaited = {1}}};
  Status ended;
  std::thread merge = MergeAside(request, &ended);
  AwaitMerges(1, 0);
  EXPECT_OK(client_->Tell({.next = 2, .awaited = {}, .lost = {1}}));
  merge.join();
  EXPECT_TRUE(ended.IsAborted()) << ended.ToString();
  EXPECT_EQ(client_->Statistics().used_bytes, inputs_bytes);
}

// Fails if a merge that is given up while all workers are busy, as they may be for hours, keeps its
// place in the queue and its inputs until one of them has time for it.
TEST_P(MergeServiceTest, OnesThatAreGivenUpLeaveTheQueue) {
  if (server_ == nullptr) GTEST_SKIP() << "slows the memory node of other tests down";
  SetBudget(1);
  MergeRequest busy;
  busy.runs = {{tables_->WriteTable(Numbers(0, 2000, 1, "a"), 1)}};
  std::vector<Status> ended(kRunningMost);
  std::vector<std::thread> running;
  for (Status& each : ended) running.push_back(MergeAside(busy, &each));
  AwaitMerges(kRunningMost, 0);
  // More than everything else takes.
  const RemoteSpan large = client_->Grant(client_->Statistics().capacity_bytes / 2);
  MergeRequest request = busy;
  TableMeta& meta = request.runs[0][0];
  meta.image = large;
  meta.data_bytes = large.bytes - meta.index_bytes - meta.filter_bytes;
  request.number = {1, {.next = 2, .awaited = {1}}};
  Status given_up;
  std::thread waiting = MergeAside(request, &given_up);
  AwaitMerges(kRunningMost, 1);
  EXPECT_OK(client_->Free({large}));
  EXPECT_GE(client_->Statistics().used_bytes, large.bytes);
  EXPECT_OK(client_->Tell({.next = 2, .awaited = {}, .lost = {1}}));
  waiting.join();
  EXPECT_TRUE(given_up.IsAborted()) << given_up.ToString();
  EXPECT_LT(client_->Statistics().used_bytes, large.bytes);
  AwaitMerges(kRunningMost, 0);
  SetBudget(0);
  for (std::thread& thread : running) thread.join();
  for (const Status& each : ended) EXPECT_OK(each);
  EXPECT_EQ(AwaitMerges(0, 0).bytes_waiting, 0u);
}

// Fails if a damaged table passes, brings the node down, or leaks what was written before it was
// found.
TEST_P(MergeServiceTest, DamagedInputsAreCorruption) {
  const Contents contents = Numbers(0, 2000, 1, "value");
  for (const bool in_index : {false, true}) {
    const TableMeta meta = tables_->WriteTable(contents, 1);
    RemoteSpan damaged = in_index ? meta.resident_span() : meta.data_span();
    damaged = damaged.Sub(damaged.bytes - 9, 1);
    std::string byte(1, '\0');
    tables_->Transfer(damaged, &byte, /*write=*/false);
    byte[0] = static_cast<char>(~byte[0]);
    tables_->Transfer(damaged, &byte, /*write=*/true);
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
                         testing::Values(Named<Way>{"Embedded", Way::kEmbedded},
                                         Named<Way>{"Shm", Way::kShm},
                                         Named<Way>{"Tcp", Way::kTcp}),
                         NameOf<Way>);

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
