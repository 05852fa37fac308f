#include "script/tool/directory_check.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "db/tree/manifest.h"
#include "memory_node/memory_node_testing.h"
#include "memory_node/store/directory.h"
#include "script/tool/tool.h"
#include "util/file_descriptor.h"
#include "util/random.h"
#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct CheckOutcome {
  Status status;
  std::string out;
  bool good = false;
};

CheckOutcome Checked(const std::string& directory) {
  CheckOutcome outcome;
  std::ostringstream out;
  outcome.status = CheckDirectory(directory, &out, &outcome.good);
  outcome.out = out.str();
  return outcome;
}

// An order that the tool does not know.
class TestsOwnOrder final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "test.OwnOrder"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

// What the manifest of the only database of a directory says, and the rows.
struct DirectoryContents {
  explicit DirectoryContents(const std::string& path) {
    std::unique_ptr<Directory> directory;
    EXPECT_OK(Directory::Inspect(path, &opened, &directory));
    const auto collect = [this](const TableMeta& meta, TableRef* /*table*/) {
      tables.push_back(meta);
      return Status::OK();
    };
    std::vector<Level> levels;
    EXPECT_EQ(opened.state.manifests.size(), 1u);
    EXPECT_OK(ManifestCodec::Decode(opened.state.manifests.begin()->second.bytes, collect,
                                    &manifest, &levels));
  }

  Directory::Opened opened;
  Manifest manifest;
  std::vector<TableMeta> tables;
};

void FlipBit(const std::string& path, uint64_t offset, uint64_t bit) {
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  char byte = 0;
  ASSERT_EQ(pread(file.get(), &byte, 1, static_cast<off_t>(offset)), 1);
  byte = static_cast<char>(byte ^ 1 << bit);
  ASSERT_EQ(pwrite(file.get(), &byte, 1, static_cast<off_t>(offset)), 1);
}

class DirectoryCheckTest : public testing::Test {
 protected:
  Options OptionsIn(const std::string& directory) const {
    Options options;
    options.create_if_missing = true;
    options.embedded_dir = directory;
    options.embedded_memory_bytes = uint64_t{64} << 20;
    options.write_buffer_size = size_t{256} << 10;
    options.max_file_size = size_t{256} << 10;
    return options;
  }
  void Fill(DB* db, int entries = 5000) const {
    for (int i = 0; i < entries; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), fmt::format("key{:06}", i), std::string(100, 'v')));
      if (i % 10 == 0) {
        ASSERT_OK(db->Delete(WriteOptions(), fmt::format("key{:06}", i / 2)));
      }
    }
  }
  // A database that was closed.
  void MakeDatabase(const Options& options, const std::string& name) const {
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, name, &db));
    Fill(db.get());
    ASSERT_OK(db->Close());
  }
  // A copy of the directory while its database is open: as if the process had been killed.
  void MakeCrashed(const std::string& crashed) const {
    const std::string path = temporary_ / "open";
    std::unique_ptr<DB> db;
    Options options = OptionsIn(path);
    options.log = LogLevel::kDisk;
    options.write_buffer_size = size_t{4} << 20;  // Nothing is flushed.
    ASSERT_OK(DB::Open(options, "d", &db));
    Fill(db.get(), 300);
    WriteOptions synced;
    synced.sync = true;
    ASSERT_OK(db->Put(synced, "last", "value"));
    std::filesystem::copy(path, crashed);
  }

  const TemporaryDirectory temporary_;
  const std::string path_ = temporary_ / "data";
  const std::string region_ = path_ + "/dlsm-memory";
};

// Fails if something is wrong with databases of any kind, or what was checked is not counted.
TEST_F(DirectoryCheckTest, NothingIsWrongWithWhatDatabasesWrite) {
  MakeDatabase(OptionsIn(path_), "plain");
  Options options = OptionsIn(path_);
  options.shards = 3;
  options.shard_boundaries = {"key001500", "key003000"};
  MakeDatabase(options, "divided");
  options = OptionsIn(path_);
  options.table_format = TableFormat::kBlockBased;
  options.compression = kSnappyCompression;
  MakeDatabase(options, "blocks");
  const TestsOwnOrder order;
  options = OptionsIn(path_);
  options.comparator = &order;
  MakeDatabase(options, "own_order");
  const CheckOutcome outcome = Checked(path_);
  ASSERT_OK(outcome.status);
  EXPECT_TRUE(outcome.good) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("good  database plain "), HasSubstr("database divided"),
                    HasSubstr("database blocks"), HasSubstr("database own_order"),
                    HasSubstr("\n6 databases, "), HasSubstr("checked: nothing wrong\n"),
                    Not(HasSubstr(" 0 tables checked"))));
}

// Fails if there is a place in a table where a bit can change unseen.
TEST_F(DirectoryCheckTest, DamagedTablesAreNamed) {
  MakeDatabase(OptionsIn(path_), "d");
  const DirectoryContents contents(path_);
  ASSERT_FALSE(contents.tables.empty());
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const TableMeta& table = contents.tables[random.Uniform(contents.tables.size())];
    const uint64_t offset = table.image.offset + random.Uniform(table.image.bytes);
    const uint64_t bit = random.Uniform(8);
    SCOPED_TRACE(testing::Message() << "offset " << offset << " bit " << bit);
    FlipBit(region_, offset, bit);
    const CheckOutcome outcome = Checked(path_);
    ASSERT_OK(outcome.status);
    EXPECT_FALSE(outcome.good);
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("BAD   database d  table "), HasSubstr("restore the directory"),
                      HasSubstr(fmt::format("table {} at offset {} of the region", table.number,
                                            table.image.offset)),
                      HasSubstr("checked: 1 things wrong\n")));
    FlipBit(region_, offset, bit);
  }
  EXPECT_TRUE(Checked(path_).good);
}

// Fails if a row can change unseen. SQLite itself has no checksums of its pages.
TEST_F(DirectoryCheckTest, DamagedRowsAreNamed) {
  MakeDatabase(OptionsIn(path_), "d");
  const DirectoryContents contents(path_);
  const std::string file = path_ + "/accounts.db";
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  Random random(1);
  int flipped = 0;
  for (const auto& [key, row] : contents.opened.rows) {
    std::vector<size_t> places;  // One is the row, others are what was there before.
    for (size_t at = bytes.find(row); at != std::string::npos; at = bytes.find(row, at + 1)) {
      places.push_back(at);
    }
    if (places.empty()) continue;  // It goes over several pages.
    for (int round = 0; round < 10; ++round) {
      const uint64_t offset = random.Uniform(row.size());
      const uint64_t bit = random.Uniform(8);
      SCOPED_TRACE(testing::Message() << "row of kind " << static_cast<int>(key.kind) << " offset "
                                      << offset << " bit " << bit);
      for (const size_t place : places) FlipBit(file, place + offset, bit);
      const Status status = Checked(path_).status;
      EXPECT_TRUE(status.IsCorruption()) << status.ToString();
      EXPECT_THAT(status.ToString(), AllOf(HasSubstr(file), HasSubstr("restore")));
      for (const size_t place : places) FlipBit(file, place + offset, bit);
      ++flipped;
    }
  }
  EXPECT_GE(flipped, 30);
  EXPECT_TRUE(Checked(path_).good);
}

TEST_F(DirectoryCheckTest, ARegionThatIsCutOffIsNamed) {
  MakeDatabase(OptionsIn(path_), "d");
  std::filesystem::resize_file(region_, std::filesystem::file_size(region_) - 1);
  const Status status = Checked(path_).status;
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr(region_), HasSubstr("restore")));
}

// Fails if a manifest can name bytes that are not the database's.
TEST_F(DirectoryCheckTest, TablesOutsideTheAccountAreNamed) {
  MakeDatabase(OptionsIn(path_), "d");
  {
    Directory::Opened opened;
    std::unique_ptr<Directory> directory;
    ASSERT_OK(Directory::Inspect(path_, &opened, &directory));
    StoredDatabase database = opened.state.databases[0];
    for (StoredReason& reason : database.reasons) {
      // Of what is live, the first byte.
      if (reason.kind == 2) ++reason.ranges[0].begin;
    }
    StoredChanges changes;
    changes.written.emplace_back(StoredKey{StoredKind::kDatabase, database.incarnation},
                                 database.Encode());
    ASSERT_OK(directory->Write(changes, /*persist=*/true));
  }
  const CheckOutcome outcome = Checked(path_);
  ASSERT_OK(outcome.status);
  EXPECT_FALSE(outcome.good);
  EXPECT_THAT(outcome.out, HasSubstr("in bytes that the database does not have"));
}

// Fails if a log is damaged where it counts and that is not seen, or cannot be accepted.
TEST_F(DirectoryCheckTest, DamagedLogsAreNamedAndAccepted) {
  MakeCrashed(path_);
  CheckOutcome outcome = Checked(path_);
  ASSERT_OK(outcome.status);
  ASSERT_TRUE(outcome.good) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("with 331 writes"));
  const DirectoryContents contents(path_);
  ASSERT_TRUE(contents.manifest.log.has_value());
  const uint64_t begin = contents.manifest.log->segments[0].offset + kLogSegmentHeaderBytes;
  constexpr uint64_t kLogBytesLeast = 300 * 140;
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const uint64_t offset = begin + random.Uniform(kLogBytesLeast);
    const uint64_t bit = random.Uniform(8);
    SCOPED_TRACE(testing::Message() << "offset " << offset << " bit " << bit);
    FlipBit(region_, offset, bit);
    outcome = Checked(path_);
    ASSERT_OK(outcome.status);
    EXPECT_FALSE(outcome.good);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("BAD   database d  the log at offset "),
                                   HasSubstr("dlsm_tool accept-loss --db=d")));
    if (round + 1 < 40) FlipBit(region_, offset, bit);
  }
  std::unique_ptr<DB> db;
  EXPECT_TRUE(DB::Open(OptionsIn(path_), "d", &db).IsCorruption());

  ToolOptions options;
  options.name = "d";
  options.database.embedded_dir = path_;
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream messages;
  ASSERT_OK(Tool(options, &in, &out, &messages).Run({Verb::kAcceptLoss}));
  EXPECT_THAT(messages.str(), AllOf(HasSubstr("accept-loss: d "), HasSubstr("durable up to")));
  ASSERT_OK(Tool(options, &in, &out, &messages).Run({Verb::kAcceptLoss, Verb::kVerify}));
  EXPECT_THAT(messages.str(), HasSubstr("nothing is lost"));
  EXPECT_TRUE(Checked(path_).good);
}

// Fails if what a power failure has taken is called damage, or what was on disk is not missed.
TEST_F(DirectoryCheckTest, AfterAPowerFailureWhatWasOnDiskCounts) {
  MakeCrashed(path_);
  const DirectoryContents contents(path_);
  {
    DirectoryOptions options;
    options.path = path_;
    options.machine_boot = "another boot";
    Directory::Opened opened;
    std::unique_ptr<Directory> directory;
    ASSERT_OK(Directory::Open(options, &opened, &directory));
    // As a memory node does with its first rows.
    StoredChanges changes;
    changes.written.emplace_back(StoredKey{StoredKind::kContents, 0}, opened.contents.Encode());
    ASSERT_OK(directory->Write(changes, /*persist=*/true));
  }
  CheckOutcome outcome = Checked(path_);
  ASSERT_OK(outcome.status);
  EXPECT_TRUE(outcome.good) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("on disk when the power failed"));
  // Without its header nothing is known of a log.
  for (uint64_t byte = 0; byte < kLogHeaderBytes; ++byte) {
    FlipBit(region_, contents.manifest.log->header.offset + byte, 0);
  }
  outcome = Checked(path_);
  EXPECT_FALSE(outcome.good);
  EXPECT_THAT(outcome.out, HasSubstr("header of a log is damaged"));
}

// Fails if tables of another memory node are looked for here.
TEST_F(DirectoryCheckTest, TablesElsewhereAreCountedAndSkipped) {
  const std::string other = temporary_ / "other";
  {
    NodeServerOptions node = TestServer::SmallOptions();
    node.data_dir = path_;
    TestServer first(node);
    node.data_dir = other;
    node.node.node = NodeId{2};
    TestServer second(node);
    Options options = OptionsIn("");
    options.memory_nodes = fmt::format("{}:{},{}:{}", first.address().host, first.address().port,
                                       second.address().host, second.address().port);
    options.placement = TablePlacement::kRoundRobin;
    MakeDatabase(options, "d");
  }
  for (const std::string& directory : {path_, other}) {
    const CheckOutcome outcome = Checked(directory);
    ASSERT_OK(outcome.status);
    EXPECT_TRUE(outcome.good) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("skipped"));
  }
}

TEST_F(DirectoryCheckTest, ADirectoryInUseIsBusy) {
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(OptionsIn(path_), "d", &db));
  const Status status = Checked(path_).status;
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  ASSERT_OK(db->Close());
  db.reset();
  EXPECT_TRUE(Checked(path_).good);
}

TEST_F(DirectoryCheckTest, WhatIsNoDirectoryOfAMemoryNodeIsRefused) {
  EXPECT_TRUE(Checked(path_).status.IsInvalidArgument());
  std::ofstream(path_) << "a file";
  EXPECT_TRUE(Checked(path_).status.IsInvalidArgument());
  EXPECT_TRUE(Checked(temporary_.path()).status.IsInvalidArgument());
  EXPECT_THAT(Checked(temporary_.path()).status.ToString(), HasSubstr(temporary_.path()));
}

}  // namespace
}  // namespace dlsm::tool
