#include "util/fabric/verbs/verbs_farewells.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"

namespace dlsm {
namespace {

// Fails if a connection is let go on while the memory node has not closed every life line, or is
// kept for ever once it has.
TEST(VerbsFarewellsTest, PendUntilEveryLifeLineHasEnded) {
  VerbsFarewells farewells;
  EXPECT_FALSE(farewells.Pending());
  FileDescriptor far[2];
  for (FileDescriptor& end : far) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    end = FileDescriptor(ends[0]);
    farewells.Add(FileDescriptor(ends[1]));
  }
  EXPECT_TRUE(farewells.Pending());
  far[0].Close();
  EXPECT_TRUE(farewells.Pending());
  EXPECT_TRUE(farewells.Pending());
  far[1].Close();
  EXPECT_FALSE(farewells.Pending());
  farewells.Break();
  EXPECT_TRUE(farewells.Pending());
  EXPECT_TRUE(farewells.Pending());
}

// Fails if there is no room for the life lines of all queue pairs at once, whatever has come and
// gone before, when there is no memory to make some.
TEST(VerbsFarewellsTest, ThereIsRoomForTheLifeLinesOfAllQueuePairs) {
  constexpr size_t kQueuePairs = 20;
  VerbsFarewells farewells;
  std::vector<FileDescriptor> far(kQueuePairs);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kQueuePairs; ++i) farewells.Expect();
    {
      const port::FailingAllocationsAt failing("farewell");
      for (FileDescriptor& end : far) {
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        end = FileDescriptor(ends[0]);
        farewells.Add(FileDescriptor(ends[1]));
      }
      EXPECT_EQ(failing.failed(), 0u);
    }
    for (size_t i = 0; i < kQueuePairs; ++i) farewells.Forgo();
    for (size_t i = round == 0 ? 0 : kQueuePairs / 2; i < kQueuePairs; ++i) far[i].Close();
    EXPECT_EQ(farewells.Pending(), round != 0);
  }
}

}  // namespace
}  // namespace dlsm
