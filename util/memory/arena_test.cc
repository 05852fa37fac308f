#include "util/memory/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "port/thread_sanitizer.h"
#include "util/numa_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

struct Piece {
  char* data;
  size_t bytes;
  char mark;
};

// Mostly small, some as large as a chunk, few larger than a block.
size_t RandomBytes(Random* random) {
  if (random->OneIn(2000)) return Arena::kBlockBytes / 4 + random->Uniform(Arena::kBlockBytes);
  if (random->OneIn(20)) return random->Uniform(20000);
  return random->Uniform(500);
}

std::vector<Piece> Fill(Arena* arena, uint64_t seed, int count) {
  Random random(seed);
  std::vector<Piece> pieces;
  for (int i = 0; i < count; ++i) {
    const size_t bytes = RandomBytes(&random);
    const size_t alignment = size_t{1} << random.Uniform(7);
    char* const data = arena->AllocateAligned(bytes, alignment);
    EXPECT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
    const char mark = static_cast<char>(random.Next());
    std::memset(data, mark, bytes);
    pieces.push_back({data, bytes, mark});
  }
  return pieces;
}

void ExpectUntouched(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const bool same = std::all_of(piece.data, piece.data + piece.bytes,
                                  [&](char byte) { return byte == piece.mark; });
    ASSERT_TRUE(same) << "a piece of " << piece.bytes << " bytes overlaps another";
  }
}

TEST(ArenaTest, PiecesAreDisjointAndAligned) {
  Arena arena;
  EXPECT_EQ(arena.MemoryUsage(), 0u);
  const std::vector<Piece> pieces = Fill(&arena, 1, 20000);
  ExpectUntouched(pieces);
}

// Fails if two threads get overlapping pieces.
TEST(ArenaTest, ThreadsShareWithoutOverlap) {
  constexpr uint64_t kThreads = 8;
  Arena arena;
  std::vector<std::vector<Piece>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { pieces[i] = Fill(&arena, i, 5000); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : pieces) ExpectUntouched(list);
}

// Fails if a small memtable is called full while it is empty.
TEST(ArenaTest, UsageFollowsWhatWasHandedOut) {
  Arena arena;
  for (size_t handed_out = 100; handed_out < (size_t{16} << 20); handed_out += 100) {
    arena.Allocate(100);
    ASSERT_GE(arena.MemoryUsage(), handed_out);
    ASSERT_LE(arena.MemoryUsage(), handed_out + handed_out / 3 + 1024);
  }
}

// Fails if chunks of several threads count twice, or not at all.
TEST(ArenaTest, UsageCountsAllThreads) {
  constexpr size_t kThreads = 8;
  constexpr size_t kPieces = 10000;
  Arena arena;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t n = 0; n < kPieces; ++n) arena.Allocate(100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const size_t handed_out = kThreads * kPieces * 100;
  EXPECT_GE(arena.MemoryUsage(), handed_out);
  EXPECT_LE(arena.MemoryUsage(), handed_out + handed_out / 10);
}

TEST(ArenaTest, SmallArenasHaveSmallChunks) {
  Arena arena;
  arena.Allocate(1);
  EXPECT_LE(arena.MemoryUsage(), 1024u);
}

// Fails if blocks are mapped anew for each memtable: every page would fault again.
TEST(ArenaTest, BlocksGoBackToThePool) {
  HugeMemoryPool small(Arena::kFirstBlockBytes, Arena::kFirstBlockBytes, PageKind::kSmall);
  HugeMemoryPool pool(Arena::kBlockBytes, 4 * Arena::kBlockBytes);
  std::set<char*> before;
  {
    Arena arena(&small, &pool);
    for (size_t bytes = 0; bytes < 2 * Arena::kBlockBytes; bytes += 4096) {
      before.insert(arena.Allocate(4096));
    }
    EXPECT_EQ(small.KeptBytes() + pool.KeptBytes(), 0u);
  }
  EXPECT_EQ(small.KeptBytes(), Arena::kFirstBlockBytes);
  EXPECT_EQ(pool.KeptBytes(), 2 * Arena::kBlockBytes);
  Arena arena(&small, &pool);
  size_t again = 0;
  for (size_t bytes = 0; bytes < Arena::kBlockBytes; bytes += 4096) {
    again += before.count(arena.AllocateAligned(4096, 64));
  }
  EXPECT_EQ(again, Arena::kBlockBytes / 4096);
}

// The pages that the process has in memory.
size_t ResidentBytes() {
  size_t all = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Fails if arenas that hold next to nothing take a huge page each: those of a database of hundreds
// of shards would take half a gigabyte.
TEST(ArenaTest, SmallArenasTakeLittleMemory) {
#ifdef DLSM_THREAD_SANITIZER
  GTEST_SKIP() << "ThreadSanitizer takes several times as much for itself";
#endif
  constexpr size_t kArenas = 64;
  HugeMemoryPool small(Arena::kFirstBlockBytes, 0, PageKind::kSmall);
  HugeMemoryPool pool(Arena::kBlockBytes, 0);
  std::vector<std::unique_ptr<Arena>> arenas;
  arenas.reserve(kArenas);
  const size_t before = ResidentBytes();
  for (size_t i = 0; i < kArenas; ++i) {
    arenas.push_back(std::make_unique<Arena>(&small, &pool));
    std::memset(arenas.back()->Allocate(4096), 1, 4096);
  }
  EXPECT_LT(ResidentBytes(), before + kArenas * (128 << 10));
}

// Fails if a piece is cut from what is left of a first block that is too small for it.
TEST(ArenaTest, LargePiecesDoNotFitTheFirstBlock) {
  for (const size_t bytes : {Arena::kFirstBlockBytes, Arena::kFirstBlockBytes + 1,
                             Arena::kBlockBytes / 4, Arena::kBlockBytes / 4 + 1}) {
    for (const bool first : {false, true}) {
      Arena arena;
      std::vector<Piece> pieces;
      for (int i = 0; i < 6; ++i) {
        const size_t size = (i % 2 == 0) == first ? bytes : 1000;
        pieces.push_back({arena.Allocate(size), size, static_cast<char>(i)});
        std::memset(pieces.back().data, i, size);
      }
      ExpectUntouched(pieces);
    }
  }
}

// Fails if a thread that ended takes its chunk with it, or its successor's overlaps.
TEST(ArenaTest, ChunksOutliveTheirThreads) {
  Arena arena;
  std::vector<Piece> pieces;
  for (uint64_t round = 0; round < 200; ++round) {
    std::thread([&] {
      const std::vector<Piece> more = Fill(&arena, round, 10);
      pieces.insert(pieces.end(), more.begin(), more.end());
    }).join();
  }
  ExpectUntouched(pieces);
}

// Fails if what was not handed out is counted, or what comes after it overlaps.
TEST(ArenaTest, GoesOnAfterAnyFailure) {
  for (uint64_t n = 1; n < 60; ++n) {
    Arena arena;
    std::vector<Piece> pieces = Fill(&arena, n, 10);
    size_t usage = 0;
    {
      const port::FailingAllocations failing(n);
      try {
        while (true) {
          usage = arena.MemoryUsage();
          pieces.push_back({arena.Allocate(1000), 1000, 'x'});
          std::memset(pieces.back().data, 'x', 1000);
        }
      } catch (const std::bad_alloc&) {
        EXPECT_EQ(arena.MemoryUsage(), usage);
      }
    }
    for (const Piece& piece : Fill(&arena, n + 1, 100)) pieces.push_back(piece);
    ExpectUntouched(pieces);
  }
}

// Fails if a piece is counted for which there is no block, or if the next one gets none either.
TEST(ArenaTest, GoesOnAfterABlockThatCannotBeHad) {
  constexpr size_t kBytes = 4096;
  Arena arena;
  std::vector<Piece> pieces;
  const auto add = [&arena, &pieces](char mark) {
    pieces.push_back({arena.AllocateAligned(kBytes, Arena::kAlignmentMax), kBytes, mark});
    std::memset(pieces.back().data, mark, kBytes);
  };
  while (arena.MemoryUsage() < Arena::kFirstBlockBytes) add('a');
  {
    const port::FailingAllocations failing(2);  // Not the piece itself.
    EXPECT_THROW(arena.Allocate(kBytes), std::bad_alloc);
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_EQ(arena.MemoryUsage(), Arena::kFirstBlockBytes);
  for (int i = 0; i < 3; ++i) add('b');
  ExpectUntouched(pieces);
}

TEST(ArenaTest, WhatCannotBeHadThrows) {
  Arena arena;
  EXPECT_THROW(arena.Allocate(std::numeric_limits<size_t>::max()), std::bad_alloc);
  EXPECT_NE(arena.Allocate(10), nullptr);
}

// Fails if any of an arena's memory is not on its node, or if blocks go from node to node by way of
// the pools.
TEST(ArenaTest, AllOfItsMemoryIsOnItsNode) {
  FakeNuma machine{{0, {}}, {1, {}}, {2, {}}};
  const auto expect_on = [&machine](int node, Arena* arena) {
    std::vector<char*> pieces{arena->Allocate(100)};
    for (size_t taken = 0; taken < 2 * Arena::kBlockBytes; taken += Arena::kBlockBytes / 4) {
      pieces.push_back(arena->Allocate(Arena::kBlockBytes / 4));
    }
    pieces.push_back(arena->Allocate(Arena::kBlockBytes));  // A mapping of its own.
    for (char* piece : pieces) EXPECT_EQ(machine.NodeOf(piece), node);
  };
  {
    Arena first(1);
    expect_on(1, &first);
  }
  const size_t placed = machine.BytesPlacedOn(1);
  EXPECT_GE(placed, Arena::kFirstBlockBytes + 3 * Arena::kBlockBytes);
  Arena other(2);
  expect_on(2, &other);
  Arena none;
  none.Allocate(Arena::kBlockBytes / 4);
  Arena again(1);
  expect_on(1, &again);
  EXPECT_EQ(machine.BytesPlacedOn(1), placed + Arena::kBlockBytes) << "blocks are used again";
}

}  // namespace
}  // namespace dlsm
