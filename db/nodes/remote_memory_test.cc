#include "db/nodes/remote_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "db/test/fake_memory_node_testing.h"
#include "util/fabric/factory/late_fabric_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kMemoryNodeBytes = 1 << 20;

class RemoteMemoryTest : public testing::Test {
 protected:
  static RemoteMemory::Config Config(uint64_t grant_bytes, uint64_t reserve_bytes,
                                     std::chrono::milliseconds timeout = std::chrono::seconds(1)) {
    RemoteMemory::Config config;
    config.grant_bytes = grant_bytes;
    config.reserve_bytes = reserve_bytes;
    config.timeout = timeout;
    return config;
  }

  Statistics statistics_;
  FakeMemoryNode node_{kMemoryNodeBytes};
};

// Fails if each table costs a call to the memory node, instead of one for many.
TEST_F(RemoteMemoryTest, CutsTablesOutOfOneGrant) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  std::vector<RemoteSpan> spans(16);
  for (RemoteSpan& span : spans) ASSERT_OK(memory.Allocate(4000, false, &span));
  EXPECT_EQ(node_.grants(), 1u);
  EXPECT_EQ(statistics_.Get(Ticker::kGrants), 1u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_GE(spans[i].bytes, 4000u);
    EXPECT_EQ(spans[i].offset % kRemoteAlignment, 0u);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(spans[i].offset + spans[i].bytes <= spans[j].offset ||
                  spans[j].offset + spans[j].bytes <= spans[i].offset);
    }
  }
}

// Fails if what is larger than a grant cannot be had.
TEST_F(RemoteMemoryTest, AsksForMoreThanAGrantWhereNeeded) {
  RemoteMemory memory(Config(4096, 0), &node_, &statistics_);
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(100000, false, &span));
  EXPECT_GE(span.bytes, 100000u);
}

// Fails if a grant is refused though the part of it that is needed is there.
TEST_F(RemoteMemoryTest, IsContentWithWhatIsLeft) {
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - 4096, &offset));
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(1000, false, &span));
  EXPECT_FALSE(memory.full());
}

// Fails if the rest of an image's place is lost, or given to two.
TEST_F(RemoteMemoryTest, ReusesWhatShrinkLeaves) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  RemoteSpan first;
  ASSERT_OK(memory.Allocate(64 << 10, false, &first));
  memory.Shrink(first, 100);
  RemoteSpan second;
  ASSERT_OK(memory.Allocate((64 << 10) - 128, false, &second));
  EXPECT_EQ(second.offset, first.offset + 128);
  EXPECT_EQ(node_.grants(), 1u);
  memory.Shrink(second, second.bytes);  // Nothing is left.
  memory.Shrink(second, 0);             // All is left.
  RemoteSpan third;
  ASSERT_OK(memory.Allocate((64 << 10) - 128, false, &third));
  EXPECT_EQ(third, second);
}

// Fails if pieces that touch are not joined: a grant would fall to pieces that fit no table.
TEST_F(RemoteMemoryTest, JoinsWhatTouches) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  std::vector<RemoteSpan> spans(4);
  for (RemoteSpan& span : spans) ASSERT_OK(memory.Allocate(16 << 10, false, &span));
  for (const size_t i : {1, 3, 2, 0}) memory.Shrink(spans[i], 0);
  RemoteSpan whole;
  ASSERT_OK(memory.Allocate(64 << 10, false, &whole));
  EXPECT_EQ(node_.grants(), 1u);
}

// Fails if the ends of grants, too small for the next table, are kept: with each grant there would
// be one more, until the memory node is full of them.
TEST_F(RemoteMemoryTest, EndsOfGrantsDoNotPileUp) {
  RemoteMemory memory(Config(256 << 10, 0), &node_, &statistics_);
  for (int i = 0; i < 100; ++i) {
    RemoteSpan span;
    ASSERT_OK(memory.Allocate(136 << 10, false, &span)) << i;
    memory.Shrink(span, 60 << 10);
    memory.Free(span.Sub(0, 60 << 10));
    ASSERT_OK(memory.SendFrees());
    ASSERT_LE(node_.used_bytes(), 512u << 10) << i;
  }
}

// Fails if frees go one by one, if they go before they are sent, or if what was freed is counted
// wrong.
TEST_F(RemoteMemoryTest, GivesBackInBatches) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  std::vector<RemoteSpan> spans(16);
  for (RemoteSpan& span : spans) ASSERT_OK(memory.Allocate(4096, false, &span));
  for (const RemoteSpan& span : spans) memory.Free(span);
  memory.Free(RemoteSpan{});
  EXPECT_EQ(memory.queued_free_bytes(), 16u * 4096);
  EXPECT_EQ(node_.used_bytes(), 64u << 10);
  ASSERT_OK(memory.SendFrees());
  EXPECT_EQ(node_.frees(), 1u);
  EXPECT_EQ(node_.used_bytes(), 0u);
  EXPECT_EQ(memory.queued_free_bytes(), 0u);
  EXPECT_EQ(statistics_.Get(Ticker::kFreedBytes), 64u << 10);
  ASSERT_OK(memory.SendFrees());
  EXPECT_EQ(node_.frees(), 1u) << "an empty batch is no call";
}

// Fails if an unreachable memory node makes frees get lost, or happen twice.
TEST_F(RemoteMemoryTest, KeepsFreesThatWereNotTaken) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(64 << 10, false, &span));
  memory.Free(span);
  node_.SetFault([](Method) { return Status::IOError("gone"); });
  EXPECT_TRUE(memory.SendFrees().IsIOError());
  EXPECT_EQ(memory.queued_free_bytes(), 64u << 10);
  node_.SetFault(nullptr);
  ASSERT_OK(memory.SendFrees());
  EXPECT_EQ(node_.used_bytes(), 0u);
}

// Fails if memory is given to others while a write that was given up may still land in it, or is
// not given back once it cannot.
TEST_F(RemoteMemoryTest, GivesNothingBackWhereWritesMayStillLand) {
  std::atomic<bool> may_land{false};
  const LateFabric fabric(may_land);
  RemoteMemory::Config config = Config(64 << 10, 32 << 10);
  config.fabric = &fabric;
  RemoteMemory memory(config, &node_, &statistics_);
  RemoteSpan first;
  RemoteSpan second;
  ASSERT_OK(memory.Allocate(64 << 10, false, &first));
  ASSERT_OK(memory.Allocate(64 << 10, false, &second));
  may_land = true;
  memory.Free(first);
  EXPECT_TRUE(memory.SendFrees().IsIOError());
  memory.Free(second);
  EXPECT_TRUE(memory.SendFrees().IsIOError());
  memory.ReleaseAll();
  EXPECT_EQ(node_.frees(), 0u);
  EXPECT_EQ(node_.used_bytes(), 128u << 10);
  EXPECT_EQ(memory.queued_free_bytes(), 128u << 10);
  may_land = false;
  ASSERT_OK(memory.SendFrees());
  EXPECT_EQ(node_.frees(), 1u);
  EXPECT_EQ(node_.used_bytes(), 0u);
  EXPECT_EQ(memory.queued_free_bytes(), 0u);
}

// Fails if what the memory node has taken back without anybody knowing is given back once more: it
// may be in use again by then.
TEST_F(RemoteMemoryTest, GivesNothingBackTwice) {
  RemoteMemory memory(Config(4096, 0), &node_, &statistics_);
  RemoteSpan first;
  RemoteSpan second;
  ASSERT_OK(memory.Allocate(4096, false, &first));
  ASSERT_OK(memory.Allocate(4096, false, &second));
  memory.Free(first);
  node_.LoseAnswers(true);
  EXPECT_TRUE(memory.SendFrees().IsIOError());
  node_.LoseAnswers(false);
  uint64_t offset;
  ASSERT_TRUE(node_.Take(4096, &offset));
  ASSERT_EQ(offset, first.offset) << "it is somebody else's";
  memory.Free(second);
  EXPECT_OK(memory.SendFrees());
  EXPECT_EQ(node_.used_bytes(), 4096u);
  EXPECT_EQ(memory.queued_free_bytes(), 0u);
  EXPECT_EQ(node_.frees(), 2u);
}

// Fails if what was granted without anybody knowing stays granted until the database is closed.
TEST_F(RemoteMemoryTest, FindsLostGrantsAgain) {
  RemoteMemory memory(Config(4096, 0), &node_, &statistics_);
  node_.LoseAnswers(true);
  RemoteSpan span;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(memory.Allocate(4096, false, &span).IsIOError());
  }
  EXPECT_EQ(node_.used_bytes(), 4096u) << "each try took some";
  node_.LoseAnswers(false);
  ASSERT_OK(memory.Allocate(4096, false, &span));
  memory.Free(span);
  EXPECT_OK(memory.SendFrees());
  EXPECT_EQ(node_.used_bytes(), 0u);
}

// Fails if a grant without an answer may be forgotten, because too many go on beside it.
TEST_F(RemoteMemoryTest, NoGrantIsForgottenThatMayBeLost) {
  RemoteMemory memory(Config(64, 0, std::chrono::milliseconds(50)), &node_, &statistics_);
  std::atomic<bool> held{false};
  std::atomic<bool> released{false};
  node_.SetFault([&](Method) {
    if (held.exchange(true)) return Status::OK();
    while (!released) std::this_thread::yield();
    return Status::OK();
  });
  RemoteSpan span;
  std::thread first([&] { EXPECT_TRUE(memory.Allocate(64, false, &span).IsIOError()); });
  while (!held) std::this_thread::yield();
  uint64_t granted = 0;
  for (RemoteSpan more; granted < 100 && memory.Allocate(64, false, &more).ok();) ++granted;
  EXPECT_EQ(granted, GrantRequest::kGrantsRemembered - 1);
  node_.LoseAnswers(true);
  released = true;
  first.join();
  node_.LoseAnswers(false);
  ASSERT_OK(memory.Allocate(64, false, &span));
  EXPECT_OK(memory.SendFrees());
  EXPECT_EQ(node_.used_bytes(), (granted + 1) * 64);
}

// Fails if spans that the memory node does not know as ours are sent for ever.
TEST_F(RemoteMemoryTest, ForgetsFreesThatWereRefused) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  memory.Free(RemoteSpan{NodeId{}, RegionId{}, 0, 64});
  EXPECT_FALSE(memory.SendFrees().ok());
  EXPECT_EQ(memory.queued_free_bytes(), 0u);
  EXPECT_OK(memory.SendFrees());
}

// Fails if a full memory node is not told apart from an unreachable one, if the reason is lost, or
// if the state outlives its cause.
TEST_F(RemoteMemoryTest, KnowsThatTheMemoryNodeIsFull) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  RemoteSpan span;
  node_.SetFault([](Method) { return Status::IOError("gone"); });
  EXPECT_TRUE(memory.Allocate(100, false, &span).IsIOError());
  EXPECT_FALSE(memory.full());
  node_.SetFault(nullptr);
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes, &offset));
  EXPECT_TRUE(memory.Allocate(100, false, &span).IsBusy());
  EXPECT_TRUE(memory.full());
  EXPECT_NE(memory.full_reason().ToString().find("full"), std::string::npos);
  EXPECT_FALSE(memory.RefillReserve());
  EXPECT_TRUE(memory.full());
  ASSERT_OK(node_.Return(offset, kMemoryNodeBytes));
  EXPECT_TRUE(memory.RefillReserve());
  EXPECT_FALSE(memory.full());
  ASSERT_OK(memory.Allocate(100, false, &span));
}

// Fails if the reserve is used by those who may not, not used by those who may, or not filled again
// once there is room.
TEST_F(RemoteMemoryTest, KeepsAReserveForWhatMakesRoom) {
  RemoteMemory memory(Config(4096, 8192), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), 8192u);
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - 8192, &offset));
  RemoteSpan span;
  EXPECT_TRUE(memory.Allocate(4096, false, &span).IsBusy());
  ASSERT_OK(memory.Allocate(4096, true, &span));
  ASSERT_OK(memory.Allocate(4096, true, &span));
  EXPECT_TRUE(memory.Allocate(4096, true, &span).IsBusy()) << "the reserve is used up";
  EXPECT_TRUE(memory.full());
  ASSERT_OK(node_.Return(offset, 64 << 10));
  EXPECT_TRUE(memory.RefillReserve());
  EXPECT_TRUE(memory.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kMemoryNodeBytes - (64 << 10) + 8192) << "filled once";
}

// Fails if what a merge leaves over of the memory node's room for merges is kept for flushes: piece
// by piece, none would be left.
TEST_F(RemoteMemoryTest, WhatMergesLeaveOverGoesBack) {
  RemoteMemory memory(Config(64 << 10, 0), &node_, &statistics_);
  RemoteSpan span;
  ASSERT_OK(memory.AllocateForMerge(8192, &span));
  EXPECT_EQ(node_.used_bytes(), 8192u);
  memory.Shrink(span, 4096);
  EXPECT_EQ(memory.queued_free_bytes(), 4096u);
  ASSERT_OK(memory.SendFrees());
  EXPECT_EQ(node_.used_bytes(), 4096u);
  EXPECT_EQ(memory.idle_bytes(), 0u);
}

// Fails if a grant for one table, while the reserve is in use, counts as room for more data, which
// would use up the reserve before any deletion came; or if the reserve cannot be filled by pieces.
TEST_F(RemoteMemoryTest, IsFullUntilTheReserveIsWhole) {
  RemoteMemory memory(Config(4096, 8192), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - 8192, &offset));
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(8192, true, &span));
  EXPECT_TRUE(memory.full());
  ASSERT_OK(node_.Return(offset, 4096));
  ASSERT_OK(memory.Allocate(4096, true, &span)) << "out of what has become free";
  EXPECT_TRUE(memory.full());
  ASSERT_OK(node_.Return(offset + 8192, 4096));
  EXPECT_FALSE(memory.RefillReserve()) << "half of it";
  EXPECT_TRUE(memory.full());
  ASSERT_OK(node_.Return(offset + 16384, 4096));
  EXPECT_TRUE(memory.RefillReserve());
  EXPECT_FALSE(memory.full());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(memory.AllocateFromReserve(4096, &span));
}

// Fails if a memory node with room for the reserve in small pieces alone counts as full for ever.
TEST_F(RemoteMemoryTest, RefillsTheReserveFromSmallPieces) {
  constexpr uint64_t kReserve = 256 << 10;
  constexpr uint64_t kPiece = 16 << 10;
  RemoteMemory memory(Config(4096, kReserve), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - kReserve, &offset));
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(kReserve, true, &span));
  EXPECT_TRUE(memory.full());
  for (uint64_t i = 0; i < kReserve / kPiece; ++i) {
    ASSERT_OK(node_.Return(offset + i * 2 * kPiece, kPiece));
  }
  EXPECT_TRUE(memory.RefillReserve());
  EXPECT_FALSE(memory.full());
}

// Fails if what a table cut from the reserve does not need is lost to the next one.
TEST_F(RemoteMemoryTest, ReserveServesTablesOfItsSize) {
  RemoteMemory memory(Config(4096, 8192), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - 8192, &offset));
  for (int i = 0; i < 4; ++i) {
    RemoteSpan span;
    ASSERT_OK(memory.Allocate(2048, true, &span));
    memory.Shrink(span, 1024);
  }
  RemoteSpan rest;
  EXPECT_OK(memory.Allocate(4096, true, &rest));
}

// Fails if a reserve that was filled piece by piece stays too splintered for a table when there is
// room for it as a whole, if what it was made of is lost, or if it is replaced over and over.
TEST_F(RemoteMemoryTest, TheReserveDoesNotStayInCrumbs) {
  constexpr uint64_t kReserve = 64 << 10;
  constexpr uint64_t kPiece = kReserve / 4;
  RemoteMemory memory(Config(kReserve, kReserve), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  uint64_t offset;
  ASSERT_TRUE(node_.Take(kMemoryNodeBytes - kReserve, &offset));
  RemoteSpan span;
  ASSERT_OK(memory.Allocate(kReserve, true, &span));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_OK(node_.Return(offset + i * 2 * kPiece, kPiece));
  ASSERT_TRUE(memory.RefillReserve()) << "by pieces";
  EXPECT_FALSE(memory.AllocateFromReserve(kReserve / 2, &span));
  const uint64_t used = node_.used_bytes();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(memory.RefillReserve()) << "there is no such piece";
  ASSERT_OK(node_.Return(offset + kMemoryNodeBytes / 2, 2 * kReserve));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(memory.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), used - 2 * kReserve);
  EXPECT_TRUE(memory.AllocateFromReserve(kReserve, &span));
}

// Fails if closing leaves anything with the memory node but what tables use.
TEST_F(RemoteMemoryTest, GivesEverythingUnusedBackAtTheEnd) {
  RemoteMemory memory(Config(64 << 10, 32 << 10), &node_, &statistics_);
  ASSERT_TRUE(memory.RefillReserve());
  RemoteSpan kept;
  RemoteSpan freed;
  ASSERT_OK(memory.Allocate(1000, false, &kept));
  ASSERT_OK(memory.Allocate(1000, false, &freed));
  memory.Free(freed);
  memory.ReleaseAll();
  EXPECT_EQ(node_.used_bytes(), kept.bytes);
}

// Fails if a memory node that grants less than was asked for is believed.
TEST_F(RemoteMemoryTest, RefusesTooSmallGrants) {
  class Stingy final : public RpcClient {
   public:
    Status Call(Method, const Slice&, std::string* reply, Deadline) override {
      GrantReply granted;
      granted.extent.bytes = 64;
      *reply = granted.Encode();
      return Status::OK();
    }
  } stingy;
  RemoteMemory memory(Config(4096, 0), &stingy, &statistics_);
  RemoteSpan span;
  EXPECT_TRUE(memory.Allocate(1000, false, &span).IsCorruption());
}

// Many threads allocate, shrink and free at once: no byte has two owners (each thread writes its
// number into a map of all bytes), and in the end nothing is missing.
TEST_F(RemoteMemoryTest, NoByteHasTwoOwners) {
  RemoteMemory memory(Config(32 << 10, 0), &node_, &statistics_);
  std::vector<std::atomic<int>> owner(kMemoryNodeBytes / kRemoteAlignment);
  std::atomic<int> clashes{0};
  const auto mark = [&](const RemoteSpan& span, int from, int to) {
    for (uint64_t at = span.offset; at < span.offset + span.bytes; at += kRemoteAlignment) {
      int expected = from;
      if (!owner[at / kRemoteAlignment].compare_exchange_strong(expected, to)) ++clashes;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t));
      std::vector<RemoteSpan> mine;
      for (int i = 0; i < 2000; ++i) {
        RemoteSpan span;
        if (mine.size() < 8 && memory.Allocate(1 + random.Uniform(6000), false, &span).ok()) {
          mark(span, 0, t);
          const uint64_t kept = random.Uniform(span.bytes + 1);
          const uint64_t rounded =
              (kept + kRemoteAlignment - 1) / kRemoteAlignment * kRemoteAlignment;
          mark(span.Sub(rounded, span.bytes - rounded), t, 0);
          memory.Shrink(span, kept);
          if (rounded > 0) mine.push_back(span.Sub(0, rounded));
        } else if (!mine.empty()) {
          mark(mine.back(), t, 0);
          memory.Free(mine.back());
          mine.pop_back();
        }
        if (random.OneIn(16)) {
          EXPECT_OK(memory.SendFrees());
        }
      }
      for (const RemoteSpan& span : mine) {
        mark(span, t, 0);
        memory.Free(span);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  memory.ReleaseAll();
  EXPECT_EQ(node_.used_bytes(), 0u);
}

}  // namespace
}  // namespace dlsm
