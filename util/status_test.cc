#include "dLSM/status.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "util/rounds_testing.h"

namespace dlsm {
namespace {

// Fails if an error loses its code or one of its two texts.
TEST(StatusTest, KeepsCodeAndMessage) {
  const Status status = Status::NotFound("what", "detail");
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(status.IsNotFound());
  EXPECT_FALSE(status.IsIOError());
  EXPECT_EQ(status.message(), Slice("what: detail"));
  EXPECT_EQ(status.ToString(), "NotFound: what: detail");
  EXPECT_EQ(Status::Busy("full").ToString(), "Busy: full");
}

TEST(StatusTest, OkHasNoMessage) {
  EXPECT_TRUE(Status::OK().ok());
  EXPECT_EQ(Status::OK().ToString(), "OK");
  EXPECT_TRUE(Status::OK().message().empty());
}

// Fails if a copy shares what it was copied from, or a move leaves the target without it.
TEST(StatusTest, CopiesAndMoves) {
  Status original = Status::Corruption("bad");
  Status copy = original;
  original = Status::OK();
  EXPECT_TRUE(original.ok());
  EXPECT_TRUE(copy.IsCorruption());
  const Status& alias = copy;
  copy = alias;
  EXPECT_EQ(copy.ToString(), "Corruption: bad");
  const Status moved = std::move(copy);
  EXPECT_EQ(moved.ToString(), "Corruption: bad");
}

// Fails if a code that a newer peer sends is taken for success or shown as a code it is not.
TEST(StatusTest, UnknownCodesOfPeersAreIoErrors) {
  for (int code = 0; code < 256; ++code) {
    const Status status = Status::FromCode(static_cast<Status::Code>(code), "text");
    if (code == 0) {
      EXPECT_TRUE(status.ok());
    } else if (code <= static_cast<int>(Status::Code::kIncomplete)) {
      EXPECT_EQ(static_cast<int>(status.code()), code);
    } else {
      EXPECT_TRUE(status.IsIOError()) << code;
    }
  }
}

// Fails if a message for which there is no memory ends who makes the Status, or takes its code.
TEST(StatusTest, WithoutMemoryForItsMessageTheCodeIsLeft) {
  if (kUnderSanitizer) GTEST_SKIP() << "a sanitizer ends the process where it has no memory";
  const char byte = 'x';
  const Status longest = Status::Busy(Slice(&byte, std::numeric_limits<size_t>::max()));
  EXPECT_TRUE(longest.IsBusy());
  EXPECT_TRUE(longest.message().empty());
  const Status copy = longest;
  EXPECT_TRUE(copy.IsBusy());
  constexpr size_t kMoreThanAnyProcessHas = size_t{1} << 60;
  const Status status = Status::IOError("what", Slice(&byte, kMoreThanAnyProcessHas));
  EXPECT_TRUE(status.IsIOError());
  EXPECT_TRUE(status.message().empty());
}

}  // namespace
}  // namespace dlsm
