#include "db/log/write_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/log/log_reader.h"
#include "db/log/write_log_testing.h"
#include "table/memory_queue_pairs_testing.h"
#include "util/eventually_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr LogId kMarked{1};

class WriteLogTest : public WriteLogFixture {};

INSTANTIATE_TEST_SUITE_P(Memory, WriteLogTest, testing::Bool(),
                         [](const auto& memory) { return memory.param ? "mapped" : "posted"; });

// Fails if what is durable is not all there for a reader, in its order: frames that lie in two or
// more segments among them.
TEST_P(WriteLogTest, WhatIsDurableIsRead) {
  NewLog();
  Random random(1);
  Read written;
  for (SequenceNumber i = 1; i <= 300; ++i) {
    LookAfter();
    written.emplace_back(i, random.Bytes(random.OneIn(20) ? random.Uniform(3 * kSegmentBytes)
                                                          : random.Uniform(200)));
    // Of a frame that is larger than what is granted ahead, the writer would wait for the keeper.
    LogPosition end;
    Status status = Write(i, written.back().second, &end, /*may_wait=*/false);
    while (status.IsBusy()) {
      LookAfter();
      status = Write(i, written.back().second, &end, /*may_wait=*/false);
    }
    ASSERT_OK(status);
    if (random.OneIn(3)) {
      ASSERT_OK(log_->AwaitDurable(end));
    }
    if (random.OneIn(30)) {
      ASSERT_OK(log_->AwaitDurable(end));
      Read read;
      ASSERT_OK(ReadAll(&read));
      ASSERT_EQ(read, written);
    }
  }
}

// Fails if a frame of one of several writers is lost or torn, or comes twice.
TEST_P(WriteLogTest, ManyWritersAtOnce) {
  NewLog(uint64_t{4} << 20, milliseconds(60000));
  StartKeeper();
  constexpr int kThreads = 4;
  constexpr int kWrites = static_cast<int>(Rounds(500));
  std::vector<std::thread> writers;
  for (int thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([this, thread] {
      Random random(static_cast<uint64_t>(thread));
      for (int i = 0; i < kWrites; ++i) {
        LogPosition end;
        const std::string key = std::to_string(thread) + ":" + random.Bytes(random.Uniform(700));
        ASSERT_OK(Write(static_cast<SequenceNumber>(i), key, &end));
        if (i % 5 == 0 || i == kWrites - 1) {
          ASSERT_OK(log_->AwaitDurable(end));
          ASSERT_GE(log_->durable(), end);
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  StopKeeper();
  Read read;
  LogReader::Result result;
  ASSERT_OK(ReadAll(&read, &result));
  EXPECT_EQ(result.end, log_->tail());
  ASSERT_EQ(read.size(), static_cast<size_t>(kThreads * kWrites));
  std::map<char, SequenceNumber> next;
  for (const auto& [number, key] : read) EXPECT_EQ(number, next[key[0]]++) << key[0];
}

// Fails if a log that is truncated takes more memory the longer it lives, or if a reader finds what
// was truncated, or does not find the rest.
TEST_P(WriteLogTest, SegmentsAreUsedAgain) {
  NewLog(4 * kSegmentBytes);
  Read written;
  LogPosition start = 0;
  for (SequenceNumber i = 1; i <= 2000; ++i) {
    LookAfter();
    written.emplace_back(i, "key " + std::to_string(i) + std::string(100, 'k'));
    ASSERT_OK(WriteDurably(i, written.back().second));
    if (i % 37 == 0) {
      start = log_->tail();
      ASSERT_OK(log_->Truncate(start));
      Read read;
      LogReader::Result result;
      ASSERT_OK(ReadAll(&read, &result));
      EXPECT_EQ(result.end, start);
      ASSERT_LE(read.size(), 100u);
      EXPECT_TRUE(std::equal(read.rbegin(), read.rend(), written.rbegin()));
    }
  }
  EXPECT_LE(segments_, 5);
  EXPECT_GT(start, 20 * kSegmentBytes);
}

// Fails if a segment that a write may still land in which was given up is used again.
TEST_P(WriteLogTest, NothingIsUsedAgainWhereAWriteMayLand) {
  NewLog();
  for (SequenceNumber i = 1; log_->tail() < 2 * kSegmentBytes; ++i) {
    LookAfter();
    ASSERT_OK(WriteDurably(i, std::string(500, 'k')));
  }
  ASSERT_OK(log_->Truncate(log_->tail()));
  may_still_land_ = true;
  EXPECT_FALSE(log_->ReuseSegment());
  may_still_land_ = false;
  EXPECT_TRUE(log_->ReuseSegment());
}

// Fails if a write takes a place where there is no memory, or does not say what keeps it.
TEST_P(WriteLogTest, WritersWaitForRoom) {
  NewLog(16 * kSegmentBytes);
  LogPosition end;
  EXPECT_TRUE(Write(1, "key", &end, /*may_wait=*/false).IsBusy());
  EXPECT_EQ(log_->tail(), 0u);
  EXPECT_GT(woken_, 0);
  const Status late = Write(1, "key", &end);
  EXPECT_TRUE(late.IsBusy()) << late.ToString();
  EXPECT_THAT(late.ToString(), testing::HasSubstr("memory:1"));
  EXPECT_GT(statistics_.Get(Ticker::kStallMicrosLog), 0u);
  LookAfter();
  EXPECT_OK(Write(1, "key", &end));
  const Status large = Write(2, std::string(16 * kSegmentBytes, 'k'), &end);
  EXPECT_TRUE(large.IsInvalidArgument()) << large.ToString();
  EXPECT_THAT(large.ToString(), testing::HasSubstr("log_bytes_max"));
  // There is room for it, although more than what is granted ahead.
  StartKeeper();
  EXPECT_OK(Write(3, std::string(8 * kSegmentBytes, 'k'), &end));
}

// Fails if a writer that waits for much room is forgotten when another one takes what was granted.
TEST_P(WriteLogTest, TwoWhoWantMuchRoomBothGetIt) {
  NewLog(64 * kSegmentBytes, milliseconds(60000));
  LookAfter();
  StartKeeper();
  std::vector<std::thread> writers;
  for (int thread = 0; thread < 3; ++thread) {
    writers.emplace_back([this] {
      for (SequenceNumber i = 1; i <= 5; ++i) {
        LogPosition end;
        EXPECT_OK(Write(i, std::string(3 * kSegmentBytes, 'k'), &end));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
}

// Fails if segments that must not be used again yet let the log grow beyond what it may have.
TEST_P(WriteLogTest, SpareSegmentsCountToo) {
  NewLog(4 * kSegmentBytes, milliseconds(0));
  may_still_land_ = true;
  for (SequenceNumber i = 1; i <= 200; ++i) {
    LookAfter();
    LogPosition end;
    const Status written = Write(i, std::string(500, 'k'), &end);
    if (!written.ok()) break;
    ASSERT_OK(log_->AwaitDurable(end));
    ASSERT_OK(log_->Truncate(log_->tail()));
  }
  EXPECT_LE(segments_, 5);
  EXPECT_LE(log_->Record().segments.size(), 5u);
}

// Fails if somebody waits on for a log that has failed, or is told that something is durable.
TEST_P(WriteLogTest, AFailureReachesAllWhoWait) {
  NewLog(16 * kSegmentBytes, milliseconds(60000));
  std::thread waits([this] {
    LogPosition end;
    EXPECT_TRUE(Write(1, "key", &end).IsAborted());
  });
  EXPECT_TRUE(Eventually([this] { return woken_ > 0; }));
  log_->Fail(Status::Aborted("the test ends it"));
  waits.join();
  LogPosition end;
  EXPECT_TRUE(Write(1, "key", &end).IsAborted());
}

TEST_P(WriteLogTest, NothingIsDurableAfterAFailure) {
  NewLog();
  LookAfter();
  LogPosition end;
  ASSERT_OK(Write(1, "key", &end));
  log_->Fail(Status::Aborted("the test ends it"));
  EXPECT_TRUE(log_->AwaitDurable(end).IsAborted());
}

// Fails if a write that was given up ends the log for its reader, in one segment or across several.
TEST_P(WriteLogTest, VoidFramesArePassedOver) {
  NewLog();
  Read written;
  for (SequenceNumber i = 1; i <= 60; ++i) {
    LookAfter();
    if (i % 2 == 0) {
      WriteLog::Place place;
      ASSERT_OK(log_->Reserve(300, &place));
      std::memset(place.entries(), 'x', 300 - kLogFrameHeaderBytes);
    } else {
      written.emplace_back(i, "key " + std::to_string(i));
      ASSERT_OK(WriteDurably(i, written.back().second));
    }
  }
  EXPECT_GT(log_->tail(), 2 * kSegmentBytes);
  Read read;
  ASSERT_OK(ReadAll(&read));
  EXPECT_EQ(read, written);
}

// Fails if what lies behind a frame that is being filled counts as complete, or as durable.
TEST_P(WriteLogTest, AHoleHoldsBackWhatIsBehind) {
  NewLog();
  LookAfter();
  ASSERT_OK(WriteDurably(1, "before"));
  const LogPosition before = log_->tail();
  std::atomic<bool> go_on{false};
  std::atomic<bool> reserved{false};
  std::thread slow([&] {
    WriteLog::Place place;
    ASSERT_OK(log_->Reserve(LogFrameBytesOfOne(ValueType::kDeletion, "hole", ""), &place));
    reserved = true;
    ASSERT_TRUE(Eventually([&] { return go_on.load(); }));
    EncodeLogEntry(ValueType::kDeletion, "hole", "", place.entries());
    place.Fill(2, 1);
  });
  ASSERT_TRUE(Eventually([&] { return reserved.load(); }));
  LogPosition end;
  ASSERT_OK(Write(3, "behind", &end));
  EXPECT_EQ(log_->CompleteUpTo(), before);
  ASSERT_OK(log_->Post());
  EXPECT_LE(log_->durable(), before);
  std::atomic<bool> durable{false};
  std::thread waits([&] {
    EXPECT_OK(log_->AwaitDurable(end));
    durable = true;
  });
  // Nor would it outlive this process, if it is not sent anyway.
  std::atomic<bool> outlives{false};
  std::thread returns([&] {
    log_->AwaitOutlives(end);
    outlives = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(durable);
  EXPECT_EQ(outlives, !log_->mapped());
  Read read;
  ASSERT_OK(ReadAll(&read));
  EXPECT_EQ(read, (Read{{1, "before"}}));
  go_on = true;
  slow.join();
  waits.join();
  returns.join();
  read.clear();
  ASSERT_OK(ReadAll(&read));
  EXPECT_EQ(read, (Read{{1, "before"}, {2, "hole"}, {3, "behind"}}));
}

// Fails if a reader goes on behind a frame that is torn: what follows may depend on it.
TEST_P(WriteLogTest, ATornFrameEndsTheLog) {
  NewLog();
  LookAfter();
  LogPosition first;
  LogPosition second;
  LogPosition third;
  ASSERT_OK(Write(1, "first", &first));
  ASSERT_OK(Write(2, "second", &second));
  ASSERT_OK(Write(3, "third", &third));
  ASSERT_OK(log_->AwaitDurable(third));
  char* const segment = memory_.At(log_->Record().segments.front());
  segment[kLogSegmentHeaderBytes + second - 1] ^= 1;
  Read read;
  LogReader::Result result;
  const Status status = ReadAll(&read, &result);
  EXPECT_EQ(read, (Read{{1, "first"}}));
  EXPECT_EQ(result.end, first);
  // Where the log says how far it was durable, that is more than an end.
  EXPECT_EQ(status.IsCorruption(), !log_->mapped()) << status.ToString();
}

// Fails if what other threads have read of later segments counts although a frame of an earlier one
// is torn; wherever that is, in the middle of a segment or in two.
TEST_P(WriteLogTest, ATornFrameEndsAllSegmentsBehindIt) {
  NewLog();
  Read written;
  std::vector<LogPosition> ends;
  for (SequenceNumber i = 1; log_->tail() < 6 * kSegmentBytes; ++i) {
    LookAfter();
    written.emplace_back(i, "key " + std::to_string(i) + std::string(i % 300, 'k'));
    ASSERT_OK(WriteDurably(i, written.back().second));
    ends.push_back(log_->tail());
  }
  const LogRecord record = log_->Record();
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    const size_t torn = random.Uniform(ends.size());
    const LogPosition begin = torn == 0 ? 0 : ends[torn - 1];
    const LogPosition at = begin + random.Uniform(ends[torn] - begin);
    char* byte = nullptr;
    for (const RemoteSpan& segment : record.segments) {
      uint64_t number;
      char* const data = memory_.At(segment);
      if (DecodeLogSegmentHeader(record.id, Slice(data, kLogSegmentHeaderBytes), &number) &&
          number == at / kSegmentBytes) {
        byte = data + kLogSegmentHeaderBytes + at % kSegmentBytes;
      }
    }
    ASSERT_NE(byte, nullptr);
    *byte ^= 0x10;
    Read read;
    LogReader::Result result;
    const Status status = ReadAll(&read, &result);
    EXPECT_TRUE(status.ok() || status.IsCorruption()) << status.ToString();
    EXPECT_EQ(result.end, begin);
    EXPECT_EQ(read, Read(written.begin(), written.begin() + static_cast<ptrdiff_t>(torn)));
    *byte ^= 0x10;
  }
  Read read;
  ASSERT_OK(ReadAll(&read));
  EXPECT_EQ(read, written);
}

// Fails if the log of a database that somebody else owns by now acknowledges anything, or gives its
// memory another use. (Elsewhere the memory node takes the access away.)
TEST_P(WriteLogTest, WhoIsNoOwnerAcknowledgesNothing) {
  NewLog();
  for (SequenceNumber i = 1; log_->tail() < 2 * kSegmentBytes; ++i) {
    LookAfter();
    ASSERT_OK(WriteDurably(i, std::string(500, 'k')));
  }
  LogPosition end;
  ASSERT_OK(Write(100, "key", &end));
  SetWord(kMine + 1);
  const Status refused = log_->AwaitDurable(end);
  EXPECT_TRUE(refused.IsIOFenced()) << refused.ToString();
  if (!log_->mapped()) return;
  EXPECT_TRUE(log_->Truncate(end).IsIOFenced());
  // It stores nothing into memory that may be others'.
  const LogPosition tail = log_->tail();
  EXPECT_TRUE(Write(101, "late", &end).IsIOFenced());
  EXPECT_EQ(log_->tail(), tail);
}

// Fails if each write goes to the log node by itself.
TEST_P(WriteLogTest, GroupsFormByThemselves) {
  NewLog();
  LookAfter();
  LogPosition end = 0;
  for (SequenceNumber i = 1; i <= 20; ++i) ASSERT_OK(Write(i, "key", &end));
  const uint64_t before = queue_pairs_.Counts(Purpose::kLog).round_trips;
  ASSERT_OK(log_->AwaitDurable(end));
  const uint64_t trips = queue_pairs_.Counts(Purpose::kLog).round_trips - before;
  EXPECT_EQ(trips, log_->mapped() ? 0u : 1u);
  EXPECT_EQ(statistics_.Get(Ticker::kLogChains), log_->mapped() ? 0u : 1u);
}

// Fails if a chain that fails at any of its transfers is taken for durable, or its frames are lost
// once the log node can be reached again.
TEST_P(WriteLogTest, WhatFailedIsPostedAgain) {
  NewLog();
  if (log_->mapped()) GTEST_SKIP() << "nothing is posted";
  Read written;
  for (SequenceNumber i = 1; i <= 60; ++i) {
    LookAfter();
    written.emplace_back(i, std::string(i % 3 == 0 ? 1500 : 10, static_cast<char>('a' + i % 26)));
    LogPosition end;
    ASSERT_OK(Write(i, written.back().second, &end));
    queue_pairs_.FailAfter(static_cast<int64_t>(i % 4));
    ASSERT_OK(log_->AwaitDurable(end));
    queue_pairs_.FailNone();
    Read read;
    ASSERT_OK(ReadAll(&read));
    ASSERT_EQ(read, written);
  }
}

// Fails if a log node that is gone is waited for without end, or is not named.
TEST_P(WriteLogTest, AMemoryNodeThatIsGoneIsNamed) {
  NewLog();
  if (log_->mapped()) GTEST_SKIP() << "nothing is posted";
  LookAfter();
  LogPosition end;
  ASSERT_OK(Write(1, "key", &end));
  queue_pairs_.LoseANode(/*this_one=*/true);
  const Status status = log_->AwaitDurable(end);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), testing::HasSubstr("memory:1"));
  EXPECT_EQ(log_->durable(), 0u);
}

// Fails if a reader misses what the log's owner, that does not know yet that it is none, had
// truncated when the reader began: it has put the segment to another use meanwhile.
TEST_P(WriteLogTest, AReaderSeesThatTheStartMovesOn) {
  NewLog();
  SequenceNumber i = 1;
  for (; log_->tail() < 3 * kSegmentBytes; ++i) {
    LookAfter();
    ASSERT_OK(WriteDurably(i, std::string(500, 'k')));
  }
  MemoryQueuePairs queue_pairs(&memory_);
  const LogRecord record = log_->Record();
  LogReader reader(record, kPresent, &queue_pairs, milliseconds(300));
  LogReader::Result result;
  std::atomic<bool> moved{false};
  int readings = 0;
  ASSERT_OK(reader.Read([&](size_t) { ++readings; },
                        [&](size_t, const LogFrame&) {
                          if (!moved.exchange(true)) {
                            EXPECT_OK(log_->Truncate(log_->tail()));
                            EXPECT_TRUE(log_->ReuseSegment());
                          }
                          return Status::OK();
                        },
                        &result));
  EXPECT_EQ(readings, 2);
  EXPECT_EQ(result.start, log_->tail());
  EXPECT_EQ(result.end, log_->tail());
}

// Fails if two takers of a log find different things: its owner went on after the first one.
TEST_P(WriteLogTest, NothingCountsBehindTheEndThatATakerHasFound) {
  NewLog();
  LookAfter();
  ASSERT_OK(WriteDurably(1, "before"));
  Read read;
  LogReader::Result result;
  ASSERT_OK(ReadAll(&read, &result));
  MemoryQueuePairs queue_pairs(&memory_);
  const LogRecord record = log_->Record();
  ASSERT_OK(LogReader(record, kPresent, &queue_pairs, milliseconds(300)).Seal(result));
  LogPosition end;
  ASSERT_OK(Write(2, "after", &end));
  ASSERT_OK(log_->AwaitDurable(end));
  read.clear();
  ASSERT_OK(ReadAll(&read, &result));
  EXPECT_EQ(read, (Read{{1, "before"}}));
  EXPECT_LT(result.end, end);
}

TEST(LogRecordTest, IsUnderstoodAsItWasSaid) {
  LogRecord record;
  record.id = LogId{123};
  record.persistence = PersistenceId{456};
  record.segment_bytes = 5000;
  record.header = {NodeId{3}, RegionId{1}, 640, kLogHeaderBytes};
  for (uint64_t i = 0; i < 5; ++i) {
    record.segments.push_back({NodeId{3}, RegionId{0}, i * 1000000, 5000 + kLogSegmentHeaderBytes});
  }
  std::string bytes;
  record.AppendTo(&bytes);
  Slice rest(bytes);
  LogRecord same;
  ASSERT_OK(LogRecord::Take(&rest, &same));
  EXPECT_EQ(same, record);
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(same.Spans().size(), 6u);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    Slice part(bytes.data(), cut);
    EXPECT_TRUE(LogRecord::Take(&part, &same).IsCorruption()) << cut;
  }
}

// Fails if a mark that was being written when its writer died makes the header worthless.
TEST(LogMarkTest, OneTurnIsWholeAtLeast) {
  std::string header(kLogHeaderBytes, '\xee');
  LogPosition value;
  EXPECT_TRUE(DecodeLogMark(kMarked, LogMark::kStart, header, &value).IsCorruption());
  EncodeLogMark(kMarked, 100, header.data() + LogMarkOffset(LogMark::kStart, 0));
  EncodeLogMark(kMarked, 200, header.data() + LogMarkOffset(LogMark::kStart, 1));
  ASSERT_OK(DecodeLogMark(kMarked, LogMark::kStart, header, &value));
  EXPECT_EQ(value, 200u);
  header[LogMarkOffset(LogMark::kStart, 1)] ^= 1;
  ASSERT_OK(DecodeLogMark(kMarked, LogMark::kStart, header, &value));
  EXPECT_EQ(value, 100u);
  EXPECT_TRUE(DecodeLogMark(LogId{2}, LogMark::kStart, header, &value).IsCorruption());
  EXPECT_TRUE(DecodeLogMark(kMarked, LogMark::kDurable, header, &value).IsCorruption());
}

// Fails if a position that no log reaches is believed: sums with it would wrap.
TEST(LogMarkTest, HostilePositionsAreNotBelieved) {
  std::string header(kLogHeaderBytes, '\0');
  LogPosition value;
  EncodeLogMark(kMarked, UINT64_MAX - 40, header.data() + LogMarkOffset(LogMark::kStart, 0));
  EXPECT_TRUE(DecodeLogMark(kMarked, LogMark::kStart, header, &value).IsCorruption());
  char segment[kLogSegmentHeaderBytes];
  EncodeLogSegmentHeader(kMarked, UINT64_MAX / 2, segment);
  uint64_t number;
  EXPECT_FALSE(DecodeLogSegmentHeader(kMarked, Slice(segment, sizeof(segment)), &number));
}

}  // namespace
}  // namespace dlsm
