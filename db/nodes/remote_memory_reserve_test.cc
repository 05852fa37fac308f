// A reserve that grows with the memtables and goes back when they are gone, and grants likewise.
#include <gtest/gtest.h>

#include <chrono>

#include "db/nodes/flush_room.h"
#include "db/nodes/remote_memory.h"
#include "db/test/fake_memory_node_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kReserveNodeBytes = uint64_t{64} << 20;
constexpr uint64_t kReserveFirst = uint64_t{512} << 10;
constexpr uint64_t kReserveMost = uint64_t{8} << 20;

class RemoteMemoryReserveTest : public testing::Test {
 protected:
  static RemoteMemory::Config Config() {
    RemoteMemory::Config config;
    config.grant_bytes = uint64_t{4} << 20;
    config.first_grant_bytes = uint64_t{256} << 10;
    config.reserve_bytes = kReserveMost;
    config.first_reserve_bytes = kReserveFirst;
    config.timeout = std::chrono::seconds(1);
    return config;
  }
  // The memory node has nothing left.
  void TakeAll() {
    while (node_.Take(64 << 10, &taken_)) {
    }
  }

  Statistics statistics_;
  FakeMemoryNode node_{kReserveNodeBytes};
  RemoteMemory memory_{Config(), &node_, &statistics_};
  uint64_t taken_ = 0;
};

// Fails if a database that writes little takes a large grant, or one that writes much needs a call
// for each table.
TEST_F(RemoteMemoryReserveTest, EachGrantIsLargerThanTheOneBefore) {
  RemoteSpan span;
  ASSERT_OK(memory_.Allocate(1000, false, &span));
  EXPECT_EQ(node_.used_bytes(), 256u << 10);
  for (uint64_t bytes = 1000; bytes < 16 << 20; bytes += 64 << 10) {
    ASSERT_OK(memory_.Allocate(64 << 10, false, &span));
  }
  EXPECT_LE(node_.grants(), 9u);
  memory_.Trim(0);
  ASSERT_OK(memory_.SendFrees());
  const uint64_t before = node_.used_bytes();
  ASSERT_OK(memory_.Allocate(1000, false, &span));
  EXPECT_EQ(node_.used_bytes(), before + (256 << 10)) << "small again";
}

// Fails if the reserve is large before there is anything to flush, does not grow, or grows beyond
// its limit.
TEST_F(RemoteMemoryReserveTest, GrowsAsItIsToldTo) {
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kReserveFirst);
  EXPECT_EQ(memory_.covered().data, MemtablesCoveredBy(kReserveFirst));
  memory_.GrowReserve(kReserveFirst / 2);
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kReserveFirst) << "it does not shrink";
  memory_.GrowReserve(3 * kReserveFirst);
  EXPECT_EQ(memory_.covered().data, MemtablesCoveredBy(kReserveFirst))
      << "not before there is room";
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), 3 * kReserveFirst);
  EXPECT_EQ(memory_.covered().data, MemtablesCoveredBy(3 * kReserveFirst));
  memory_.GrowReserve(2 * kReserveMost);
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kReserveMost);
  EXPECT_EQ(memory_.covered().data, UINT64_MAX) << "memtables get no larger than that";
}

// Fails if memtables may hold what the largest reserve that the memory node allows cannot take.
TEST_F(RemoteMemoryReserveTest, ALimitedReserveLimitsMemtables) {
  RemoteMemory::Config config = Config();
  config.reserve_is_limited = true;
  RemoteMemory memory(config, &node_, &statistics_);
  memory.GrowReserve(kReserveMost);
  ASSERT_TRUE(memory.RefillReserve());
  const RemoteMemory::Covered covered = memory.covered();
  EXPECT_TRUE(covered.limited);
  EXPECT_GT(covered.data, kReserveMost / 2);
  EXPECT_LT(covered.data, covered.deletions);
  EXPECT_LE(TableBytesFor(covered.deletions), kReserveMost);
}

// Fails if pieces that no table fits into stay in the reserve, and count.
TEST_F(RemoteMemoryReserveTest, SmallPiecesGoBack) {
  ASSERT_TRUE(memory_.RefillReserve());
  TakeAll();
  RemoteSpan span;
  ASSERT_TRUE(memory_.AllocateFromReserve(kReserveFirst - 2048, &span));
  EXPECT_FALSE(memory_.RefillReserve());
  EXPECT_EQ(memory_.queued_free_bytes(), 2048u);
  EXPECT_FALSE(memory_.AllocateFromReserve(64, &span));
}

// Fails if what is refused is not told from what is not answered: of the first it is known that
// there is no room, of the second nothing.
TEST_F(RemoteMemoryReserveTest, TellsARefusalFromSilence) {
  ASSERT_TRUE(memory_.RefillReserve());
  TakeAll();
  memory_.GrowReserve(2 * kReserveFirst);
  EXPECT_FALSE(memory_.reserve_refused());
  EXPECT_FALSE(memory_.RefillReserve());
  EXPECT_TRUE(memory_.reserve_refused());
  EXPECT_EQ(memory_.covered().data, MemtablesCoveredBy(kReserveFirst));
  EXPECT_FALSE(memory_.full()) << "there is something left to write into";
  node_.SetFault([](Method) { return Status::TimedOut("silent"); });
  EXPECT_FALSE(memory_.RefillReserve());
  EXPECT_FALSE(memory_.reserve_refused());
  EXPECT_EQ(memory_.covered().data, UINT64_MAX);
}

// Fails if a database may be written to that has no room for a single table, or if nobody hears
// that somebody has waited for more in vain.
TEST_F(RemoteMemoryReserveTest, IsFullWithoutRoomForATable) {
  TakeAll();
  EXPECT_FALSE(memory_.RefillReserve());
  EXPECT_TRUE(memory_.full());
  ASSERT_OK(node_.Return(taken_, 64 << 10));
  EXPECT_FALSE(memory_.RefillReserve());
  EXPECT_TRUE(memory_.full()) << "a part of it is too little";

  FakeMemoryNode other(kReserveFirst);
  RemoteMemory there(Config(), &other, &statistics_);
  ASSERT_TRUE(there.RefillReserve());
  there.NoteUnfilled();
  EXPECT_FALSE(there.full()) << "it is filled";
  there.GrowReserve(2 * kReserveFirst);
  EXPECT_FALSE(there.RefillReserve());
  there.NoteUnfilled();
  EXPECT_TRUE(there.full());
}

// Fails if an idle database keeps what others could have, gives back what it is to keep, or loses
// count of either.
TEST_F(RemoteMemoryReserveTest, TrimmingGivesBackWhatIsNotNeeded) {
  RemoteSpan table;
  ASSERT_OK(memory_.Allocate(64 << 10, false, &table));
  memory_.GrowReserve(kReserveMost);
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kReserveMost + (256 << 10));
  memory_.Trim(kReserveMost - 1);
  ASSERT_OK(memory_.SendFrees());
  EXPECT_EQ(node_.used_bytes(), kReserveMost + (64 << 10)) << "so little is not worth a call";
  memory_.Trim(3 * kReserveFirst);
  ASSERT_OK(memory_.SendFrees());
  EXPECT_EQ(node_.used_bytes(), 3 * kReserveFirst + (64 << 10));
  memory_.Trim(0);
  ASSERT_OK(memory_.SendFrees());
  EXPECT_EQ(node_.used_bytes(), kReserveFirst + (64 << 10));
  ASSERT_TRUE(memory_.RefillReserve());
  EXPECT_EQ(node_.used_bytes(), kReserveFirst + (64 << 10));
  memory_.Free(table);
  memory_.ReleaseAll();
  EXPECT_EQ(node_.used_bytes(), 0u);
}

// Fails if a reserve of several pieces is trimmed to less, or to more, than it is to have.
TEST_F(RemoteMemoryReserveTest, TrimmingCutsPieces) {
  ASSERT_TRUE(memory_.RefillReserve());
  for (uint64_t bytes = 2 * kReserveFirst; bytes <= kReserveMost; bytes *= 2) {
    uint64_t between;
    ASSERT_TRUE(node_.Take(4096, &between));
    memory_.GrowReserve(bytes);
    ASSERT_TRUE(memory_.RefillReserve());
  }
  const uint64_t others = node_.used_bytes() - kReserveMost;
  memory_.Trim(3 * kReserveFirst);
  ASSERT_OK(memory_.SendFrees());
  EXPECT_EQ(node_.used_bytes(), others + 3 * kReserveFirst);
}

// Fails if what deletions will need goes back while the memory node is full.
TEST_F(RemoteMemoryReserveTest, NothingIsTrimmedWhileTheMemoryNodeIsFull) {
  memory_.GrowReserve(kReserveMost);
  ASSERT_TRUE(memory_.RefillReserve());
  TakeAll();
  RemoteSpan span;
  ASSERT_TRUE(memory_.Allocate(1 << 20, false, &span).IsBusy());
  memory_.Trim(0);
  EXPECT_EQ(memory_.queued_free_bytes(), 0u);
}

}  // namespace
}  // namespace dlsm
