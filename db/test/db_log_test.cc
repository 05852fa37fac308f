// What the log brings back: whole databases whose owner does not come to its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/sync_point.h"
#include "port/thread_sanitizer.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Model = std::map<std::string, std::string>;

WriteOptions Synced() {
  WriteOptions options;
  options.sync = true;
  return options;
}

Model ContentsOf(DB* db) {
  Model contents;
  const std::unique_ptr<Iterator> all(db->NewIterator(ReadOptions()));
  for (all->SeekToFirst(); all->Valid(); all->Next()) {
    contents[all->key().ToString()] = all->value().ToString();
  }
  EXPECT_OK(all->status());
  return contents;
}

struct LogShape {
  const char* fabric;
  int shards;
};

std::string LogShapeName(const LogShape& shape) {
  return shape.fabric + std::to_string(shape.shards);
}
void PrintTo(const LogShape& shape, std::ostream* out) { *out << LogShapeName(shape); }

class LogTest : public testing::TestWithParam<LogShape> {
 protected:
  LogTest() : node_(GetParam().fabric) {}

  Options HandleOptions(LogLevel log = LogLevel::kMemory) const {
    Options options = node_.With(TinyOptions(), GetParam().fabric);
    options.shards = GetParam().shards;
    if (options.shards == 2) options.shard_boundaries = {"m"};
    options.take_over = true;
    options.log = log;
    return options;
  }
  // The handle before gets no further: it has lost the database.
  std::unique_ptr<DB> AfterACrash(LogLevel log = LogLevel::kMemory) const {
    return OpenOrDie(HandleOptions(log), "db");
  }

  TestNode node_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, LogTest,
                         testing::Values(LogShape{"shm", 1}, LogShape{"shm", 2}, LogShape{"tcp", 1},
                                         LogShape{"tcp", 2}),
                         [](const auto& shape) { return LogShapeName(shape.param); });

// Fails if a put, a delete or a batch that was synced is lost, or something that was written before
// it, or if it costs a flush.
TEST_P(LogTest, WhatWasSyncedOutlivesItsHandle) {
  const auto crashed = AfterACrash();
  ASSERT_OK(crashed->Put(WriteOptions(), "zebra", "of another shard, perhaps"));
  ASSERT_OK(crashed->Put(Synced(), "a", "1"));
  ASSERT_OK(crashed->Put(Synced(), "b", "2"));
  ASSERT_OK(crashed->Delete(Synced(), "b"));
  WriteBatch batch;
  batch.Put("c", "3");
  batch.Put("y", std::string(100000, 'y'));
  ASSERT_OK(crashed->Write(Synced(), &batch));
  EXPECT_EQ(crashed->GetStatistics()->Get(Ticker::kSyncedWrites), 4u);
  const Model expected = {{"zebra", "of another shard, perhaps"},
                          {"a", "1"},
                          {"c", "3"},
                          {"y", std::string(100000, 'y')}};
  const auto heir = AfterACrash();
  EXPECT_EQ(ContentsOf(heir.get()), expected);
  // And of a handle without a log, which drops what it has brought back into tables.
  const auto without = AfterACrash(LogLevel::kNone);
  EXPECT_EQ(ContentsOf(without.get()), expected);
  std::string text;
  EXPECT_FALSE(without->GetProperty("dlsm.log", &text));
  EXPECT_TRUE(heir->GetProperty("dlsm.log", &text));
  EXPECT_THAT(text, HasSubstr(node_.address()));
}

// Fails if a handle that comes to its end leaves a log, or if the next one does not begin anew.
TEST_P(LogTest, AHandleThatIsClosedLeavesNoLog) {
  auto db = AfterACrash();
  for (uint64_t i = 0; i < 200; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "value"));
  ASSERT_OK(db->Close());
  const uint64_t used = node_.used_bytes();
  db = AfterACrash(LogLevel::kNone);
  EXPECT_EQ(ContentsOf(db.get()).size(), 200u);
  EXPECT_EQ(db->GetStatistics()->Get(Ticker::kFlushes), 0u);
  ASSERT_OK(db->Close());
  EXPECT_EQ(node_.used_bytes(), used);
}

// Fails if the log grows with all that was ever written, if a part of it that is still needed is
// given another use, or if memory of logs is left behind.
TEST_P(LogTest, IsBoundedAndUsesItsMemoryAgain) {
  Options options = HandleOptions();
  options.log_bytes_max = uint64_t{1} << 20;
  Model expected;
  uint64_t used = 0;
  for (int round = 0; round < 4; ++round) {
    const auto db = OpenOrDie(options, "db");
    ASSERT_EQ(ContentsOf(db.get()), expected);
    Random random(static_cast<uint64_t>(round));
    const uint64_t writes = 400 + random.Uniform(2000);
    for (uint64_t i = 0; i < writes; ++i) {
      const std::string key = random.OneIn(2) ? "a" + std::to_string(random.Uniform(500))
                                              : "x" + std::to_string(random.Uniform(500));
      expected[key] = random.Bytes(random.Uniform(2000));
      ASSERT_OK(db->Put(i + 1 == writes ? Synced() : WriteOptions(), key, expected[key]));
    }
    const uint64_t segments = FieldOfProperty(db.get(), "dlsm.log", "segments") +
                              FieldOfProperty(db.get(), "dlsm.log", "spare-segments");
    EXPECT_LE(segments * FieldOfProperty(db.get(), "dlsm.log", "segment-bytes"),
              options.log_bytes_max + 2 * FieldOfProperty(db.get(), "dlsm.log", "segment-bytes"));
  }
  {
    const auto db = OpenOrDie(HandleOptions(LogLevel::kNone), "db");
    EXPECT_EQ(ContentsOf(db.get()), expected);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->Close());
    used = node_.used_bytes();
  }
  // Of all the logs, nothing.
  EXPECT_LT(used, uint64_t{8} << 20);
  EXPECT_OK(DestroyDB("db", HandleOptions()));
  EXPECT_TRUE(Eventually([this] { return node_.used_bytes() == 0; })) << node_.used_bytes();
}

// Fails if what is found is not what was there after some write, none earlier than the last one
// that was synced: a hole, a torn batch, or an older value over a newer one.
TEST_P(LogTest, WhatIsFoundIsAPrefix) {
  Random random(11);
  Model model;
  for (uint64_t round = 0; round < Rounds(24); ++round) {
    const bool logged = !random.OneIn(6);
    const auto db = AfterACrash(logged ? LogLevel::kMemory : LogLevel::kNone);
    ASSERT_EQ(ContentsOf(db.get()), model);
    std::vector<Model> history = {model};
    size_t synced = 0;
    const uint64_t writes = random.Uniform(300);
    for (uint64_t i = 0; i < writes; ++i) {
      WriteBatch batch;
      const uint64_t entries = 1 + random.Uniform(4);
      for (uint64_t entry = 0; entry < entries; ++entry) {
        const std::string key = (random.OneIn(2) ? "a" : "z") + std::to_string(random.Uniform(40));
        if (random.OneIn(4)) {
          batch.Delete(key);
          model.erase(key);
        } else {
          model[key] = random.Bytes(random.Uniform(random.OneIn(30) ? 90000 : 300));
          batch.Put(key, model[key]);
        }
      }
      const bool sync = random.OneIn(12);
      ASSERT_OK(db->Write(sync ? Synced() : WriteOptions(), &batch));
      history.push_back(model);
      if (sync) synced = history.size() - 1;
    }
    if (!logged) {
      ASSERT_OK(db->Flush(FlushOptions()));
      synced = history.size() - 1;
    }
    const Model found = ContentsOf(AfterACrash().get());
    size_t at = synced;
    while (at < history.size() && history[at] != found) ++at;
    ASSERT_LT(at, history.size()) << "round " << round << ": not what was there after any write "
                                  << "from the " << synced << ". on, of " << history.size();
    model = found;
  }
}

// Fails if an acknowledged write of an owner that is overtaken while it writes is lost.
TEST_P(LogTest, ATakeOverLosesNothingThatWasAcknowledged) {
#ifdef DLSM_THREAD_SANITIZER
  // Handles of one process stand for two here. The heir reads frames that the owner is writing, of
  // which the checksum tells.
  if (std::string(GetParam().fabric) == "shm") GTEST_SKIP() << "a race that is meant to be";
#endif
  constexpr int kThreads = 3;
  std::vector<uint64_t> acknowledged(kThreads);
  for (uint64_t round = 0; round < Rounds(8); ++round) {
    const auto owner = AfterACrash();
    std::vector<std::thread> writers;
    std::atomic<uint64_t> written{0};
    for (size_t thread = 0; thread < kThreads; ++thread) {
      writers.emplace_back([&, thread] {
        while (true) {
          const uint64_t next = acknowledged[thread] + 1;
          WriteBatch batch;
          batch.Put("a" + std::to_string(thread), std::to_string(next));
          batch.Put("z" + std::to_string(thread), std::to_string(next));
          if (!owner->Write(Synced(), &batch).ok()) return;
          acknowledged[thread] = next;
          ++written;
        }
      });
    }
    ASSERT_TRUE(Eventually([&] { return written > 50; }));
    const auto heir = AfterACrash();
    for (std::thread& writer : writers) writer.join();
    for (size_t thread = 0; thread < kThreads; ++thread) {
      const std::string a = GetOr(heir.get(), "a" + std::to_string(thread));
      EXPECT_EQ(GetOr(heir.get(), "z" + std::to_string(thread)), a) << "a torn batch";
      const uint64_t found = a == "(none)" ? 0 : std::stoull(a);
      EXPECT_GE(found, acknowledged[thread]) << thread;
      acknowledged[thread] = found;
    }
    EXPECT_TRUE(owner->Put(Synced(), "late", "write").IsIOFenced());
    EXPECT_EQ(GetOr(heir.get(), "late"), "(none)");
  }
}

// Fails if the former owner can acknowledge a write when its log has been read: the heir takes the
// owner's access away before it reads.
TEST_P(LogTest, NothingIsAcknowledgedWhenTheHeirHasRead) {
  static DB* owner;
  static Status late;
  static bool tried;
  const auto handle = AfterACrash();
  owner = handle.get();
  late = Status::OK();
  tried = false;
  ASSERT_OK(owner->Put(Synced(), "early", "write"));
  port::SyncPointHookOfProcess() = [](const char* place) {
    // The memory node takes its time.
    if (std::string_view(place) == "revoker: cut off") {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (std::string_view(place) != "log: frames read" || std::exchange(tried, true)) return;
    late = owner->Put(Synced(), "late", "write");
  };
  const auto heir = AfterACrash();
  port::SyncPointHookOfProcess() = nullptr;
  ASSERT_TRUE(tried);
  EXPECT_FALSE(late.ok());
  EXPECT_EQ(GetOr(heir.get(), "early"), "write");
}

// Fails if an open that is cut short at any of its calls loses something, so that the next one does
// not find it.
TEST_P(LogTest, AnOpenThatIsCutShortLosesNothing) {
  Model expected;
  {
    const auto crashed = AfterACrash();
    for (uint64_t i = 0; i < 500; ++i) {
      const std::string key = (i % 2 == 0 ? "a" : "z") + std::to_string(i);
      expected[key] = std::string(200, 'v') + std::to_string(i);
      ASSERT_OK(crashed->Put(i == 499 ? Synced() : WriteOptions(), key, expected[key]));
    }
    // Not closed before another has it.
    const auto heir = AfterACrash();
    ASSERT_EQ(ContentsOf(heir.get()), expected);
    for (uint64_t i = 0; i < 100; ++i) {
      expected["more" + std::to_string(i)] = "value";
      ASSERT_OK(heir->Put(Synced(), "more" + std::to_string(i), "value"));
    }
    bool opened = false;
    for (int calls = 1; !opened; ++calls) {
      std::atomic<int> left{calls};
      Options options = HandleOptions();
      auto connector = std::make_shared<WatchedConnector>([&left](uint16_t, Method, const Slice&) {
        return --left < 0 ? Status::IOError("the test cuts the open short") : Status::OK();
      });
      connector->GoOver(std::string(GetParam().fabric) == "shm" ? FabricKind::kShm
                                                                : FabricKind::kTcp);
      options.node_connector = connector;
      std::unique_ptr<DB> db;
      opened = DB::Open(options, "db", &db).ok();
      left = INT32_MAX;
      ASSERT_LT(calls, 200);
      if (opened) {
        ASSERT_EQ(ContentsOf(db.get()), expected);
      }
    }
  }
  EXPECT_EQ(ContentsOf(AfterACrash().get()), expected);
}

// Fails if a log whose bytes are damaged before its end is taken for a shorter one, or cannot be
// opened when that is what is wanted.
TEST_P(LogTest, DamageIsToldAndAccepted) {
  if (std::string(GetParam().fabric) != "tcp") GTEST_SKIP() << "there the log knows how long it is";
  // Reads of the log bring something else: often what nothing depends on.
  Options options = HandleOptions();
  options.fault_injector = std::make_shared<FaultInjector>();
  options.fault_injector->OnlyPurpose(Purpose::kLog);
  Random random(1);
  const auto open_damaged = [&](std::unique_ptr<DB>* db) {
    options.fault_injector->FailNth(1 + random.Uniform(6), FaultKind::kMangle);
    std::unique_ptr<DB> heir;  // The handle before does not come to its end.
    const Status opened = DB::Open(options, "db", &heir);
    options.fault_injector->Clear();
    if (opened.ok()) *db = std::move(heir);
    return opened;
  };
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    // So that most of the segment is frames.
    ASSERT_OK(db->Put(Synced(), key, std::string(60000, 'b')));
    Status opened = open_damaged(&db);
    while (!opened.ok()) {
      ASSERT_TRUE(opened.IsCorruption()) << opened.ToString();
      ASSERT_THAT(opened.ToString(), HasSubstr("accept_log_loss"));
      ++refused;
      opened = open_damaged(&db);
    }
    ASSERT_EQ(GetOr(db.get(), key).size(), 60000u);
  }
  EXPECT_GE(refused, 5);
  options.accept_log_loss = true;
  int lost = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(db->Put(Synced(), "last", std::to_string(i)));
    ASSERT_OK(open_damaged(&db));
    lost += GetOr(db.get(), "last") == std::to_string(i) ? 0 : 1;
    ASSERT_EQ(GetOr(db.get(), "key7").size(), 60000u);
  }
  EXPECT_GE(lost, 1);
}

class LogOptionsTest : public testing::Test {};

TEST_F(LogOptionsTest, WhatMakesNoSenseIsRefused) {
  Options options = TinyOptions();
  options.log = LogLevel::kMemory;
  std::unique_ptr<DB> db;
  const Status embedded = DB::Open(options, "db", &db);
  EXPECT_TRUE(embedded.IsInvalidArgument()) << embedded.ToString();
  EXPECT_THAT(embedded.ToString(), HasSubstr("memory node"));
  options.log = static_cast<LogLevel>(17);
  EXPECT_TRUE(DB::Open(options, "db", &db).IsInvalidArgument());
  options.log = LogLevel::kNone;
  options.log_bytes_max = 1000;
  const Status small = DB::Open(options, "db", &db);
  EXPECT_TRUE(small.IsInvalidArgument()) << small.ToString();
  EXPECT_THAT(small.ToString(), HasSubstr("256 KiB"));
}

// Of the process that the test starts: where its memory node is, and over which fabric.
constexpr const char* kMemoryNodes = "DLSM_LOG_TEST_MEMORY_NODES";
constexpr const char* kFabric = "DLSM_LOG_TEST_FABRIC";
constexpr const char* kProgress = "DLSM_LOG_TEST_PROGRESS";  // The descriptor for what it says.

Options KilledOptions(const std::string& memory_nodes, const std::string& fabric) {
  Options options = TinyOptions();
  options.memory_nodes = memory_nodes;
  options.fabric = fabric;
  options.shard_boundaries = {"m"};
  options.log = LogLevel::kMemory;
  options.take_over = true;
  return options;
}

// Writes until it is killed, and says how far it has come.
void WriteForEver() {
  const int progress = std::stoi(getenv(kProgress));
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(KilledOptions(getenv(kMemoryNodes), getenv(kFabric)), "db", &db));
  uint64_t next = 1;
  if (const std::string last = GetOr(db.get(), "a"); last != "(none)") next = std::stoull(last) + 1;
  for (;; ++next) {
    WriteBatch batch;
    const std::string number = std::to_string(next);
    batch.Put("a", number);
    batch.Put("z", number);
    batch.Put("a" + number, std::string(300, 'a'));
    batch.Put("z" + number, std::string(300, 'z'));
    ASSERT_OK(db->Write(next % 8 == 0 ? Synced() : WriteOptions(), &batch));
    if (next % 8 != 0) continue;
    ASSERT_EQ(::write(progress, &next, sizeof(next)), static_cast<ssize_t>(sizeof(next)));
  }
}

// Fails if an application that is killed loses what was synced, or leaves a part of a batch.
TEST(LogProcessTest, KilledApplicationsLoseNothing) {
  if (getenv(kMemoryNodes) != nullptr) return WriteForEver();
  for (const std::string fabric : {"shm", "tcp"}) {
    TestNode node(fabric);
    ASSERT_EQ(setenv(kMemoryNodes, node.address().c_str(), 1), 0);
    ASSERT_EQ(setenv(kFabric, fabric.c_str(), 1), 0);
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    Random random(3);
    for (uint64_t round = 0; round < Rounds(16); ++round) {
      int ends[2];
      ASSERT_EQ(::pipe(ends), 0);
      const pid_t process = fork();
      if (process == 0) {
        ::close(ends[0]);
        setenv(kProgress, std::to_string(ends[1]).c_str(), 1);
        execl(program.c_str(), program.c_str(),
              "--gtest_filter=LogProcessTest.KilledApplicationsLoseNothing", "--gtest_brief=1",
              nullptr);
        _exit(127);
      }
      ::close(ends[1]);
      uint64_t synced = 0;
      const uint64_t groups = 1 + random.Uniform(200);
      for (uint64_t group = 0; group < groups; ++group) {
        ASSERT_EQ(::read(ends[0], &synced, sizeof(synced)), static_cast<ssize_t>(sizeof(synced)));
      }
      ASSERT_EQ(::kill(process, SIGKILL), 0);
      int status = 0;
      ASSERT_EQ(waitpid(process, &status, 0), process);
      ASSERT_TRUE(WIFSIGNALED(status));
      ::close(ends[0]);
      const auto heir = OpenOrDie(KilledOptions(node.address(), fabric), "db");
      const std::string last = GetOr(heir.get(), "a");
      ASSERT_NE(last, "(none)");
      ASSERT_EQ(GetOr(heir.get(), "z"), last) << "a torn batch";
      ASSERT_GE(std::stoull(last), synced);
      for (uint64_t i = 1; i <= std::stoull(last); ++i) {
        ASSERT_EQ(GetOr(heir.get(), "a" + std::to_string(i)), std::string(300, 'a')) << i;
        ASSERT_EQ(GetOr(heir.get(), "z" + std::to_string(i)), std::string(300, 'z')) << i;
      }
      ASSERT_OK(heir->Close());
    }
    unsetenv(kMemoryNodes);
    unsetenv(kFabric);
  }
}

}  // namespace
}  // namespace dlsm
