#include "dLSM/comparator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

class ComparatorTest : public testing::TestWithParam<const Comparator*> {
 protected:
  const Comparator& order() const { return *GetParam(); }

  // Few distinct bytes, the extremes among them, so that keys share prefixes and end on 0xff.
  std::string RandomKey() {
    static constexpr char kBytes[] = {'\0', '\1', 'a', 'b', '\xfe', '\xff'};
    std::string key(random_.Uniform(5), '\0');
    for (char& byte : key) byte = kBytes[random_.Uniform(sizeof(kBytes))];
    return key;
  }

 private:
  Random random_{301};
};

// Fails if a separator leaves [start, limit) or grows.
TEST_P(ComparatorTest, SeparatorsSeparate) {
  for (int i = 0; i < 100000; ++i) {
    const std::string a = RandomKey();
    const std::string b = RandomKey();
    if (order().Compare(a, b) >= 0) continue;
    std::string separator = a;
    order().FindShortestSeparator(&separator, b);
    EXPECT_LE(order().Compare(a, separator), 0);
    EXPECT_LT(order().Compare(separator, b), 0);
    EXPECT_LE(separator.size(), a.size());
  }
}

TEST_P(ComparatorTest, SuccessorsFollow) {
  for (int i = 0; i < 10000; ++i) {
    const std::string key = RandomKey();
    std::string successor = key;
    order().FindShortSuccessor(&successor);
    EXPECT_LE(order().Compare(key, successor), 0);
    EXPECT_LE(successor.size(), key.size());
  }
}

// Fails if FindShortestSeparator never does what it is for.
TEST_P(ComparatorTest, SeparatorsAreShort) {
  std::string a = "the quick brown fox";
  std::string b = "the zoo";
  if (order().Compare(a, b) > 0) std::swap(a, b);
  order().FindShortestSeparator(&a, b);
  EXPECT_EQ(a.size(), 5u) << a;
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, ComparatorTest,
                         testing::Values(BytewiseComparator(), ReverseBytewiseComparator()),
                         [](const auto& instance) {
                           return std::string(instance.param == BytewiseComparator() ? "Bytewise"
                                                                                     : "Reverse");
                         });

TEST(ComparatorNameTest, NamesArePartOfTheFormat) {
  EXPECT_STREQ(BytewiseComparator()->Name(), "dlsm.BytewiseComparator");
  EXPECT_STREQ(ReverseBytewiseComparator()->Name(), "dlsm.ReverseBytewiseComparator");
}

// Fails if bytes are compared as signed ones.
TEST(ComparatorNameTest, BytesAreUnsigned) {
  EXPECT_LT(BytewiseComparator()->Compare("\x7f", "\x80"), 0);
  EXPECT_GT(ReverseBytewiseComparator()->Compare("\x7f", "\x80"), 0);
  EXPECT_LT(BytewiseComparator()->Compare("a", "ab"), 0);
}

// Destroyed after what came to be later, as handles are that a program keeps as static objects.
struct Handle {
  const Comparator* order = nullptr;
  ~Handle() {
    constexpr int kInOrder = 7;
    if (order != nullptr) _exit(order->Compare("a", "b") < 0 ? kInOrder : 1);
  }
} static_handle;

// Fails, where the compiler keeps what a destructor writes, if they end before who uses them.
TEST(ComparatorEndTest, StaticObjectsMayUseThemToTheirEnd) {
  const auto end = [] {
    static_handle.order = BytewiseComparator();
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread.
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace dlsm
