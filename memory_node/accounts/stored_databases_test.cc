// The databases of a memory node that is started again, with a disk that a test can look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "memory_node/accounts/access_revoker.h"
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
          memory(NodeId{1}, RegionId{}, test->disk_.data(), test->disk_.bytes()),
          table(OptionsOf(test, this)) {
      revoker.SetCutOff([](const std::string&) { return Status::OK(); });
    }
    ~Process() {
      revoker.Stop();
      EXPECT_OK(table.CheckInvariants());
      keeper.Stop();
    }
    static DatabaseTableOptions OptionsOf(StoredDatabasesTest* test, Process* process) {
      DatabaseTableOptions options;
      options.node = NodeId{1};
      options.memory = &process->memory;
      options.capacity_bytes = test->disk_.bytes();
      options.clock = [test] { return test->now_; };
      options.store = &process->keeper;
      options.revoker = &process->revoker;
      return options;
    }
    uint64_t used() const {
      NodeStatisticsReply reply;
      table.Describe(&reply);
      return reply.used_bytes;
    }

    StoreKeeper keeper;
    OwnMemory memory;
    AccessRevoker revoker;
    DatabaseTable table;
  };

  explicit StoredDatabasesTest(uint64_t capacity = kCapacity) : disk_(capacity) {
    disk_.SetFaults([this](const char* call) {
      const port::MutexLock lock(mutex_);
      if (std::string(call) == "take") ++taken_;
      while (syncs_hang_ && std::string(call) == "sync") syncs_go_on_.Wait();
      return Status::OK();
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
  void HaveSyncsHang(bool hang) {
    const port::MutexLock lock(mutex_);
    syncs_hang_ = hang;
    syncs_go_on_.SignalAll();
  }
  static bool IsStored(Process& process, bool persisted) {
    const auto stored = std::make_shared<std::atomic<bool>>(false);
    process.keeper.WhenStored(persisted, [stored](const Status& status) { *stored = status.ok(); });
    return Eventually([&] { return stored->load(); });
  }
  static Status Open(Process& process, const RpcPeer& peer, const std::string& name,
                     OpenDatabaseReply* opened) {
    OpenDatabaseRequest open;
    open.name = name;
    open.create_if_missing = true;
    open.take_over = true;
    return process.table.Open(peer, open, opened);
  }
  // As a client does that takes ownership.
  void PutWord(const OpenDatabaseReply& opened) {
    std::memcpy(disk_.data() + opened.header.offset, &opened.ownership_word, sizeof(uint64_t));
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

  ForgetfulDisk disk_;
  DatabaseTableOptions::Clock::time_point now_{};
  port::Mutex mutex_;
  int taken_ GUARDED_BY(mutex_) = 0;
  port::CondVar syncs_go_on_{mutex_};
  bool syncs_hang_ GUARDED_BY(mutex_) = false;
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

class LargeStoredDatabasesTest : public StoredDatabasesTest {
 protected:
  static constexpr uint64_t kLargeCapacity = uint64_t{8} << 30;
  LargeStoredDatabasesTest() : StoredDatabasesTest(kLargeCapacity) {}
};

// Fails if the disk does not get back what is free, but for the first GiB of a large free range.
TEST_F(LargeStoredDatabasesTest, TheDiskGetsBackWhatIsFree) {
  const auto process = Start(StoredState(), /*resumed=*/false);
  OpenDatabaseReply opened;
  const SessionId session = OpenOk(*process, &opened);
  std::vector<RemoteSpan> spans(5);
  for (RemoteSpan& span : spans) ASSERT_OK(Grant(*process, session, uint64_t{1} << 30, &span));
  EXPECT_GT(disk_.taken_bytes(), uint64_t{5} << 30);
  FreeRequest free;
  free.session = session;
  free.spans = spans;
  ASSERT_OK(process->table.Free(kPeer, free));
  ASSERT_TRUE(IsStored(*process, /*persisted=*/true));
  EXPECT_TRUE(Eventually([&] {
    process->table.KeepDisk();
    return disk_.taken_bytes() < uint64_t{128} << 20;
  }));
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
  HaveSyncsHang(true);
  FreeRequest free;
  free.session = session;
  free.spans = {span};
  ASSERT_OK(process->table.Free(kPeer, free));
  ASSERT_TRUE(IsStored(*process, /*persisted=*/false));
  RemoteSpan again;
  EXPECT_FALSE(Grant(*process, session, kMostOfIt, &again).ok());
  HaveSyncsHang(false);
  EXPECT_TRUE(Eventually([&] { return Grant(*process, session, kMostOfIt, &again).ok(); }));
}

// Fails if a token that was taken from a client is good again after a restart, because another
// session of the client was called with it as well: the client could write what is others' by then.
TEST_F(StoredDatabasesTest, TokensThatWereRevokedStayRevoked) {
  StoredState state;
  {
    const auto process = Start(StoredState(), /*resumed=*/false);
    RpcPeer both = kPeer;
    both.data_token = "of the client that is fenced";
    OpenDatabaseReply first;
    OpenDatabaseReply second;
    ASSERT_OK(Open(*process, both, "a", &first));
    ASSERT_OK(Open(*process, both, "b", &second));
    PutWord(first);
    RpcPeer taker = kPeer;
    taker.connection = 2;
    taker.data_token = "of the taker";
    OpenDatabaseReply claim;
    ASSERT_OK(Open(*process, taker, "a", &claim));
    PutWord(claim);
    OpenDatabaseRequest confirm;
    confirm.name = "a";
    confirm.claimed = claim.session;
    ASSERT_OK(process->table.Open(taker, confirm, &claim));
    ASSERT_TRUE(IsStored(*process, /*persisted=*/false));
  }
  ASSERT_OK(StoredState::Decode(disk_.rows(), kCapacity, &state));
  const auto process = Start(state, /*resumed=*/true);
  EXPECT_THAT(process->table.DataTokens(), testing::ElementsAre("of the taker"));
}

// Fails if a database cannot be opened because of bytes that its readers of before may still read.
TEST_F(StoredDatabasesTest, ReadersOfBeforeHoldNobodyUp) {
  StoredState state;
  state.databases.push_back(Database(1, "a", 0));
  state.manifests[1] = {1, "manifest"};
  const auto process = Start(state, /*resumed=*/true);
  OpenDatabaseReply opened;
  OpenOk(*process, &opened);
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
