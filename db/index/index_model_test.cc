// Indexes under random operations, under many threads, and behind a process that is killed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/secondary_index.h"
#include "dLSM/write_batch.h"
#include "db/index/index_testing.h"
#include "db/test/test_database_testing.h"
#include "port/thread_sanitizer.h"
#include "util/child_testing.h"
#include "util/random.h"
#include "util/temporary_directory_testing.h"

namespace dlsm {
namespace {

// Both kinds side by side, so that each write keeps both.
std::vector<IndexDefinition> BothKinds() {
  return {WordIndex(IndexUpkeep::kEager, "eager"), WordIndex(IndexUpkeep::kLazy, "lazy")};
}

std::string RandomRecord(Random& random) { return "r" + std::to_string(random.Uniform(60)); }

void FillRandomly(Random& random, WriteBatch* batch, Records* records) {
  for (uint64_t i = 1 + random.Uniform(4); i > 0; --i) {
    const std::string key = RandomRecord(random);
    if (random.Uniform(4) == 0) {
      batch->Delete(key);
      records->erase(key);
    } else {
      const std::string words = RandomWords(random);
      batch->Put(key, words);
      (*records)[key] = words;
    }
  }
}

// A pinned moment.
struct Moment {
  const Snapshot* snapshot = nullptr;
  Records records;
};

void ExpectSame(IndexedDB& indexed, const Moment& moment, Random& random) {
  IndexQueryOptions options;
  options.snapshot = moment.snapshot;
  options.clean_up = random.Uniform(2) == 0;
  std::vector<std::string> bounds;
  WordsOf("", RandomWords(random) + RandomWords(random) + "b,", &bounds);
  const std::string begin = bounds[0];
  const std::string end = bounds.back();
  const Slice lower(begin);
  const Slice upper(end);
  for (const char* index : {"eager", "lazy"}) {
    EXPECT_EQ(Drained(indexed.Query(options, index, {})), Expected(moment.records, "", ""));
    EXPECT_EQ(Drained(indexed.Query(options, index, {&lower, &upper})),
              Expected(moment.records, begin, end));
    EXPECT_EQ(Drained(indexed.Lookup(options, index, begin)),
              Expected(moment.records, begin, begin + std::string(1, '\0')));
  }
}

// Fails if an index ever gives anything else than a look at all records would.
TEST(IndexModel, AnswersAsALookAtAllRecords) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string name = "index_model_" + std::to_string(seed);
    Options options = TinyOptions();
    if (seed % 2 == 0) {
      options.shards = 2;
      options.shard_boundaries = {"r3"};
    }
    std::unique_ptr<DB> db = OpenOrDie(options, name);
    std::unique_ptr<IndexedDB> indexed = OpenIndexed(db.get(), BothKinds());
    Records records;
    std::vector<Moment> moments;
    for (int step = 0; step < 1500; ++step) {
      WriteBatch batch;
      FillRandomly(random, &batch, &records);
      ASSERT_OK(indexed->Write({}, batch));
      if (random.Uniform(30) == 0) ExpectSame(*indexed, {nullptr, records}, random);
      if (random.Uniform(150) == 0) moments.push_back({db->GetSnapshot(), records});
      if (random.Uniform(200) == 0) {
        ASSERT_OK(indexed->Clean("lazy", nullptr));
      }
      if (random.Uniform(200) == 0) {
        ASSERT_OK(db->Flush(FlushOptions()));
      }
      if (random.Uniform(300) == 0) {
        indexed.reset();
        indexed = OpenIndexed(db.get(), BothKinds());
      }
      if (testing::Test::HasFailure()) break;
    }
    for (const Moment& moment : moments) {
      ExpectSame(*indexed, moment, random);
      db->ReleaseSnapshot(moment.snapshot);
    }
    ASSERT_OK(indexed->Check("eager", nullptr));
    ASSERT_OK(indexed->Check("lazy", nullptr));
    indexed.reset();
    CloseAndDestroy(&db, options, name);
  }
}

// Fails if records and entries are not written as one, if two writes of a record lose an entry, or
// if cleaning up deletes an entry that its record has got back.
TEST(IndexModel, ManyThreadsKeepTheInvariants) {
  std::unique_ptr<DB> db = OpenOrDie(TinyOptions(), "index_threads");
  std::unique_ptr<IndexedDB> indexed = OpenIndexed(db.get(), BothKinds());
  constexpr int kWritesEach = 4000;
  std::atomic<int> writing{3};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&, writer] {
      Random random(static_cast<uint32_t>(writer) + 100);
      Records unused;
      for (int i = 0; i < kWritesEach; ++i) {
        // Few records, so that writers meet; few words, so that records get words back.
        const std::string key = "r" + std::to_string(random.Uniform(6));
        EXPECT_OK(indexed->Put({}, key, random.Uniform(2) == 0 ? "left" : "right"));
        WriteBatch batch;
        if (i % 8 != 0) continue;
        FillRandomly(random, &batch, &unused);
        EXPECT_OK(indexed->Write({}, batch));
      }
      --writing;
    });
  }
  threads.emplace_back([&] {
    while (writing > 0) {
      for (const char* index : {"eager", "lazy"}) {
        for (const auto& result : Drained(indexed->Query({}, index, {}))) {
          std::vector<std::string> words;
          WordsOf(result[1], result[2], &words);
          EXPECT_NE(std::find(words.begin(), words.end(), result[0]), words.end());
        }
      }
    }
  });
  threads.emplace_back([&] {
    while (writing > 0) {
      EXPECT_OK(indexed->Check("eager", nullptr));
      EXPECT_OK(indexed->Check("lazy", nullptr));
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(indexed->Check("eager", nullptr));
  EXPECT_OK(indexed->Check("lazy", nullptr));
  EXPECT_GT(indexed->counters().entries_cleaned, 0U);
  indexed.reset();
  CloseAndDestroy(&db, TinyOptions(), "index_threads");
}

TEST(IndexModel, BuildWhileOthersWrite) {
  std::unique_ptr<DB> db = OpenOrDie(TinyOptions(), "index_build");
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_OK(db->Put({}, NumberedKey(i), "old"));
  std::unique_ptr<IndexedDB> indexed = OpenIndexed(db.get(), BothKinds());
  std::atomic<bool> built{false};
  std::thread writer([&] {
    Random random(5);
    while (!built) {
      const std::string key = NumberedKey(random.Uniform(3500));
      if (random.Uniform(4) == 0) {
        EXPECT_OK(indexed->Delete({}, key));
      } else {
        EXPECT_OK(indexed->Put({}, key, random.Uniform(2) == 0 ? "old" : "new"));
      }
    }
  });
  EXPECT_OK(indexed->Build("eager"));
  EXPECT_OK(indexed->Build("lazy"));
  built = true;
  writer.join();
  EXPECT_OK(indexed->Check("eager", nullptr));
  EXPECT_OK(indexed->Check("lazy", nullptr));
  indexed.reset();
  CloseAndDestroy(&db, TinyOptions(), "index_build");
}

Options InDirectory(const std::string& directory) {
  Options options = TinyOptions();
  options.embedded_dir = directory;
  options.embedded_memory_bytes = uint64_t{256} << 20;
  options.log = LogLevel::kMemory;
  return options;
}

// Writes until it is killed; a byte in `ready` says that it has written for a while.
[[noreturn]] void WriteUntilKilled(const Options& options, uint32_t seed, int ready) {
  alarm(60);
  std::unique_ptr<DB> db = OpenOrDie(options, "crashed");
  const std::unique_ptr<IndexedDB> indexed = OpenIndexed(db.get(), BothKinds());
  std::vector<std::thread> writers;
  for (uint32_t writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      Random random(seed * 2 + writer);
      Records unused;
      for (int i = 0;; ++i) {
        WriteBatch batch;
        FillRandomly(random, &batch, &unused);
        if (!indexed->Write({}, batch).ok()) _exit(1);
        if (i == 300 && write(ready, "x", 1) != 1) _exit(1);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  _exit(1);
}

// Fails if a crash tears records and entries apart.
TEST(IndexProcess, AKilledProcessLeavesWholeIndexes) {
  if (port::kUnderThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
  }
  const TemporaryDirectory directory;
  const Options options = InDirectory(directory / "node");
  for (uint32_t round = 0; round < 3; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) WriteUntilKilled(options, round + 1, ready[1]);
    char byte = 0;
    close(ready[1]);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    InChild([&] {
      std::unique_ptr<DB> db = OpenOrDie(options, "crashed");
      std::unique_ptr<IndexedDB> indexed = OpenIndexed(db.get(), BothKinds());
      IndexReport report;
      EXPECT_OK(indexed->Check("eager", &report));
      EXPECT_OK(indexed->Check("lazy", nullptr));
      EXPECT_GT(report.records, 20U);
      EXPECT_EQ(Drained(indexed->Query({}, "eager", {})), Drained(indexed->Query({}, "lazy", {})));
      indexed.reset();
      EXPECT_OK(db->Close());
    });
  }
}

}  // namespace
}  // namespace dlsm
