// The log of databases whose memory node has files: what waits for them, and what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Files of a memory node that do what the test says, and remember nothing.
class TestFiles {
 public:
  using Done = std::function<void(const Status&)>;

  std::function<void(std::vector<RemoteSpan>, Done)> AsPersist() {
    return [this](const std::vector<RemoteSpan>& spans, Done done) {
      const port::MutexLock lock(mutex_);
      ++calls_;
      for (const RemoteSpan& span : spans) bytes_ += span.bytes;
      if (hanging_) {
        held_.push_back(std::move(done));
      } else {
        done(answer_);
      }
    };
  }
  void Answer(const Status& status) {
    const port::MutexLock lock(mutex_);
    answer_ = status;
  }
  void Hang() {
    const port::MutexLock lock(mutex_);
    hanging_ = true;
  }
  void GoOn() {
    const port::MutexLock lock(mutex_);
    hanging_ = false;
    for (const Done& done : std::exchange(held_, {})) done(answer_);
  }
  uint64_t calls() {
    const port::MutexLock lock(mutex_);
    return calls_;
  }
  uint64_t bytes() {
    const port::MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  port::Mutex mutex_;
  Status answer_ GUARDED_BY(mutex_);
  bool hanging_ GUARDED_BY(mutex_) = false;
  std::vector<Done> held_ GUARDED_BY(mutex_);
  uint64_t calls_ GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

class DiskLogTest : public testing::TestWithParam<const char*> {
 protected:
  DiskLogTest() : node_(WithFiles()) {}
  ~DiskLogTest() override { files_.GoOn(); }

  static WriteOptions Synced() {
    WriteOptions options;
    options.sync = true;
    return options;
  }
  TestNode::Config WithFiles() {
    TestNode::Config config = TestNode::Serving(GetParam());
    config.persist = files_.AsPersist();
    return config;
  }
  // Nothing is persisted but what somebody waits for.
  Options HandleOptions(LogLevel log = LogLevel::kDisk) const {
    Options options = node_.With(TinyOptions(), GetParam());
    options.write_buffer_size = size_t{4} << 20;
    options.take_over = true;
    options.log = log;
    options.log_sync_interval_ms = 0;
    return options;
  }

  TestFiles files_;
  TestNode node_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, DiskLogTest, testing::Values("shm", "tcp"),
                         [](const auto& fabric) { return std::string(fabric.param); });

// Fails if a synced write does not wait for the files, if another one does, or if either is lost.
TEST_P(DiskLogTest, SyncedWritesAreInTheFiles) {
  const auto db = OpenOrDie(HandleOptions(), "db");
  const uint64_t before = files_.calls();
  const uint64_t bytes_before = files_.bytes();
  ASSERT_OK(db->Put(WriteOptions(), "a", std::string(1000, 'a')));
  EXPECT_EQ(files_.calls(), before);
  ASSERT_OK(db->Put(Synced(), "b", "2"));
  EXPECT_EQ(files_.calls(), before + 1);
  EXPECT_GT(files_.bytes(), bytes_before + 1000);
  EXPECT_LT(files_.bytes(), bytes_before + 2000);
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.log", "files"), 1u);
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.log", "persisted"),
            FieldOfProperty(db.get(), "dlsm.log", "end"));
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.log", "persists"), files_.calls());
  std::string text;
  ASSERT_TRUE(db->GetProperty("dlsm.log", &text));
  EXPECT_THAT(text, HasSubstr("level disk"));
  EXPECT_GE(db->GetStatistics()->Get(Ticker::kLogPersists), 1u);
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kLogPersistedBytes), 1000u);
  const auto heir = OpenOrDie(HandleOptions(), "db");
  EXPECT_EQ(GetOr(heir.get(), "a"), std::string(1000, 'a'));
  EXPECT_EQ(GetOr(heir.get(), "b"), "2");
}

// Fails if a synced write of a log in memory waits for files.
TEST_P(DiskLogTest, InMemoryNothingWaitsForFiles) {
  const auto db = OpenOrDie(HandleOptions(LogLevel::kMemory), "db");
  const uint64_t before = files_.calls();
  ASSERT_OK(db->Put(Synced(), "a", "1"));
  ASSERT_OK(db->FlushLog(/*sync=*/true));
  EXPECT_EQ(files_.calls(), before);
}

// Fails if each of several writers has a call of its own.
TEST_P(DiskLogTest, WritersShareCalls) {
  const auto db = OpenOrDie(HandleOptions(), "db");
  const uint64_t before = files_.calls();
  const uint64_t waits_before = FieldOfProperty(db.get(), "dlsm.log", "persist-waits");
  files_.Hang();
  constexpr int kThreads = 6;
  std::vector<std::thread> writers;
  for (int thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back(
        [&, thread] { EXPECT_OK(db->Put(Synced(), std::to_string(thread), "value")); });
  }
  EXPECT_TRUE(Eventually([&] {
    return FieldOfProperty(db.get(), "dlsm.log", "persist-waits") >= waits_before + kThreads;
  }));
  files_.GoOn();
  for (std::thread& writer : writers) writer.join();
  EXPECT_LE(files_.calls(), before + 2);
}

// Fails if a write is acknowledged that the files do not have, or if what failed once is believed.
TEST_P(DiskLogTest, FilesThatFailAreNotBelieved) {
  const auto db = OpenOrDie(HandleOptions(), "db");
  ASSERT_OK(db->Put(Synced(), "before", "value"));
  files_.Answer(Status::IOError("the disk is broken"));
  const Status failed = db->Put(Synced(), "failed", "value");
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_THAT(failed.ToString(), HasSubstr(node_.address()));
  EXPECT_THAT(failed.ToString(), HasSubstr("the disk is broken"));
  files_.Answer(Status::OK());
  for (const WriteOptions& options : {WriteOptions(), Synced()}) {
    const Status refused = db->Put(options, "later", "value");
    EXPECT_TRUE(refused.IsIOError()) << refused.ToString();
    EXPECT_THAT(refused.ToString(), HasSubstr(node_.address()));
  }
  EXPECT_TRUE(db->FlushLog(/*sync=*/true).IsIOError());
  EXPECT_EQ(GetOr(db.get(), "before"), "value");
  EXPECT_EQ(GetOr(db.get(), "later"), "(none)");
  EXPECT_FALSE(db->Close().ok());
}

// Fails if files that hang keep a writer for ever, or end the log.
TEST_P(DiskLogTest, FilesThatHangAreATimeOut) {
  Options options = HandleOptions();
  options.operation_timeout_ms = 300;
  const auto db = OpenOrDie(options, "db");
  files_.Hang();
  const Status late = db->Put(Synced(), "a", "1");
  EXPECT_TRUE(late.IsTimedOut()) << late.ToString();
  EXPECT_THAT(late.ToString(), HasSubstr("written"));
  EXPECT_TRUE(db->FlushLog(/*sync=*/true).IsTimedOut());
  EXPECT_OK(db->FlushLog(/*sync=*/false));
  EXPECT_LT(db->DurableSequence(), db->LatestSequence());
  files_.GoOn();
  EXPECT_OK(db->Put(Synced(), "b", "2"));
  EXPECT_EQ(db->DurableSequence(), db->LatestSequence());
}

// Fails if what nobody waits for is not in the files in time, or if they are asked to persist
// nothing.
TEST_P(DiskLogTest, WhatNobodyWaitsForIsInTheFilesInTime) {
  for (const LogLevel level : {LogLevel::kMemory, LogLevel::kDisk}) {
    Options options = HandleOptions(level);
    options.log_sync_interval_ms = 100;
    const auto db = OpenOrDie(options, "db");
    for (int i = 0; i < 3; ++i) {
      const uint64_t before = files_.calls();
      std::this_thread::sleep_for(milliseconds(250));
      EXPECT_EQ(files_.calls(), before) << "nothing was written";
      ASSERT_OK(db->Put(WriteOptions(), "a", std::to_string(i)));
      EXPECT_TRUE(Eventually([&] {
        return FieldOfProperty(db.get(), "dlsm.log", "persisted") ==
               FieldOfProperty(db.get(), "dlsm.log", "end");
      }));
      EXPECT_EQ(files_.calls(), before + 1);
    }
  }
}

// Fails if a manifest names a flushed memtable before the files have the log behind it: after a
// power failure a part of a batch would be in a table and the rest nowhere.
TEST_P(DiskLogTest, ManifestsWaitForTheFiles) {
  for (const LogLevel level : {LogLevel::kMemory, LogLevel::kDisk}) {
    Options options = HandleOptions(level);
    options.operation_timeout_ms = 300;
    const auto db = OpenOrDie(options, "level " + std::to_string(static_cast<int>(level)));
    ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
    // The manifest that names the next segment comes now.
    ASSERT_TRUE(Eventually([&] { return FieldOfProperty(db.get(), "dlsm.log", "segments") == 2; }));
    files_.Hang();
    const uint64_t manifests = node_.server().node().calls(Method::kPutManifest);
    EXPECT_FALSE(db->Flush(FlushOptions()).ok());
    EXPECT_EQ(node_.server().node().calls(Method::kPutManifest), manifests);
    files_.GoOn();
    EXPECT_TRUE(Eventually([&] { return db->Flush(FlushOptions()).ok(); }));
    EXPECT_GT(node_.server().node().calls(Method::kPutManifest), manifests);
    ASSERT_OK(db->Close());
  }
}

// Fails if an open that brings a log back puts a manifest before the files have that log.
TEST_P(DiskLogTest, AnOpenPersistsTheLogBeforeItsManifests) {
  const auto crashed = OpenOrDie(HandleOptions(LogLevel::kMemory), "db");
  ASSERT_OK(crashed->Put(Synced(), "a", "1"));
  Options options = HandleOptions();
  port::Mutex mutex;
  std::vector<Method> order;
  auto connector = std::make_shared<WatchedConnector>([&](uint16_t, Method method, const Slice&) {
    const port::MutexLock lock(mutex);
    if (method == Method::kPersist || method == Method::kPutManifest) order.push_back(method);
    return Status::OK();
  });
  connector->GoOver(std::string(GetParam()) == "shm" ? FabricKind::kShm : FabricKind::kTcp);
  options.node_connector = connector;
  const auto heir = OpenOrDie(options, "db");
  EXPECT_EQ(GetOr(heir.get(), "a"), "1");
  const port::MutexLock lock(mutex);
  // The log of the owner before, and the header of its own.
  ASSERT_GE(order.size(), 3u);
  EXPECT_EQ(order[0], Method::kPersist);
  EXPECT_EQ(order[1], Method::kPersist);
  EXPECT_EQ(order[2], Method::kPutManifest);
}

// Fails if a segment of the log is used again although the disk says that a reader begins there, or
// if that keeps the log from using its memory again.
TEST_P(DiskLogTest, IsBoundedAndUsesItsMemoryAgain) {
  Options options = HandleOptions();
  options.write_buffer_size = size_t{64} << 10;
  options.log_bytes_max = uint64_t{1} << 20;
  options.log_sync_interval_ms = 50;
  const auto db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < 3000; ++i) {
    ASSERT_OK(db->Put(i % 64 == 0 ? Synced() : WriteOptions(), NumberedKey(i % 700),
                      std::string(2000, 'v')));
  }
  const uint64_t segments = FieldOfProperty(db.get(), "dlsm.log", "segments") +
                            FieldOfProperty(db.get(), "dlsm.log", "spare-segments");
  const uint64_t segment_bytes = FieldOfProperty(db.get(), "dlsm.log", "segment-bytes");
  EXPECT_LE(segments * segment_bytes, options.log_bytes_max + 2 * segment_bytes);
  ASSERT_OK(db->FlushLog(/*sync=*/true));
  const auto heir = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < 700; ++i) {
    ASSERT_EQ(GetOr(heir.get(), NumberedKey(i)).size(), 2000u) << i;
  }
}

// Fails if a number counts as safe that is not, if it never does, or if a number that no write has
// is waited for.
TEST_P(DiskLogTest, NumbersBecomeSafe) {
  for (const LogLevel level : {LogLevel::kNone, LogLevel::kMemory, LogLevel::kDisk}) {
    const auto db = OpenOrDie(HandleOptions(level), "db");
    const uint64_t first = db->LatestSequence();
    EXPECT_EQ(db->DurableSequence(), first);
    ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
    WriteBatch batch;
    batch.Put("b", "2");
    batch.Put("c", "3");
    ASSERT_OK(db->Write(WriteOptions(), &batch));
    EXPECT_EQ(db->LatestSequence(), first + 3);
    if (level != LogLevel::kMemory) {
      EXPECT_EQ(db->DurableSequence(), first);
    }
    ASSERT_OK(db->FlushLog(/*sync=*/false));
    EXPECT_EQ(db->DurableSequence(), level == LogLevel::kMemory ? first + 3 : first);
    const Status unknown = db->WaitDurable(first + 4);
    EXPECT_TRUE(unknown.IsInvalidArgument()) << unknown.ToString();
    EXPECT_OK(db->WaitDurable(first));
    EXPECT_OK(db->WaitDurable(first + 2));
    EXPECT_EQ(db->DurableSequence(), first + 3);
    ASSERT_OK(db->Delete(WriteOptions(), "a"));
    ASSERT_OK(db->FlushLog(/*sync=*/true));
    EXPECT_EQ(db->DurableSequence(), first + 4);
    EXPECT_EQ(db->GetStatistics()->Get(Ticker::kFlushes), level == LogLevel::kNone ? 2u : 0u);
    ASSERT_OK(db->Close());
    EXPECT_EQ(db->DurableSequence(), 0u);
    EXPECT_TRUE(db->WaitDurable(0).IsInvalidArgument());
  }
}

// Fails if a database has a lesser log than it can have, unless it was asked for, or cannot be
// opened where it can have none.
TEST(DiskLogOptionsTest, TheDefaultIsAsMuchAsThereCanBe) {
  const auto level_of = [](const Options& options) {
    const auto db = OpenOrDie(options, "db");
    std::string text;
    if (!db->GetProperty("dlsm.log", &text)) return std::string("none");
    return std::string(text.find("level disk") != std::string::npos ? "disk" : "memory");
  };
  EXPECT_EQ(Options().log, LogLevel::kDefault);
  Options embedded = TinyOptions();
  embedded.log = LogLevel::kDefault;
  EXPECT_EQ(level_of(embedded), "none");
  TestNode without("tcp");
  EXPECT_EQ(level_of(without.With(embedded, "tcp")), "memory");
  TestFiles files;
  TestNode::Config config;
  config.persist = files.AsPersist();
  TestNode with(config);
  EXPECT_EQ(level_of(with.With(embedded, "tcp")), "disk");
}

// Fails if a log that is to be on disk is in memory, or if the remedy is not named.
TEST(DiskLogOptionsTest, WithoutFilesKDiskIsRefused) {
  TestNode node("tcp");
  Options options = node.With(TinyOptions(), "tcp");
  options.log = LogLevel::kDisk;
  std::unique_ptr<DB> db;
  const Status refused = DB::Open(options, "db", &db);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr(node.address()));
  EXPECT_THAT(refused.ToString(), HasSubstr("--data_dir"));
  Options embedded = TinyOptions();
  embedded.log = LogLevel::kDisk;
  const Status alone = DB::Open(embedded, "db", &db);
  EXPECT_TRUE(alone.IsInvalidArgument()) << alone.ToString();
  EXPECT_THAT(alone.ToString(), HasSubstr("embedded_dir"));
}

}  // namespace
}  // namespace dlsm
