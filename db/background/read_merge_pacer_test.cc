#include "db/background/read_merge_pacer.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class ReadMergePacerTest : public testing::Test {
 protected:
  bool MayBegin() const { return pacer_.Next(now_) <= now_; }

  void Merge(milliseconds took) {
    const auto began = now_;
    EXPECT_TRUE(pacer_.Begin(now_, /*paced=*/true));
    now_ += took;
    pacer_.NoteEnded(began, now_);
  }

  // How long the next one has to wait.
  milliseconds Rest() const {
    return std::chrono::duration_cast<milliseconds>(pacer_.Next(now_) - now_);
  }

  ReadMergePacer pacer_;
  ReadMergePacer::Clock::time_point now_ = ReadMergePacer::Clock::now();
};

// Fails if half a second's worth has to wait, or more does not; or if what follows takes more than
// a tenth of the time, or less.
TEST_F(ReadMergePacerTest, HalfASecondAtOnceThenATenthOfTheTime) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(MayBegin()) << i;
    Merge(milliseconds(100));
  }
  ASSERT_TRUE(MayBegin()) << "meanwhile a twentieth of a second's worth has come";
  Merge(milliseconds(150));
  EXPECT_EQ(Rest(), milliseconds(850));
  now_ += Rest();
  ASSERT_TRUE(MayBegin());
  Merge(milliseconds(50));
  EXPECT_EQ(Rest(), milliseconds(450));
}

// Fails if what was not used for long is kept for longer than a burst.
TEST_F(ReadMergePacerTest, NoMoreThanHalfASecondIsSaved) {
  Merge(milliseconds(10));
  now_ += seconds(1000);
  Merge(milliseconds(1000));
  EXPECT_EQ(Rest(), seconds(4));
}

// Fails if one merge that had to wait itself keeps the others away for long.
TEST_F(ReadMergePacerTest, ARestHasAnEnd) {
  Merge(minutes(10));
  EXPECT_EQ(Rest(), seconds(30));
}

// Fails if merges run side by side, or the end of one of them counts for both.
TEST_F(ReadMergePacerTest, OneByOne) {
  ASSERT_TRUE(MayBegin()) << "as threads of two shards find at the same time";
  EXPECT_TRUE(pacer_.Begin(now_, /*paced=*/true));
  EXPECT_FALSE(pacer_.Begin(now_, /*paced=*/true));
  EXPECT_FALSE(MayBegin());
  EXPECT_TRUE(pacer_.Begin(now_, /*paced=*/false)) << "nobody wants the processors";
  pacer_.NoteEnded(now_, now_);
  EXPECT_FALSE(MayBegin());
  pacer_.NoteEnded(now_, now_);
  EXPECT_TRUE(MayBegin());
  Merge(seconds(1));
  EXPECT_FALSE(pacer_.Begin(now_, /*paced=*/true)) << "it rests";
}

}  // namespace
}  // namespace dlsm
