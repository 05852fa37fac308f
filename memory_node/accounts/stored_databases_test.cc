// The databases of a memory node that is started again, with a disk that a test can look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "memory_node/accounts/database_table.h"
#include "memory_node/store/forgetful_disk.h"
#include "memory_node/store/store_keeper.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kCapacity = uint64_t{1} << 20;
const RpcPeer kPeer{1, "client"};

class StoredDatabasesTest : public testing::Test {
 protected:
  // A process that opens the disk.
  struct Process {
    explicit Process(StoredDatabasesTest* test)
        : keeper(std::make_unique<ForgetfulFiles>(&test->disk_)),
          memory(NodeId{1}, RegionId{}, test->disk_.data(), kCapacity),
          table(OptionsOf(test, this)) {}
    ~Process() {
      EXPECT_OK(table.CheckInvariants());
      keeper.Stop();
    }
    static DatabaseTableOptions OptionsOf(StoredDatabasesTest* test, Process* process) {
      DatabaseTableOptions options;
      options.node = NodeId{1};
      options.memory = &process->memory;
      options.capacity_bytes = kCapacity;
      options.clock = [test] { return test->now_; };
      options.store = &process->keeper;
      return options;
    }
    uint64_t used() const {
      NodeStatisticsReply reply;
      table.Describe(&reply);
      return reply.used_bytes;
    }

    StoreKeeper keeper;
    OwnMemory memory;
    DatabaseTable table;
  };

  StoredDatabasesTest() {
    disk_.SetFaults([this](const char* call) {
      const port::MutexLock lock(mutex_);
      if (std::string(call) == "take") ++taken_;
      return std::string(call) == "sync" ? sync_ : Status::OK();
    });
  }
  // It has a manifest, and 4 KiB that its readers may still read.
  static StoredDatabase Database(uint64_t incarnation, const std::string& name, uint64_t offset) {
    StoredDatabase database;
    database.incarnation = incarnation;
    database.name = name;
    database.header = offset;
    database.manifest_version = 1;
    database.reasons.push_back({static_cast<uint8_t>(ByteReason::Kind::kHeader),
                                0,
                                {{offset, offset + kDatabaseHeaderBytes}}});
    database.retired.push_back({offset + 4096, offset + 8192});
    return database;
  }
  std::unique_ptr<Process> Start(const StoredState& state, bool resumed) {
    auto process = std::make_unique<Process>(this);
    process->table.Restore(state, resumed);
    process->keeper.Start(disk_.rows(), "", &process->table);
    return process;
  }
  void SetSync(const Status& status) {
    const port::MutexLock lock(mutex_);
    sync_ = status;
  }
  static bool IsStored(Process& process, bool persisted) {
    const auto stored = std::make_shared<std::atomic<bool>>(false);
    process.keeper.WhenStored(persisted, [stored](const Status& status) { *stored = status.ok(); });
    return Eventually([&] { return stored->load(); });
  }
  static SessionId OpenOk(Process& process, OpenDatabaseReply* opened) {
    OpenDatabaseRequest open;
    open.name = "a";
    open.create_if_missing = true;
    EXPECT_OK(process.table.Open(kPeer, open, opened));
    return opened->session;
  }
  static Status Grant(Process& process, SessionId session, uint64_t bytes, RemoteSpan* span) {
    GrantRequest request;
    request.session = session;
    request.bytes = request.bytes_min = bytes;
    GrantReply granted;
    const Status status = process.table.Grant(kPeer, request, &granted);
    *span = granted.extent;
    return status;
  }
  int taken() {
    const port::MutexLock lock(mutex_);
    return taken_;
  }

  ForgetfulDisk disk_{kCapacity};
  DatabaseTableOptions::Clock::time_point now_{};
  port::Mutex mutex_;
  int taken_ GUARDED_BY(mutex_) = 0;
  Status sync_ GUARDED_BY(mutex_);
};

// Fails if what readers of several databases might still read when the memory node was started
// again stays allocated for ever, but for one of them.
TEST_F(StoredDatabasesTest, WhatReadersMightReadIsFreeWhenTheirLeasesHaveEnded) {
  StoredState state;
  for (const uint64_t i : {1, 2, 3}) {
    state.databases.push_back(Database(i, "database " + std::to_string(i), i << 16));
    state.manifests[i] = {1, "manifest"};
  }
  const auto process = Start(state, /*resumed=*/true);
  EXPECT_EQ(process->used(), 3 * (kDatabaseHeaderBytes + 4096));
  now_ += DatabaseTableOptions().lease + std::chrono::seconds(1);
  process->table.EndExpiredSessions();
  EXPECT_TRUE(Eventually([&] { return process->used() == 3 * kDatabaseHeaderBytes; }));
}

// Fails if a memory node that was started again grants bytes for which the disk has promised no
// room: where they are written with a full disk, the process would be killed.
TEST_F(StoredDatabasesTest, TheDiskPromisesRoomToEachProcess) {
  StoredState state;
  state.databases.push_back(Database(1, "a", 0));
  state.databases[0].retired.clear();
  state.manifests[1] = {1, "manifest"};
  for (const bool resumed : {true, false}) {
    const auto process = Start(state, resumed);
    OpenDatabaseReply opened;
    const SessionId session = OpenOk(*process, &opened);
    const int before = taken();
    RemoteSpan span;
    ASSERT_OK(Grant(*process, session, 64 << 10, &span));
    EXPECT_EQ(taken(), before + 1);
  }
}

// Fails if bytes that were freed are given to others before the disk knows that they are free:
// after a power failure a manifest could name bytes that others have written.
TEST_F(StoredDatabasesTest, BytesAreFreeWhenThatIsPersisted) {
  const auto process = Start(StoredState(), /*resumed=*/false);
  OpenDatabaseReply opened;
  const SessionId session = OpenOk(*process, &opened);
  constexpr uint64_t kMostOfIt = kCapacity / 4 * 3;
  RemoteSpan span;
  ASSERT_OK(Grant(*process, session, kMostOfIt, &span));
  ASSERT_TRUE(IsStored(*process, /*persisted=*/true));
  SetSync(Status::Busy("the disk is full"));
  FreeRequest free;
  free.session = session;
  free.spans = {span};
  ASSERT_OK(process->table.Free(kPeer, free));
  ASSERT_TRUE(IsStored(*process, /*persisted=*/false));
  RemoteSpan again;
  EXPECT_FALSE(Grant(*process, session, kMostOfIt, &again).ok());
  SetSync(Status::OK());
  EXPECT_TRUE(Eventually([&] { return Grant(*process, session, kMostOfIt, &again).ok(); }));
}

// Fails if an owner after a power failure, which the header's word may not have survived, gets an
// epoch that another one had.
TEST_F(StoredDatabasesTest, EpochsOutliveTheWord) {
  StoredState state;
  state.databases.push_back(Database(1, "a", 0));
  state.databases[0].epoch = 7;
  state.manifests[1] = {1, "manifest"};
  const auto process = Start(state, /*resumed=*/false);
  OpenDatabaseReply opened;
  OpenOk(*process, &opened);
  EXPECT_EQ(OwnershipWord::Of(opened.ownership_word).epoch, 8u);
}

}  // namespace
}  // namespace dlsm
