// Logs after a power failure, and their writers while they wait for the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/log/write_log_testing.h"
#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr PersistenceId kAfterPowerFailure{2};
// A disk writes so much as a whole, or not.
constexpr uint64_t kSectorBytes = 512;

// The disk behind the memory of a test.
class TestDisk {
 public:
  explicit TestDisk(TestMemory* memory) : memory_(memory) {}

  void Persist(const std::vector<RemoteSpan>& spans) {
    for (const RemoteSpan& span : spans) Write(span);
  }
  // The kernel writes what it likes, when it likes.
  void WriteBackSome(const std::vector<RemoteSpan>& allocated, Random* random) {
    for (const RemoteSpan& whole : allocated) {
      for (uint64_t at = 0; at < whole.bytes; at += kSectorBytes) {
        if (random->OneIn(3)) Write(whole.Sub(at, std::min(kSectorBytes, whole.bytes - at)));
      }
    }
  }
  // Memory has what the disk has; what was never written there is what anybody left behind.
  void PowerFailure(const std::vector<RemoteSpan>& allocated) {
    for (const RemoteSpan& span : allocated) {
      std::string& image = ImageOf(span);
      std::memcpy(memory_->At(span), image.data(), image.size());
    }
  }

 private:
  std::string& ImageOf(const RemoteSpan& span) {
    std::string& image = images_[static_cast<uint32_t>(span.region)];
    if (image.size() < span.offset + span.bytes) image.resize(span.offset + span.bytes, '\x5a');
    return image;
  }
  void Write(const RemoteSpan& span) {
    std::memcpy(ImageOf(span).data() + span.offset, memory_->At(span), span.bytes);
  }

  TestMemory* const memory_;
  std::map<uint32_t, std::string> images_;
};

class LogPersistTest : public WriteLogFixture {
 protected:
  void NewLogOnDisk(uint64_t bytes_max = uint64_t{1} << 20) {
    files_ = [this](const std::vector<RemoteSpan>& spans, Deadline) {
      ++persists_;
      disk_.Persist(spans);
      return Status::OK();
    };
    NewLog(bytes_max);
  }

  TestDisk disk_{&memory_};
  std::atomic<int> persists_{0};
};

INSTANTIATE_TEST_SUITE_P(Memory, LogPersistTest, testing::Bool(),
                         [](const auto& memory) { return memory.param ? "mapped" : "posted"; });

// Fails if what was synced is not there after a power failure, if what is found is not a prefix, or
// if a log that was truncated and whose segments were used again cannot be read.
TEST_P(LogPersistTest, AfterAPowerFailureThereIsAPrefix) {
  for (uint64_t round = 0; round < Rounds(60); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    Random random(round);
    allocated_ = {header_};
    NewLogOnDisk(8 * kSegmentBytes);
    Read written;
    LogPosition persisted = 0;
    SequenceNumber flushed = 0;  // What the log has to have begins behind it.
    SequenceNumber synced = 0;
    const SequenceNumber writes = random.Uniform(400);
    for (SequenceNumber i = 1; i <= writes; ++i) {
      LookAfter();
      written.emplace_back(i, random.Bytes(random.Uniform(random.OneIn(20) ? 3000 : 200)));
      LogPosition end;
      while (!Write(i, written.back().second, &end, /*may_wait=*/false).ok()) {
        // No room: as by flushes. They wait for the log.
        ASSERT_OK(log_->AwaitSafeForManifest(log_->tail()));
        flushed = synced = i - 1;
        ASSERT_OK(log_->Truncate(log_->tail()));
        if (random.OneIn(2)) disk_.WriteBackSome(allocated_, &random);
        ASSERT_OK(log_->Persist());
        LookAfter();
      }
      if (random.OneIn(10)) {
        ASSERT_OK(log_->AwaitSynced(end));
        EXPECT_GE(log_->persisted(), end);
        persisted = end;
        synced = i;
      } else if (random.OneIn(5)) {
        ASSERT_OK(log_->AwaitDurable(end));
      }
      if (random.OneIn(40)) disk_.WriteBackSome(allocated_, &random);
    }
    if (random.OneIn(2)) disk_.WriteBackSome(allocated_, &random);
    const LogRecord record = log_->Record();
    disk_.PowerFailure(allocated_);
    Read read;
    LogReader::Result result;
    ASSERT_OK(ReadRecorded(record, &read, &result, kAfterPowerFailure));
    EXPECT_GE(result.end, persisted);
    const SequenceNumber first = read.empty() ? flushed + 1 : read.front().first;
    ASSERT_LE(first, flushed + 1);
    ASSERT_LE(first - 1 + read.size(), written.size());
    ASSERT_GE(first - 1 + read.size(), synced);
    for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], written[first - 1 + i]);
  }
}

// Fails if damage of what was on disk is taken for an end, or an end for damage.
TEST_P(LogPersistTest, OnlyWhatWasOnDiskIsMissed) {
  NewLogOnDisk();
  LookAfter();
  LogPosition first;
  LogPosition second;
  LogPosition third;
  ASSERT_OK(Write(1, "first", &first));
  ASSERT_OK(log_->AwaitSynced(first));
  ASSERT_OK(Write(2, "second", &second));
  ASSERT_OK(log_->AwaitDurable(second));
  ASSERT_OK(Write(3, "third", &third));
  ASSERT_OK(log_->AwaitDurable(third));
  char* const frames = memory_.At(log_->Record().segments.front()) + kLogSegmentHeaderBytes;
  Read read;
  LogReader::Result result;
  frames[third - 1] ^= 1;
  EXPECT_OK(ReadAll(&read, &result, kAfterPowerFailure));
  EXPECT_EQ(result.end, second);
  EXPECT_EQ(result.persisted, first);
  EXPECT_EQ(ReadAll(&read, &result).IsCorruption(), !log_->mapped()) << "its memory is whole";
  frames[first - 1] ^= 1;
  const Status damaged = ReadAll(&read, &result, kAfterPowerFailure);
  EXPECT_TRUE(damaged.IsCorruption());
  EXPECT_THAT(damaged.ToString(), HasSubstr("on disk up to " + std::to_string(first)));
  EXPECT_TRUE(ReadAll(&read, &result).IsCorruption()) << "what is on disk was in memory";
}

// Fails if a segment is used again while the disk still says that a reader begins there.
TEST_P(LogPersistTest, SegmentsAreUsedAgainWhenTheDiskKnows) {
  NewLogOnDisk();
  for (SequenceNumber i = 1; log_->tail() < 2 * kSegmentBytes; ++i) {
    LookAfter();
    ASSERT_OK(WriteDurably(i, std::string(500, 'k')));
  }
  EXPECT_FALSE(log_->AwaitsPersist());
  ASSERT_OK(log_->Truncate(log_->tail()));
  EXPECT_TRUE(log_->AwaitsPersist());
  EXPECT_FALSE(log_->ReuseSegment());
  EXPECT_EQ(log_->Record().segments.size(), static_cast<size_t>(segments_));
  ASSERT_OK(log_->Persist());
  EXPECT_FALSE(log_->AwaitsPersist());
  EXPECT_TRUE(log_->ReuseSegment());
}

// Fails if each writer has a call of its own, or if one is acknowledged by a call that began before
// its frame was there.
TEST_P(LogPersistTest, WhoComesMeanwhileSharesTheNextCall) {
  port::Mutex mutex;
  port::CondVar changed(mutex);
  int begun = 0;
  int permitted = 1;  // That of the header of a new log.
  files_ = [&](const std::vector<RemoteSpan>&, Deadline) {
    const port::MutexLock lock(mutex);
    ++begun;
    while (permitted == 0) changed.Wait();
    --permitted;
    return Status::OK();
  };
  NewLog();
  LookAfter();
  std::atomic<int> acknowledged{0};
  std::vector<std::thread> writers;
  const auto write = [&](SequenceNumber i) {
    LogPosition end;
    ASSERT_OK(Write(i, "key", &end));
    ASSERT_OK(log_->AwaitSynced(end));
    ++acknowledged;
  };
  const auto calls = [&] {
    const port::MutexLock lock(mutex);
    return begun;
  };
  const auto permit = [&] {
    const port::MutexLock lock(mutex);
    ++permitted;
    changed.SignalAll();
  };
  writers.emplace_back(write, 1);
  ASSERT_TRUE(Eventually([&] { return calls() == 2; }));
  for (SequenceNumber i = 2; i <= 6; ++i) writers.emplace_back(write, i);
  ASSERT_TRUE(Eventually([&] {
    return log_->Describe().find("persist-waits 7") != std::string::npos;
  })) << log_->Describe();
  EXPECT_EQ(acknowledged, 0);
  permit();
  ASSERT_TRUE(Eventually([&] { return calls() == 3; }));
  ASSERT_TRUE(Eventually([&] { return acknowledged == 1; }));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(acknowledged, 1);
  permit();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(calls(), 3);
  // The first writer may not have gone yet when the next turn begins.
  EXPECT_THAT(log_->Describe(), testing::ContainsRegex("persist-writers-max [56]\n"));
  EXPECT_EQ(statistics_.Get(Ticker::kLogPersists), 3u);
}

// Fails if files that have failed are tried again and believed, or if a write that is not on disk
// is acknowledged.
TEST_P(LogPersistTest, FilesThatFailEndTheLog) {
  std::atomic<bool> fails{false};
  files_ = [&](const std::vector<RemoteSpan>&, Deadline) {
    ++persists_;
    return fails ? Status::Aborted("the disk is broken") : Status::OK();
  };
  NewLog();
  LookAfter();
  LogPosition end;
  ASSERT_OK(Write(1, "key", &end));
  ASSERT_OK(log_->AwaitSynced(end));
  fails = true;
  ASSERT_OK(Write(2, "key", &end));
  const Status failed = log_->AwaitSynced(end);
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_THAT(failed.ToString(), HasSubstr("memory:1"));
  EXPECT_THAT(failed.ToString(), HasSubstr("the disk is broken"));
  fails = false;
  const int before = persists_;
  EXPECT_TRUE(log_->AwaitSynced(end).IsIOError());
  EXPECT_TRUE(log_->Persist().IsIOError());
  EXPECT_TRUE(Write(3, "key", &end).IsIOError());
  EXPECT_EQ(persists_, before);
}

// Fails if a disk that hangs is waited for without end, or if the log does not go on after it.
TEST_P(LogPersistTest, ADiskThatHangsIsNotTheEnd) {
  std::atomic<bool> hangs{false};
  files_ = [&](const std::vector<RemoteSpan>&, Deadline deadline) {
    if (!hangs) return Status::OK();
    std::this_thread::sleep_for(deadline.Remaining());
    return Status::TimedOut("no answer");
  };
  NewLog();
  LookAfter();
  hangs = true;
  LogPosition end;
  ASSERT_OK(Write(1, "key", &end));
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      const Status late = log_->AwaitSynced(end);
      EXPECT_TRUE(late.IsTimedOut()) << late.ToString();
      EXPECT_THAT(late.ToString(), HasSubstr("memory:1"));
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_LT(log_->persisted(), end);
  EXPECT_LT(log_->SyncedUpTo(), end);
  hangs = false;
  EXPECT_OK(log_->AwaitSynced(end));
  EXPECT_EQ(log_->SyncedUpTo(), end);
}

// Fails if something is persisted twice, or if more is persisted than is new. The header goes along
// now and then, and if there is nothing else.
TEST_P(LogPersistTest, OnlyWhatIsNewIsPersisted) {
  std::vector<RemoteSpan> spans;
  files_ = [&](const std::vector<RemoteSpan>& asked, Deadline) {
    spans = asked;
    if (spans.size() > 1) std::erase(spans, header_);
    return Status::OK();
  };
  NewLog();
  EXPECT_EQ(spans, std::vector<RemoteSpan>{header_});
  LookAfter();
  const RemoteSpan segment = log_->Record().segments.front();
  LogPosition first;
  LogPosition second;
  ASSERT_OK(Write(1, "key", &first));
  EXPECT_TRUE(log_->HasUnpersisted());
  ASSERT_OK(log_->AwaitSynced(first));
  EXPECT_FALSE(log_->HasUnpersisted());
  EXPECT_EQ(spans, std::vector{segment.Sub(0, kLogSegmentHeaderBytes + first)});
  ASSERT_OK(Write(2, "key", &second));
  ASSERT_OK(log_->AwaitSynced(second));
  EXPECT_EQ(spans, std::vector{segment.Sub(kLogSegmentHeaderBytes + first, second - first)});
  spans.clear();
  ASSERT_OK(log_->AwaitSynced(first));
  EXPECT_TRUE(spans.empty());
  ASSERT_OK(log_->Persist());
  EXPECT_EQ(spans, std::vector<RemoteSpan>{header_});
}

// Fails if an owner that was overtaken is told that something is on disk.
TEST_P(LogPersistTest, WhoIsNoOwnerAcknowledgesNothing) {
  NewLogOnDisk();
  LookAfter();
  LogPosition end;
  ASSERT_OK(Write(1, "key", &end));
  SetWord(kMine + 1);
  const Status refused = log_->AwaitSynced(end);
  EXPECT_TRUE(refused.IsIOFenced()) << refused.ToString();
  EXPECT_EQ(log_->persisted(), 0u);
}

}  // namespace
}  // namespace dlsm
