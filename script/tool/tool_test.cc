#include "script/tool/tool.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "script/tool/split_points.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/status_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::tool {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

// What one command did.
struct Outcome {
  Status status;
  std::string out;
  std::string messages;
};

Outcome RunCommand(const std::string& verbs, const ToolOptions& options,
                   const std::string& in = "") {
  std::istringstream input(in);
  std::ostringstream output;
  std::ostringstream messages;
  std::vector<Verb> parsed;
  Status status = ParseVerbs(verbs, &parsed);
  if (status.ok()) status = CheckVerbs(parsed, options);
  if (status.ok()) status = Tool(options, &input, &output, &messages).Run(parsed);
  return Outcome{status, output.str(), messages.str()};
}

// Every test has a database of its own on the memory node inside this process.
ToolOptions Fresh() {
  static int number = 0;
  ToolOptions options;
  options.name = "tool_test_" + std::to_string(++number);
  options.database.embedded_memory_bytes = uint64_t{1} << 30;
  return options;
}

TEST(Tool, LoadVerifyDumpGivesSortedEntries) {
  const Outcome outcome = RunCommand("load,verify,dump", Fresh(), "b\t2\na\t1\nc\t\\t\nb\t3\n");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.out, "a\t1\nb\t3\nc\t\\t\n");
  EXPECT_THAT(outcome.messages, StartsWith("load: 4 entries"));
  EXPECT_THAT(outcome.messages, HasSubstr("verify: 3 entries in order, checksums good, 3 of them"));
}

// Fails if pieces that are read while others are written change places, get lost at the end, or if
// a line that is wrong is named by another number.
TEST(Tool, LoadKeepsTheOrderOfEntries) {
  std::string entries;
  for (int i = 0; i < 25123; ++i) entries += fmt::format("key{}\t{}\n", i % 10, i);
  const Outcome outcome = RunCommand("load,verify,dump", Fresh(), entries);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  std::string last;
  for (int i = 0; i < 10; ++i) last += fmt::format("key{}\t{}\n", i, (25122 - i) / 10 * 10 + i);
  EXPECT_EQ(outcome.out, last);
  EXPECT_THAT(outcome.messages, StartsWith("load: 25123 entries"));
  const Outcome wrong = RunCommand("load", Fresh(), entries + "no tab\n");
  EXPECT_TRUE(wrong.status.IsInvalidArgument());
  EXPECT_THAT(wrong.status.ToString(), HasSubstr("line 25124: no tab"));
}

TEST(Tool, DatabaseStaysBetweenCommands) {
  ToolOptions options = Fresh();
  ASSERT_TRUE(RunCommand("load", options, "a\t1\nb\t2\nc\t3\nd\t4\n").status.ok());
  options.key = "b";
  EXPECT_EQ(RunCommand("get", options).out, "2\n");
  EXPECT_TRUE(RunCommand("delete,verify", options).status.ok());
  EXPECT_TRUE(RunCommand("get", options).status.IsNotFound());
  options.key = "e";
  options.value = "\\";
  EXPECT_TRUE(RunCommand("put,compact,verify", options).status.ok());
  EXPECT_EQ(RunCommand("get,dump", options).out, "\\\\\na\t1\nc\t3\nd\t4\ne\t\\\\\n");
}

TEST(Tool, ScanKeepsItsBounds) {
  ToolOptions options = Fresh();
  ASSERT_TRUE(RunCommand("load", options, "a\t1\nb\t2\nc\t3\nd\t4\n").status.ok());
  options.from = "b";
  EXPECT_EQ(RunCommand("scan", options).out, "b\t2\nc\t3\nd\t4\n");
  options.to = "d";
  EXPECT_EQ(RunCommand("scan", options).out, "b\t2\nc\t3\n");
  options.limit = 1;
  EXPECT_EQ(RunCommand("scan", options).out, "b\t2\n");
  options.to = "";  // Not the same as no end: nothing is before the empty key.
  EXPECT_EQ(RunCommand("scan", options).out, "");
}

TEST(Tool, BinaryGoesInAndOut) {
  ToolOptions options = Fresh();
  options.format = EntryFormat::kBinary;
  const std::string entry("\x01\0\0\0\x02\0\0\0k\0\n", 11);
  options.key = "k";
  const Outcome outcome = RunCommand("load,get,dump", options, entry);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.out, std::string("\0\n", 2) + entry);
}

// Fails if a directory does not keep what a command has written, or is made by one that only reads.
TEST(Tool, DatabaseStaysInItsDirectory) {
  const TemporaryDirectory temporary;
  ToolOptions options = Fresh();
  options.database.embedded_dir = temporary / "data";
  for (const char* verbs : {"dump", "destroy", "accept-loss", "stats,verify"}) {
    const Status missing = RunCommand(verbs, options).status;
    EXPECT_TRUE(missing.IsNotFound()) << missing.ToString();
    EXPECT_THAT(missing.ToString(), HasSubstr(temporary / "data"));
  }
  EXPECT_FALSE(std::filesystem::exists(temporary / "data"));
  ASSERT_OK(RunCommand("load", options, "a\t1\nb\t2\n").status);
  EXPECT_EQ(RunCommand("dump", options).out, "a\t1\nb\t2\n");
  EXPECT_THAT(RunCommand("accept-loss,verify", options).messages, HasSubstr("nothing is lost"));
  ASSERT_OK(RunCommand("destroy", options).status);
  EXPECT_FALSE(RunCommand("dump", options).status.ok());
}

TEST(Tool, DestroyedDatabaseIsGone) {
  const ToolOptions options = Fresh();
  ASSERT_TRUE(RunCommand("load,destroy", options, "a\t1\n").status.ok());
  const Outcome outcome = RunCommand("dump", options);
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_THAT(outcome.status.ToString(), HasSubstr("begin with load"));
  EXPECT_TRUE(RunCommand("destroy,load,verify", options, "b\t1\n").status.ok());
}

// Fails if the command does as if everything had been merged.
TEST(Tool, ACompactionThatFailsIsAnError) {
  ToolOptions options = Fresh();
  ASSERT_TRUE(RunCommand("load", options, "a\t1\n").status.ok());
  ASSERT_TRUE(RunCommand("load", options, "a\t2\n").status.ok());
  options.database.compaction_place = CompactionPlace::kComputeNode;
  options.database.fault_injector = std::make_shared<FaultInjector>();
  options.database.fault_injector->OnlyPurpose(Purpose::kCompaction);
  options.database.fault_injector->SetProbability(FaultKind::kFail, 1);
  const Outcome outcome = RunCommand("compact", options);
  EXPECT_TRUE(outcome.status.IsIOError()) << outcome.status.ToString();
  EXPECT_THAT(outcome.status.ToString(), HasSubstr("injected fault"));
  options.database.fault_injector->Clear();
  EXPECT_TRUE(RunCommand("compact,verify", options).status.ok());
}

TEST(Tool, StatsShowsTheProperties) {
  const Outcome outcome = RunCommand("load,stats", Fresh(), "a\t1\n");
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_THAT(outcome.out, HasSubstr("dlsm."));
}

TEST(Tool, MalformedInputIsNamedAndNothingElseRuns) {
  const Outcome outcome = RunCommand("load,dump", Fresh(), "a\t1\nnothing\n");
  EXPECT_TRUE(outcome.status.IsInvalidArgument());
  EXPECT_THAT(outcome.status.ToString(), HasSubstr("line 2: no tab"));
  EXPECT_EQ(outcome.out, "");
}

// Fails if a mistake in the command is found only after work has been done.
TEST(Tool, WrongCommandsAreRefusedBeforehand) {
  ToolOptions options = Fresh();
  EXPECT_THAT(RunCommand("load,dmup", options).status.ToString(), HasSubstr("unknown verb 'dmup'"));
  EXPECT_THAT(RunCommand("dmup", options).status.ToString(), HasSubstr("by itself: backup check"));
  EXPECT_THAT(RunCommand("stats,quota", options).status.ToString(),
              HasSubstr("'quota' goes with no other verb"));
  EXPECT_THAT(RunCommand("", options).status.ToString(), HasSubstr("unknown verb ''"));
  EXPECT_THAT(RunCommand("load,", options).status.ToString(), HasSubstr("unknown verb ''"));
  EXPECT_THAT(RunCommand("load,load", options).status.ToString(), HasSubstr("once only"));
  EXPECT_THAT(RunCommand("get", options).status.ToString(), HasSubstr("--key"));
  options.key = "k";
  EXPECT_THAT(RunCommand("put", options).status.ToString(), HasSubstr("--value"));
  options.limit = 1;
  EXPECT_THAT(RunCommand("dump", options).status.ToString(), HasSubstr("scan only"));
}

// Fails if the parts are of different size, are not those of keys, or a database cannot be made of
// them.
TEST(Tool, SplitPointsDivideTheDataEvenly) {
  std::string entries;
  for (int i = 0; i < 8000; ++i) {
    // Most of the data lies behind one prefix.
    entries += (i % 8 == 0 ? "a" : "prefix/") + std::to_string(100000 + i) + "\t" +
               std::string(100, 'v') + "\n";
  }
  ToolOptions options = Fresh();
  options.shards = 4;
  const Outcome outcome = RunCommand("load,split-points", options, entries);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  ToolOptions divided = Fresh();
  std::istringstream points(outcome.out);
  ASSERT_TRUE(ReadSplitPoints(&points, &divided.database.shard_boundaries).ok());
  ASSERT_EQ(divided.database.shard_boundaries.size(), 3u);
  ASSERT_TRUE(RunCommand("load,verify", divided, entries).status.ok());
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(divided.database, divided.name, &db).ok());
  std::string shards;
  ASSERT_TRUE(db->GetProperty("dlsm.shards", &shards));
  std::istringstream lines(shards);
  std::string line;
  std::getline(lines, line);  // The heading.
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    uint64_t shard, tables, bytes, count;
    ASSERT_TRUE(fields >> shard >> tables >> bytes >> count) << line;
    EXPECT_NEAR(static_cast<double>(count), 2000, 200) << shards;
  }
  ToolOptions empty = Fresh();
  empty.shards = 2;
  EXPECT_TRUE(RunCommand("load,split-points", empty, "").status.IsInvalidArgument());
  empty.shards = 1;
  EXPECT_TRUE(RunCommand("split-points", empty).status.IsInvalidArgument());
}

// Fails if a database is made that is not divided, and stays so, because split-points had failed,
// or because a folder was named in the place of its output.
TEST(Tool, NoSplitPointsAreAnError) {
  std::vector<std::string> boundaries = {"there before"};
  std::istringstream empty;
  Status status = ReadSplitPoints(&empty, &boundaries);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("split-points"));
  std::ifstream folder(testing::TempDir());
  status = ReadSplitPoints(&folder, &boundaries);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(boundaries, testing::ElementsAre("there before"));
}

}  // namespace

}  // namespace dlsm::tool
