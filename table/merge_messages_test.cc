#include "table/merge_messages.h"

#include <gtest/gtest.h>

#include <memory>

#include "table/table_testing.h"
#include "util/bloom_filter.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {
namespace {

TableMeta SomeTable(uint64_t number) {
  TableMeta meta;
  meta.number = number;
  meta.image = RemoteSpan{kTestNode, RegionId{2}, number << 20, 100};
  meta.data_bytes = 60;
  meta.index_bytes = 30;
  meta.filter_bytes = 10;
  meta.entries = 5;
  meta.smallest = MakeInternalKey("a", number);
  meta.largest = MakeInternalKey("b", number);
  return meta;
}

MergeRequest SomeRequest(const FilterPolicy* filter_policy) {
  MergeRequest request;
  request.session = SessionId{99};
  request.number.own = 12;
  request.number.answers = {.next = 13, .awaited = {9, 12}, .lost = {10}};
  request.options.table.format = TableFormat::kBlockBased;
  request.options.table.comparator = ReverseBytewiseComparator();
  request.options.table.filter_policy = filter_policy;
  request.options.table.compression = kSnappyCompression;
  request.options.snapshots = {3, 5, 8};
  request.options.older = {{"z", "y"}, {"c", ""}};
  request.options.has_begin = true;
  request.options.begin = "q";
  request.options.table_bytes_max = 12345;
  request.options.cut_points = {"p", "k"};
  request.options.cut_candidates = {"o", "n"};
  request.options.cut_hash_bits = 9;
  request.input_bytes = 777;
  request.runs = {{SomeTable(1), SomeTable(2)}, {}, {SomeTable(3)}};
  request.peers = {{NodeId{4}, BootId{44}, "there", 4444}, {NodeId{5}, BootId{55}, "::1", 5555}};
  return request;
}

MergeReply SomeReply() {
  MergeReply reply;
  reply.outputs = {SomeTable(7), SomeTable(8)};
  reply.statistics.records_read = 1;
  reply.statistics.records_written = 2;
  reply.statistics.bytes_read = 3;
  reply.statistics.bytes_written = 4;
  reply.statistics.micros = 5;
  reply.statistics.allocations = 6;
  reply.load.bytes_waiting = 8;
  reply.load.cpu_idle = 0.5;
  return reply;
}

TEST(MergeMessagesTest, RequestComesBackAsItWas) {
  const BloomFilterPolicy bloom(12);
  const std::string bytes = SomeRequest(&bloom).Encode();
  MergeRequest decoded;
  ASSERT_OK(decoded.Decode(bytes));
  EXPECT_EQ(decoded.Encode(), bytes);
  EXPECT_EQ(decoded.session, SessionId{99});
  EXPECT_EQ(decoded.number.own, 12u);
  EXPECT_EQ(decoded.number.answers.next, 13u);
  EXPECT_EQ(decoded.number.answers.awaited, (std::vector<uint64_t>{9, 12}));
  EXPECT_EQ(decoded.number.answers.lost, (std::vector<uint64_t>{10}));
  EXPECT_EQ(decoded.options.table.comparator, ReverseBytewiseComparator());
  ASSERT_NE(AsBuiltIn(decoded.options.table.filter_policy), nullptr);
  EXPECT_EQ(AsBuiltIn(decoded.options.table.filter_policy)->bits_per_key(), 12);
  EXPECT_EQ(decoded.options.older[1].smallest, "c");
  EXPECT_TRUE(decoded.options.has_begin);
  EXPECT_FALSE(decoded.options.has_end);
  EXPECT_EQ(decoded.options.cut_candidates, (std::vector<std::string>{"o", "n"}));
  EXPECT_EQ(decoded.options.cut_hash_bits, 9u);
  EXPECT_EQ(decoded.input_bytes, 777u);
  EXPECT_EQ(decoded.runs[0][1].image, SomeTable(2).image);
  EXPECT_EQ(decoded.peers, SomeRequest(nullptr).peers);
  ASSERT_OK(decoded.Decode(SomeRequest(nullptr).Encode()));
  EXPECT_EQ(decoded.options.table.filter_policy, nullptr);
}

// Fails if what keys have in common is sent more than once, or is not what it was when it arrives.
TEST(MergeMessagesTest, LongKeysAreSentOnce) {
  const std::string common(50'000, 'k');
  MergeRequest request = SomeRequest(nullptr);
  MergeReply reply = SomeReply();
  for (uint64_t i = 0; i < 20; ++i) {
    TableMeta table = SomeTable(i);
    table.smallest = MakeInternalKey(common + std::to_string(i), 7);
    table.largest = MakeInternalKey(common + std::to_string(i) + "z", 7);
    request.runs[0].push_back(table);
    reply.outputs.push_back(table);
    request.options.cut_points.push_back(common + std::to_string(i));
    request.options.older.push_back({common + "a" + std::to_string(i), common + "b"});
  }
  EXPECT_LT(request.Encode().size(), 3 * common.size());
  EXPECT_LT(reply.Encode().size(), 2 * common.size());
  MergeRequest arrived;
  ASSERT_OK(arrived.Decode(request.Encode()));
  EXPECT_EQ(arrived.options.cut_points, request.options.cut_points);
  EXPECT_EQ(arrived.options.older.back().smallest, request.options.older.back().smallest);
  EXPECT_EQ(arrived.runs[0].back().largest, request.runs[0].back().largest);
  MergeReply answered;
  ASSERT_OK(answered.Decode(reply.Encode()));
  EXPECT_EQ(answered.outputs.back().smallest, reply.outputs.back().smallest);
}

TEST(MergeMessagesTest, ReplyComesBackAsItWas) {
  const std::string bytes = SomeReply().Encode();
  MergeReply decoded;
  ASSERT_OK(decoded.Decode(bytes));
  EXPECT_EQ(decoded.Encode(), bytes);
  EXPECT_EQ(decoded.statistics.bytes_written, 4);
  EXPECT_EQ(decoded.load.bytes_waiting, 8u);
  EXPECT_EQ(decoded.outputs.size(), 2);
}

// Fails if what has been asked for as it fits is malformed where it arrives; or if what does not is
// asked for all the same.
TEST(MergeMessagesTest, WhatFitsIsWhatIsTaken) {
  constexpr size_t kItemsMax = size_t{1} << 20;
  EXPECT_TRUE(SomeRequest(nullptr).Fits());
  const auto with = [](auto change, size_t items) {
    MergeRequest request = SomeRequest(nullptr);
    change(&request, items);
    return request;
  };
  const auto expect_bound = [&with](auto change) {
    const MergeRequest most = with(change, kItemsMax);
    EXPECT_TRUE(most.Fits());
    const MergeRequest more = with(change, kItemsMax + 1);
    EXPECT_FALSE(more.Fits());
    if (kUnderSanitizer) return;  // A million of them, twice: for a quarter of a minute.
    EXPECT_OK(MergeRequest().Decode(most.Encode()));
    EXPECT_TRUE(MergeRequest().Decode(more.Encode()).IsCorruption());
  };
  expect_bound([](MergeRequest* request, size_t n) { request->options.snapshots.assign(n, 3); });
  expect_bound([](MergeRequest* request, size_t n) { request->options.older.resize(n); });
  expect_bound([](MergeRequest* request, size_t n) { request->options.cut_points.resize(n); });
  expect_bound([](MergeRequest* request, size_t n) { request->options.cut_candidates.resize(n); });
  expect_bound([](MergeRequest* request, size_t n) { request->runs.resize(n); });
  MergeRequest request = SomeRequest(nullptr);
  request.runs[1].resize(kItemsMax + 1);
  EXPECT_FALSE(request.Fits());
  request = SomeRequest(nullptr);
  request.options.older[0].largest.resize(kFrameBytesMax);
  EXPECT_FALSE(request.Fits()) << "no frame is so long";
}

template <typename Message>
void ExpectHostileBytesAreRefused(const std::string& good) {
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_TRUE(Message().Decode(Slice(good.data(), bytes)).IsCorruption()) << bytes;
  }
  EXPECT_TRUE(Message().Decode(good + "x").IsCorruption());
  Random random(1);
  for (int round = 0; round < 30000; ++round) {
    std::string bad = good;
    for (uint64_t changes = 1 + random.Uniform(4); changes > 0; --changes) {
      bad[random.Uniform(bad.size())] = static_cast<char>(random.OneIn(3) ? 0xff : random.Next());
    }
    Message message;
    if (message.Decode(bad).ok()) {  // Then it means something, and the same thing again.
      Message again;
      EXPECT_OK(again.Decode(message.Encode()));
    }
  }
}

TEST(MergeMessagesTest, HostileRequestsAreRefused) {
  const BloomFilterPolicy bloom(12);
  ExpectHostileBytesAreRefused<MergeRequest>(SomeRequest(&bloom).Encode());
}

TEST(MergeMessagesTest, HostileRepliesAreRefused) {
  ExpectHostileBytesAreRefused<MergeReply>(SomeReply().Encode());
}

class UserComparator final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  // The name alone must not make it a built-in one.
  const char* Name() const override { return BytewiseComparator()->Name(); }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class UserFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "user"; }
  void CreateFilter(const Slice*, int, std::string*) const override {}
  bool KeyMayMatch(const Slice&, const Slice&) const override { return true; }
};

TEST(MergeMessagesTest, OnlyWhatIsBuiltInCanBeShipped) {
  const UserComparator comparator;
  const UserFilter filter;
  TableOptions options;
  EXPECT_TRUE(MergeRequest::CanShip(options));
  options.filter_policy = Options::kNoFilter;
  EXPECT_TRUE(MergeRequest::CanShip(options));
  options.filter_policy = &filter;
  EXPECT_FALSE(MergeRequest::CanShip(options));
  options.filter_policy = nullptr;
  options.comparator = &comparator;
  EXPECT_FALSE(MergeRequest::CanShip(options));
}

}  // namespace
}  // namespace dlsm
