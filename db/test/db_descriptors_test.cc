// Databases in a process without its standard descriptors, or with too few.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "dLSM/db.h"
#include "db/test/test_database_testing.h"
#include "port/thread_sanitizer.h"
#include "util/child_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class DescriptorsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#ifdef DLSM_THREAD_SANITIZER
    GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
#endif
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, DescriptorsTest, testing::Values("shm", "tcp"),
                         [](const auto& instance) { return instance.param; });

// Fails if what an application, started without standard output, writes there can get into a
// connection or a file of the library, of either node.
TEST_P(DescriptorsTest, StandardOnesAreNotTaken) {
  InChild([] {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) close(number);
    Options options = TinyOptions();
    const std::unique_ptr<TestNode> node = NodeServing(GetParam(), &options);
    std::unique_ptr<DB> db = OpenOrDie(options, "a");
    for (uint64_t i = 0; i < 2000; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), std::string(100, 'v')));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    EXPECT_EQ(GetOr(db.get(), NumberedKey(1)), std::string(100, 'v'));
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
      EXPECT_EQ(fcntl(number, F_GETFD), -1) << number;
    }
    CloseAndDestroy(&db, options, "a");
  });
}

// Fails if an application that has no descriptor left is not told that it is the one that lacks it.
TEST_P(DescriptorsTest, AnApplicationIsToldThatItHasNone) {
  if (!kWorksWithoutDescriptors) GTEST_SKIP() << "UBSan needs a descriptor now and then";
  Options options = TinyOptions();
  const std::unique_ptr<TestNode> node = NodeServing(GetParam(), &options);
  InChild([&options] {
    const rlimit none{0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, "a", &db);
    EXPECT_TRUE(status.IsIOError());
    EXPECT_NE(status.ToString().find("this process has no descriptor left"), std::string::npos)
        << status.ToString();
    EXPECT_NE(status.ToString().find("ulimit -n"), std::string::npos) << status.ToString();
    EXPECT_EQ(status.ToString().find("is Server running"), std::string::npos) << status.ToString();
  });
}

}  // namespace
}  // namespace dlsm
