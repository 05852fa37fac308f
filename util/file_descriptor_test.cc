#include "util/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "util/child_testing.h"

namespace dlsm {
namespace {

bool IsOpen(int number) { return fcntl(number, F_GETFD) >= 0; }

void CloseStandardDescriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) close(number);
}

// Fails if what an application writes to its standard output, which is closed, can get into
// something that the library has open.
TEST(FileDescriptorTest, StandardOnesAreNeverUsed) {
  InChild([] {
    CloseStandardDescriptors();
    FileDescriptor first(eventfd(0, EFD_CLOEXEC));
    const FileDescriptor second(eventfd(0, EFD_CLOEXEC));
    const FileDescriptor third(std::move(first));
    EXPECT_GT(second.get(), STDERR_FILENO);
    EXPECT_GT(third.get(), STDERR_FILENO);
    EXPECT_NE(fcntl(second.get(), F_GETFD) & FD_CLOEXEC, 0);
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
      EXPECT_FALSE(IsOpen(number)) << number;
    }
  });
}

// Fails if a descriptor stays below 3 where no other number is left, or if its caller is not told
// why it has none.
TEST(FileDescriptorTest, WithoutAnotherNumberThereIsNone) {
  InChild([] {
    CloseStandardDescriptors();
    const rlimit three{STDERR_FILENO + 1, STDERR_FILENO + 1};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &three), 0);
    const FileDescriptor none(eventfd(0, EFD_CLOEXEC));
    EXPECT_EQ(errno, EMFILE);
    EXPECT_FALSE(none.valid());
    EXPECT_FALSE(IsOpen(STDIN_FILENO));
  });
}

// Fails if a child has a connection of its parent, or if it closes what has got the number of one.
TEST(FileDescriptorTest, ChildrenHaveNone) {
  FileDescriptor parents(eventfd(0, EFD_CLOEXEC));
  FileDescriptor released(eventfd(0, EFD_CLOEXEC));
  const int number = parents.get();
  const int kept = released.Release();
  ASSERT_TRUE(IsOpen(number));
  InChild([&parents, number, kept] {
    EXPECT_FALSE(IsOpen(number));
    EXPECT_TRUE(IsOpen(kept));
    ASSERT_EQ(dup2(kept, number), number);
    parents.Close();
    EXPECT_TRUE(IsOpen(number));
    FileDescriptor own(eventfd(0, EFD_CLOEXEC));
    EXPECT_TRUE(IsOpen(own.get()));
    const int its = own.get();
    own.Close();
    EXPECT_FALSE(IsOpen(its));
  });
  EXPECT_TRUE(IsOpen(number));
  parents.Close();
  EXPECT_FALSE(IsOpen(number));
  close(kept);
}

// Fails if a program that was started with them closed can get one of the three for something else,
// or finds its output accepted.
TEST(FileDescriptorTest, ProgramsOccupyTheStandardOnes) {
  InChild([] {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    OccupyStandardDescriptors();
    char byte = 'x';
    EXPECT_EQ(read(STDIN_FILENO, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(write(STDERR_FILENO, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    EXPECT_GT(ends[0], STDERR_FILENO);
  });
}

}  // namespace
}  // namespace dlsm
