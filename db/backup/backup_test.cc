// Backups of whole databases: what comes back is what one moment had, whatever happens meanwhile.
#include "dLSM/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/write_batch.h"
#include "db/backup/backup_testing.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class BackupTest : public testing::Test {
 protected:
  // A name that no other test has, for they share the embedded memory node.
  static std::string NewName() {
    static int number = 0;
    return "backup_test_" + std::to_string(++number);
  }
  static Options NewOptions() {
    Options options = TinyOptions();
    options.error_if_exists = true;
    return options;
  }
  // Restores into a database of its own, and says what it holds then.
  Entries Restored(const std::string& path, const Options& options = NewOptions()) {
    const std::string name = NewName();
    BackupInfo info;
    EXPECT_OK(RestoreBackup(path, options, name, RestoreOptions(), &info));
    Options again = options;
    again.error_if_exists = false;
    std::unique_ptr<DB> db = OpenOrDie(again, name);
    Entries entries = EntriesOf(db.get());
    EXPECT_EQ(entries.size(), info.entries);
    CloseAndDestroy(&db, again, name);
    return entries;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "backup";
};

TEST_F(BackupTest, EverythingComesBack) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  Random random(301);
  for (uint64_t i = 0; i < 3000; ++i) {
    ASSERT_OK(db->Put({}, NumberedKey(i), std::string(random.Uniform(300), 'v')));
  }
  ASSERT_OK(db->Put({}, "", "of the empty key"));
  ASSERT_OK(db->Put({}, "empty value", ""));
  ASSERT_OK(db->Put({}, "large", std::string(size_t{3} << 20, 'l')));
  for (uint64_t i = 0; i < 3000; i += 7) ASSERT_OK(db->Delete({}, NumberedKey(i)));
  ASSERT_OK(db->DeleteRange({}, NumberedKey(1000), NumberedKey(1500)));
  BackupInfo info;
  BackupOptions options;
  options.block_bytes = 2000;
  ASSERT_OK(WriteBackup(db.get(), options, path_, &info));
  const Entries expected = EntriesOf(db.get());
  EXPECT_EQ(info.entries, expected.size());
  EXPECT_EQ(info.comparator, "dlsm.BytewiseComparator");
  EXPECT_EQ(info.file_bytes, std::filesystem::file_size(path_));
  EXPECT_GT(info.blocks, 100U);
  BackupInfo checked;
  ASSERT_OK(CheckBackup(path_, &checked));
  EXPECT_EQ(checked.entries, info.entries);
  EXPECT_EQ(checked.bytes, info.bytes);
  EXPECT_EQ(checked.blocks, info.blocks);
  EXPECT_EQ(checked.written_unix_micros, info.written_unix_micros);
  EXPECT_EQ(Restored(path_), expected);
  // Values of one letter compress well; without compression the file has all of them.
  options.compression = kNoCompression;
  BackupInfo plain;
  ASSERT_OK(WriteBackup(db.get(), options, path_, &plain));
  EXPECT_GT(plain.file_bytes, plain.bytes);
  EXPECT_LT(info.file_bytes, plain.file_bytes / 2);
  EXPECT_EQ(Restored(path_), expected);
  CloseAndDestroy(&db, TinyOptions(), name);
}

TEST_F(BackupTest, AnEmptyDatabase) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  BackupInfo info;
  ASSERT_OK(WriteBackup(db.get(), {}, path_, &info));
  EXPECT_EQ(info.entries, 0U);
  EXPECT_TRUE(Restored(path_).empty());
  CloseAndDestroy(&db, TinyOptions(), name);
}

TEST_F(BackupTest, ShardsComeBackUnlessTheOptionsSayOtherwise) {
  const std::string name = NewName();
  Options options = NewOptions();
  options.shards = 3;
  options.shard_boundaries = {std::string("key\0\n\t\\\xff", 8), NumberedKey(100)};
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  for (uint64_t i = 0; i < 300; ++i) ASSERT_OK(db->Put({}, NumberedKey(i), "v"));
  BackupInfo info;
  ASSERT_OK(WriteBackup(db.get(), {}, path_, &info));
  EXPECT_EQ(info.shard_boundaries, options.shard_boundaries);
  for (const int shards : {1, 2}) {
    Options other = NewOptions();
    other.shards = shards;
    const std::string restored = NewName();
    ASSERT_OK(RestoreBackup(path_, other, restored, {}, nullptr));
    other.error_if_exists = false;
    std::unique_ptr<DB> copy = OpenOrDie(other, restored);
    EXPECT_EQ(EntriesOf(copy.get()), EntriesOf(db.get()));
    std::string boundaries;
    EXPECT_TRUE(copy->GetProperty("dlsm.shard-boundaries", &boundaries));
    const auto lines = std::count(boundaries.begin(), boundaries.end(), '\n');
    EXPECT_EQ(lines, shards == 1 ? 2 : 1);
    CloseAndDestroy(&copy, other, restored);
  }
  CloseAndDestroy(&db, TinyOptions(), name);
}

// Each batch writes two keys at the two ends of the database with the same number. A copy that is
// not of one moment has pairs that differ.
TEST_F(BackupTest, IsOfOneMomentWhileOthersWrite) {
  const std::string name = NewName();
  Options options = NewOptions();
  options.shards = 2;
  options.shard_boundaries = {"m"};
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  constexpr int kPairs = 500;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> batches{0};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      Random random(static_cast<uint32_t>(writer) + 1);
      while (!stop) {
        // A pair belongs to one writer; else two batches could be in another order.
        const uint64_t pair = random.Uniform(kPairs / 2) * 2 + static_cast<uint64_t>(writer);
        const std::string value = std::to_string(++batches) + std::string(200, '.');
        WriteBatch batch;
        batch.Put("a" + NumberedKey(pair), value);
        batch.Put("z" + NumberedKey(pair), value);
        if (random.Uniform(10) == 0) {
          batch.Delete("a" + NumberedKey(pair));
          batch.Delete("z" + NumberedKey(pair));
        }
        EXPECT_OK(db->Write({}, &batch));
      }
    });
  }
  uint64_t seen = 0;
  uint64_t torn = 0;
  // Small blocks, so that the copy goes on with several iterators.
  BackupOptions small_blocks;
  small_blocks.block_bytes = 1024;
  for (int copy = 0; copy < 6; ++copy) {
    const uint64_t before = batches;
    while (batches < before + 2000) std::this_thread::yield();
    BackupInfo info;
    EXPECT_OK(WriteBackup(db.get(), small_blocks, path_, &info));
    EXPECT_GT(info.blocks, 64U);
    Entries entries;
    EXPECT_OK(ReadEntries(BytesOf(path_), &entries));
    EXPECT_EQ(entries.size(), info.entries);
    for (const auto& [key, value] : entries) {
      const std::string other = (key[0] == 'a' ? "z" : "a") + key.substr(1);
      const auto found = entries.find(other);
      torn += found == entries.end() || found->second != value ? 1 : 0;
    }
    seen += entries.size();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(seen, 1000U);
  EXPECT_EQ(torn, 0U);
  CloseAndDestroy(&db, TinyOptions(), name);
}

TEST_F(BackupTest, CopiesASnapshot) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  ASSERT_OK(db->Put({}, "a", "1"));
  BackupOptions options;
  options.snapshot = db->GetSnapshot();
  ASSERT_OK(db->Put({}, "a", "2"));
  ASSERT_OK(WriteBackup(db.get(), options, path_, nullptr));
  EXPECT_EQ(Restored(path_), (Entries{{"a", "1"}}));
  db->ReleaseSnapshot(options.snapshot);
  CloseAndDestroy(&db, TinyOptions(), name);
}

TEST_F(BackupTest, AFollowerIsCopied) {
  const std::string name = NewName();
  Options options = NewOptions();
  options.publish_interval_ms = 1;
  const std::unique_ptr<TestNode> node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_OK(db->Put({}, NumberedKey(i), "v"));
  ASSERT_OK(db->Close());
  db.reset();
  options.error_if_exists = false;
  db = OpenOrDie(options, name);
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(options, name, &follower));
  BackupInfo info;
  ASSERT_OK(WriteBackup(follower.get(), {}, path_, &info));
  EXPECT_EQ(info.entries, 100U);
  EXPECT_EQ(Restored(path_), EntriesOf(db.get()));
  const Status refused = RestoreBackup(path_, follower.get(), {}, nullptr);
  EXPECT_FALSE(refused.ok());
  ASSERT_OK(follower->Close());
  follower.reset();
  CloseAndDestroy(&db, options, name);
}

TEST_F(BackupTest, ADatabaseThatIsNotEmptyStaysUnlessItIsToBeOverwritten) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  ASSERT_OK(db->Put({}, "a", "1"));
  ASSERT_OK(db->Put({}, "c", "3"));
  ASSERT_OK(WriteBackup(db.get(), {}, path_, nullptr));
  ASSERT_OK(db->Put({}, "b", "2"));
  ASSERT_OK(db->Put({}, "d", "4"));
  ASSERT_OK(db->Delete({}, "c"));
  const Status refused = RestoreBackup(path_, db.get(), {}, nullptr);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("is not empty"));
  EXPECT_THAT(refused.ToString(), HasSubstr("overwrite"));
  EXPECT_EQ(EntriesOf(db.get()), (Entries{{"a", "1"}, {"b", "2"}, {"d", "4"}}));
  RestoreOptions overwrite;
  overwrite.overwrite = true;
  ASSERT_OK(RestoreBackup(path_, db.get(), overwrite, nullptr));
  EXPECT_EQ(EntriesOf(db.get()), (Entries{{"a", "1"}, {"c", "3"}}));
  CloseAndDestroy(&db, TinyOptions(), name);
}

// Orders by length first. Keys of one length with other cases are equal.
class LengthOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    return a.size() == b.size() ? a.compare(b) : (a.size() < b.size() ? -1 : 1);
  }
  const char* Name() const override { return "test.LengthOrder"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

TEST_F(BackupTest, OfAComparatorOfTheApplication) {
  const LengthOrder order;
  const std::string name = NewName();
  Options options = NewOptions();
  options.comparator = &order;
  std::unique_ptr<DB> db = OpenOrDie(options, name);
  for (const char* key : {"b", "aa", "c", "aaa", ""}) ASSERT_OK(db->Put({}, key, key));
  BackupInfo info;
  ASSERT_OK(WriteBackup(db.get(), {}, path_, &info));
  EXPECT_EQ(info.comparator, "test.LengthOrder");
  EXPECT_EQ(Restored(path_, options), EntriesOf(db.get()));
  const Status refused = RestoreBackup(path_, NewOptions(), NewName(), {}, nullptr);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("test.LengthOrder"));
  // Of an open database, too.
  const std::string other = NewName();
  std::unique_ptr<DB> bytewise = OpenOrDie(NewOptions(), other);
  EXPECT_TRUE(RestoreBackup(path_, bytewise.get(), {}, nullptr).IsInvalidArgument());
  EXPECT_TRUE(EntriesOf(bytewise.get()).empty());
  RestoreOptions overwrite;
  overwrite.overwrite = true;
  ASSERT_OK(RestoreBackup(path_, db.get(), overwrite, nullptr));
  EXPECT_EQ(EntriesOf(db.get()).size(), 5U);
  CloseAndDestroy(&bytewise, TinyOptions(), other);
  options.error_if_exists = false;
  CloseAndDestroy(&db, options, name);
}

// Damage in any block is found before the database is touched.
TEST_F(BackupTest, ADamagedBackupChangesNothing) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  for (uint64_t i = 0; i < 400; ++i) ASSERT_OK(db->Put({}, NumberedKey(i), "value"));
  BackupOptions options;
  options.block_bytes = 1024;
  BackupInfo info;
  ASSERT_OK(WriteBackup(db.get(), options, path_, &info));
  ASSERT_GT(info.blocks, 5U);
  const Entries before = EntriesOf(db.get());
  const std::string whole = BytesOf(path_);
  RestoreOptions overwrite;
  overwrite.overwrite = true;
  for (size_t at = 0; at < whole.size(); at += 101) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    WriteBytes(path_, damaged);
    const Status status = RestoreBackup(path_, db.get(), overwrite, nullptr);
    EXPECT_TRUE(status.IsCorruption()) << at << ": " << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr(path_));
    EXPECT_FALSE(CheckBackup(path_, nullptr).ok());
  }
  EXPECT_EQ(EntriesOf(db.get()), before);
  // Without the first reading a part is written, and the error says so.
  std::string damaged = whole;
  damaged[whole.size() - 100] = static_cast<char>(~damaged[whole.size() - 100]);
  WriteBytes(path_, damaged);
  overwrite.check_first = false;
  const Status status = RestoreBackup(path_, db.get(), overwrite, nullptr);
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_THAT(status.ToString(), HasSubstr("restore again, with overwrite"));
  WriteBytes(path_, whole);
  ASSERT_OK(RestoreBackup(path_, db.get(), overwrite, nullptr));
  EXPECT_EQ(EntriesOf(db.get()), before);
  CloseAndDestroy(&db, TinyOptions(), name);
}

TEST_F(BackupTest, WrongArgumentsSaySo) {
  const std::string name = NewName();
  std::unique_ptr<DB> db = OpenOrDie(NewOptions(), name);
  EXPECT_TRUE(WriteBackup(nullptr, {}, path_, nullptr).IsInvalidArgument());
  EXPECT_TRUE(RestoreBackup(path_, nullptr, {}, nullptr).IsInvalidArgument());
  EXPECT_TRUE(RestoreBackup(path_, db.get(), {}, nullptr).IsNotFound());
  EXPECT_TRUE(CheckBackup(path_, nullptr).IsNotFound());
  EXPECT_TRUE(CheckBackup(directory_.path(), nullptr).IsInvalidArgument());
  EXPECT_TRUE(WriteBackup(db.get(), {}, directory_.path(), nullptr).IsInvalidArgument());
  EXPECT_TRUE(WriteBackup(db.get(), {}, "", nullptr).IsInvalidArgument());
  EXPECT_TRUE(WriteBackup(db.get(), {}, directory_ / "no/such", nullptr).IsIOError());
  BackupOptions options;
  options.block_bytes = 0;
  EXPECT_TRUE(WriteBackup(db.get(), options, path_, nullptr).IsInvalidArgument());
  ASSERT_OK(db->Close());
  EXPECT_THAT(WriteBackup(db.get(), {}, path_, nullptr).ToString(), HasSubstr("is closed"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  db.reset();
  EXPECT_OK(DestroyDB(name, TinyOptions()));
}

}  // namespace
}  // namespace dlsm
