#include "util/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

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
  HugeMemoryPool pool(Arena::kBlockBytes, 4 * Arena::kBlockBytes);
  std::set<char*> first;
  {
    Arena arena(&pool);
    for (size_t bytes = 0; bytes < 2 * Arena::kBlockBytes; bytes += 4096) {
      first.insert(arena.Allocate(4096));
    }
    EXPECT_EQ(pool.KeptBytes(), 0u);
  }
  EXPECT_GE(pool.KeptBytes(), 2 * Arena::kBlockBytes);
  Arena arena(&pool);
  EXPECT_EQ(first.count(arena.AllocateAligned(4096, 64)), 1u);
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

TEST(ArenaTest, WhatCannotBeHadThrows) {
  Arena arena;
  EXPECT_THROW(arena.Allocate(std::numeric_limits<size_t>::max()), std::bad_alloc);
  EXPECT_NE(arena.Allocate(10), nullptr);
}

}  // namespace
}  // namespace dlsm
