#include "util/rpc/messages/messages.h"

#include <gtest/gtest.h>

#include <string>

#include "util/coding.h"
#include "util/random.h"

namespace dlsm {
namespace {

RemoteSpan Span(uint64_t offset, uint64_t bytes) {
  return RemoteSpan{NodeId{3}, RegionId{1}, offset, bytes};
}

// Each message once, with every field set, as its bytes; and how to decode it and encode it again.
template <typename Message>
void CheckMessage(const Message& message) {
  const std::string bytes = message.Encode();
  Message decoded;
  ASSERT_TRUE(decoded.Decode(bytes).ok());
  EXPECT_EQ(decoded.Encode(), bytes);
  // Cut at every length, and with a byte too many.
  for (size_t length = 0; length < bytes.size(); ++length) {
    Message cut;
    ASSERT_TRUE(cut.Decode(bytes.substr(0, length)).IsCorruption()) << length;
  }
  Message longer;
  EXPECT_TRUE(longer.Decode(bytes + '\0').IsCorruption());
  // Whatever is accepted after a change says what it was given.
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    Message changed;
    if (changed.Decode(flipped).ok()) {
      ASSERT_EQ(changed.Encode(), flipped) << bit;
    }
  }
}

// Fails if a field is lost, a bound is missing, or trailing bytes pass.
TEST(MessagesTest, SurviveTheWireAndNothingElseDoes) {
  OpenDatabaseRequest open;
  open.name = std::string("a\0b", 3);
  open.create_if_missing = true;
  CheckMessage(open);
  open.error_if_exists = true;
  open.take_over = true;
  open.claimed = SessionId{6};
  CheckMessage(open);
  OpenDatabaseReply opened;
  opened.session = SessionId{0x1122334455667788};
  opened.existed = true;
  opened.lease_ms = 10000;
  opened.manifest_version = 7;
  opened.manifest = "manifest";
  opened.header = Span(640, 4096);
  opened.ownership_before = uint64_t{1} << 32;
  opened.ownership_word = uint64_t{2} << 32 | 5;
  opened.quota_bytes = 12345;
  CheckMessage(opened);
  HeartbeatRequest beat;
  beat.session = SessionId{5};
  beat.publications_from = 8;
  CheckMessage(beat);
  beat.answers = {.next = 10, .awaited = {1, 9}, .lost = {2, 3, 7}};
  CheckMessage(beat);
  HeartbeatReply beaten;
  CheckMessage(beaten);
  beaten.merges = MergeLoad{1, 2, 3, 4, 5, 6, 7, 0.125};
  beaten.free_bytes = 8;
  beaten.grantable_bytes = 9;
  beaten.others_want_room = true;
  beaten.former_reaches = true;
  CheckMessage(beaten);
  RenewSessionsRequest renew;
  CheckMessage(renew);
  renew.sessions = {SessionId{5}, SessionId{6}};
  CheckMessage(renew);
  RenewSessionsReply renewed;
  CheckMessage(renewed);
  renewed.sessions = {{}, {.renewed = true, .free_bytes = 7, .grantable_bytes = 8}};
  renewed.sessions[1].others_want_room = true;
  CheckMessage(renewed);
  GrantRequest grant;
  grant.session = SessionId{5};
  grant.bytes = 1 << 20;
  grant.bytes_min = 1 << 10;
  CheckMessage(grant);
  grant.for_merge = true;
  CheckMessage(grant);
  GrantReply granted;
  granted.extent = Span(64, 128);
  CheckMessage(granted);
  PersistRequest persist;
  CheckMessage(persist);
  persist.session = SessionId{5};
  persist.spans = {Span(64, 128), Span(4096, 1)};
  CheckMessage(persist);
  FreeRequest free;
  free.session = SessionId{5};
  CheckMessage(free);
  free.number = 6;
  free.unnamed_from = 7;
  free.spans = {Span(0, 64), Span(640, 1)};
  CheckMessage(free);
  OpenReaderRequest open_reader;
  CheckMessage(open_reader);
  open_reader.databases = {"db", "db#shard-1"};
  CheckMessage(open_reader);
  OpenReaderReply reader;
  reader.reader = ReaderId{6};
  reader.lease_ms = 10000;
  reader.whole_from = 3;
  reader.header = Span(4096, 4096);
  CheckMessage(reader);
  ReaderHeartbeatRequest reader_beat;
  reader_beat.reader = ReaderId{6};
  reader_beat.oldest = 4;
  CheckMessage(reader_beat);
  ReaderHeartbeatReply reader_beaten;
  reader_beaten.must_move = true;
  CheckMessage(reader_beaten);
  CloseReaderRequest close_reader;
  close_reader.reader = ReaderId{6};
  CheckMessage(close_reader);
  PutManifestRequest put;
  put.session = SessionId{5};
  put.version = 9;
  put.manifest = "manifest";
  put.live = {Span(0, 64)};
  CheckMessage(put);
  CloseDatabaseRequest close;
  close.session = SessionId{5};
  close.unnamed_from = 6;
  CheckMessage(close);
  DestroyDatabaseRequest destroy;
  destroy.name = "gone";
  destroy.incarnation = DatabaseIncarnation{0x1122334455667788};
  destroy.if_unused = true;
  destroy.manifest_version_max = 4;
  CheckMessage(destroy);
  ListDatabasesReply list;
  list.databases = {{"a", 1, 0, true, DatabaseIncarnation{4}},
                    {"", 2, 3, false, DatabaseIncarnation{5}}};
  CheckMessage(list);
  SetQuotaRequest quota;
  quota.name = "a";
  quota.bytes = uint64_t{1} << 40;
  CheckMessage(quota);
  SetMergeScheduleRequest set_schedule;
  CheckMessage(set_schedule);
  set_schedule.schedule = "fair";
  set_schedule.sets_budget = true;
  set_schedule.bytes_per_second = 1 << 20;
  CheckMessage(set_schedule);
  SetMergeScheduleReply schedule;
  schedule.schedule = "greedy";
  schedule.bytes_per_second = 7;
  CheckMessage(schedule);
  NodeStatisticsReply statistics;
  statistics.capacity_bytes = 1;
  statistics.peak_rss_bytes = 12;
  CheckMessage(statistics);
}

// Fails if a field takes the place of another, or if what no memory node says is believed.
TEST(MessagesTest, LoadComesBackAsItWas) {
  HeartbeatReply reply;
  reply.merges = MergeLoad{1, 2, 3, 4, 5, 6, 7, 0.125};
  reply.free_bytes = 8;
  reply.grantable_bytes = 9;
  HeartbeatReply decoded;
  ASSERT_TRUE(decoded.Decode(reply.Encode()).ok());
  EXPECT_EQ(decoded.merges.running, 1u);
  EXPECT_EQ(decoded.merges.queued, 2u);
  EXPECT_EQ(decoded.merges.bytes_waiting, 3u);
  EXPECT_EQ(decoded.merges.bytes_merged, 4u);
  EXPECT_EQ(decoded.merges.workers, 5u);
  EXPECT_EQ(decoded.merges.bytes_per_second, 6u);
  EXPECT_EQ(decoded.merges.bytes_per_second_max, 7u);
  EXPECT_EQ(decoded.free_bytes, 8u);
  EXPECT_EQ(decoded.grantable_bytes, 9u);
  EXPECT_EQ(decoded.merges.cpu_idle, 0.125);
  reply.merges.cpu_idle.reset();
  ASSERT_TRUE(decoded.Decode(reply.Encode()).ok());
  EXPECT_FALSE(decoded.merges.cpu_idle.has_value());

  std::string bytes = reply.Encode();
  constexpr size_t kBehind = 2 * sizeof(uint64_t);  // free_bytes and grantable_bytes.
  EncodeFixed32(bytes.data() + bytes.size() - kBehind - 4, 1001);
  EXPECT_TRUE(decoded.Decode(bytes).IsCorruption()) << "more idle than there is";
  bytes = reply.Encode();
  EncodeFixed32(bytes.data(), 2);
  EXPECT_TRUE(decoded.Decode(bytes).IsCorruption()) << "another version";
}

// Fails if a list is made as long as it claims to be.
TEST(MessagesTest, ListsAreNoLongerThanTheirBytes) {
  std::string bytes;
  PutFixed64(&bytes, 5);
  PutFixed32(&bytes, 0xffffffff);
  bytes.append(24, 'x');
  FreeRequest free;
  EXPECT_TRUE(free.Decode(bytes).IsCorruption());
  EXPECT_LE(free.spans.capacity(), 1u);
}

// Fails if a memory node is told of numbers that its lists cannot hold, or that make no sense.
TEST(MessagesTest, NumbersOfMergesAreInOrderAndBounded) {
  const auto decodes = [](const MergeAnswers& answers) {
    HeartbeatRequest request;
    request.answers = answers;
    const std::string bytes = request.Encode();
    HeartbeatRequest decoded;
    const Status status = decoded.Decode(bytes);
    EXPECT_TRUE(status.ok() || status.IsCorruption());
    if (!status.ok()) return false;
    EXPECT_EQ(decoded.answers.next, answers.next);
    EXPECT_EQ(decoded.answers.awaited, answers.awaited);
    EXPECT_EQ(decoded.answers.lost, answers.lost);
    return true;
  };
  EXPECT_TRUE(decodes({.next = 1}));
  EXPECT_TRUE(decodes({.next = 4, .awaited = {1, 3}, .lost = {2}}));
  EXPECT_FALSE(decodes({.next = 4, .awaited = {0}}));
  EXPECT_FALSE(decodes({.next = 4, .awaited = {4}}));
  EXPECT_FALSE(decodes({.next = 4, .lost = {4}}));
  EXPECT_FALSE(decodes({.next = 4, .awaited = {2, 2}}));
  EXPECT_FALSE(decodes({.next = 4, .lost = {3, 1}}));
  EXPECT_FALSE(decodes({.next = 0, .lost = {1}}));
  MergeAnswers most;
  for (; most.next <= MergeAnswers::kNumbersMax; ++most.next) {
    most.awaited.push_back(most.next);
    most.lost.push_back(most.next);
  }
  EXPECT_TRUE(decodes(most));
  HeartbeatRequest request;
  request.answers = most;
  std::string bytes = request.Encode();
  // One more of those that are lost, with its bytes.
  const size_t list_bytes = 4 + most.lost.size() * sizeof(uint64_t);
  EncodeFixed32(bytes.data() + bytes.size() - list_bytes,
                static_cast<uint32_t>(MergeAnswers::kNumbersMax) + 1);
  EncodeFixed64(bytes.data() + sizeof(uint64_t) * 2, most.next + 10);
  PutFixed64(&bytes, most.next);
  HeartbeatRequest decoded;
  EXPECT_TRUE(decoded.Decode(bytes).IsCorruption());
}

// Fails if a memory node may be kept busy with any number of sessions.
TEST(MessagesTest, SessionsToBeRenewedAreBounded) {
  RenewSessionsRequest request;
  request.sessions.resize(RenewSessionsRequest::kSessionsMax);
  EXPECT_TRUE(RenewSessionsRequest().Decode(request.Encode()).ok());
  request.sessions.emplace_back();
  EXPECT_TRUE(RenewSessionsRequest().Decode(request.Encode()).IsCorruption());
}

// Fails if a memory node may be kept busy with any number of spans.
TEST(MessagesTest, SpansToBePersistedAreBounded) {
  PersistRequest request;
  request.spans.assign(PersistRequest::kSpansMax, Span(64, 128));
  EXPECT_TRUE(PersistRequest().Decode(request.Encode()).ok());
  request.spans.push_back(Span(64, 128));
  EXPECT_TRUE(PersistRequest().Decode(request.Encode()).IsCorruption());
}

// Fails if a span's end overflows later.
TEST(MessagesTest, SpansThatOverflowAreCorruption) {
  GrantReply reply;
  reply.extent = Span(~uint64_t{0} - 3, 4);
  EXPECT_TRUE(GrantReply().Decode(reply.Encode()).IsCorruption());
}

// Fails if a lease is believed that no clock can hold: when it ends, numbers would overflow.
TEST(MessagesTest, LeasesOfCenturiesAreCorruption) {
  OpenDatabaseReply opened;
  opened.lease_ms = ~uint64_t{0} / 2;
  EXPECT_TRUE(OpenDatabaseReply().Decode(opened.Encode()).IsCorruption());
  OpenReaderReply reader;
  reader.lease_ms = opened.lease_ms;
  EXPECT_TRUE(OpenReaderReply().Decode(reader.Encode()).IsCorruption());
}

TEST(MessagesTest, RandomBytesDoNoHarm) {
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::string bytes = random.Bytes(random.Uniform(80));
    OpenDatabaseReply().Decode(bytes).PermitUncheckedError();
    PutManifestRequest().Decode(bytes).PermitUncheckedError();
    ListDatabasesReply().Decode(bytes).PermitUncheckedError();
    HeartbeatReply().Decode(bytes).PermitUncheckedError();
    SetQuotaRequest().Decode(bytes).PermitUncheckedError();
    PersistRequest().Decode(bytes).PermitUncheckedError();
    SetMergeScheduleRequest().Decode(bytes).PermitUncheckedError();
  }
}

}  // namespace
}  // namespace dlsm
