// SAVE, BGSAVE and LASTSAVE over the network, and what is in the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "dLSM/backup.h"
#include "db/serve/backups.h"
#include "db/serve/server_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;

class SaveTest : public ServerTest {
 protected:
  void StartWithDirectory() {
    RespServerOptions options;
    options.backup_dir = directory_.path();
    Start(options);
  }
  uint64_t EntriesInFile() const {
    BackupInfo info;
    EXPECT_OK(CheckBackup(path_, &info));
    return info.entries;
  }
  // Until no backup is under way.
  static std::string AwaitEnd(TestClient& client) {
    std::string text = client("info persistence");
    while (text.find("rdb_bgsave_in_progress:1") != std::string::npos) {
      std::this_thread::yield();
      text = client("info persistence");
    }
    return text;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / Backups::kFileName;
};

TEST_F(SaveTest, WhatWasWrittenBeforeIsInTheFile) {
  StartWithDirectory();
  TestClient client = NewClient();
  const std::string before = client("lastsave");
  // In one piece: the server takes several requests at a time.
  client.SendBytes(TestClient::Encode({"set", "a", "1"}) + TestClient::Encode({"set", "b", "2"}) +
                   TestClient::Encode({"save"}) + TestClient::Encode({"set", "c", "3"}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.Receive(), "OK");
  EXPECT_EQ(EntriesInFile(), 2U);
  EXPECT_GE(client("lastsave"), before);
  EXPECT_EQ(client("bgsave"), "Background saving started");
  EXPECT_THAT(AwaitEnd(client), HasSubstr("rdb_last_bgsave_status:ok"));
  EXPECT_EQ(EntriesInFile(), 3U);
  EXPECT_EQ(client("bgsave schedule"), "Background saving started");
  EXPECT_THAT(client("bgsave often"), HasSubstr("syntax error"));
  EXPECT_EQ(client("multi"), "OK");
  EXPECT_THAT(client("save"), HasSubstr("not allowed inside a transaction"));
  EXPECT_EQ(client("exec"), "[]");
}

// A restored database is served as the one before.
TEST_F(SaveTest, ComesBack) {
  StartWithDirectory();
  {
    TestClient client = NewClient();
    EXPECT_EQ(client("rpush list x y"), "(2)");
    EXPECT_EQ(client("save"), "OK");
  }
  Options options;
  options.compaction_filter = ExpiredStringsFilter();
  const TemporaryDirectory other;
  options.embedded_dir = other / "node";
  options.embedded_memory_bytes = uint64_t{64} << 20;
  ASSERT_OK(RestoreBackup(path_, options, kName, {}, nullptr));
  ASSERT_OK(server_->Stop());
  ASSERT_OK(DestroyDB(kName, Options()));
  Start({}, other / "node");
  TestClient client = NewClient();
  EXPECT_EQ(client("lrange list 0 -1"), "[\"x\", \"y\"]");
}

TEST_F(SaveTest, FailuresAreTold) {
  StartWithDirectory();
  TestClient client = NewClient();
  std::filesystem::remove_all(directory_.path());
  EXPECT_THAT(client("save"), HasSubstr("make its folder first"));
  EXPECT_EQ(client("bgsave"), "Background saving started");
  EXPECT_THAT(AwaitEnd(client), HasSubstr("rdb_last_bgsave_status:err"));
}

TEST_F(SaveTest, WithoutADirectoryThereAreNone) {
  Start();
  TestClient client = NewClient();
  EXPECT_THAT(client("save"), HasSubstr("--backup_dir"));
  EXPECT_THAT(client("bgsave"), HasSubstr("--backup_dir"));
}

}  // namespace
}  // namespace dlsm::serve
