#include "util/fabric/verbs_farewells.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

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

}  // namespace
}  // namespace dlsm
