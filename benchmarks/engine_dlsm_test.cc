// dLSM behind the benchmark's interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "benchmarks/engine.h"
#include "util/status_testing.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

// Two of the keys are another compute node's. Fails if not the first error is returned, if a value
// is lost, or, where all have to be looked at (DLSM_CHECK_STATUSES), if a later Status is not.
TEST(DlsmEngineTest, MultiGetLooksAtEveryStatus) {
  EngineOptions options;
  options.db = "db";
  options.write_buffer_size = size_t{1} << 20;
  options.embedded_memory_bytes = uint64_t{256} << 20;
  options.compute_boundaries = {"m"};
  const std::unique_ptr<Engine> engine = NewDlsmEngine(options);
  ASSERT_OK(engine->Open(/*create=*/true));
  {
    const std::unique_ptr<Session> session = engine->NewSession();
    ASSERT_OK(session->Put("a", "1"));
    std::vector<std::optional<Slice>> values;
    for (int i = 0; i < 2; ++i) {
      const Status status = session->MultiGet({"x", "a", "b", "y"}, &values);
      EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("\"x\""));
    }
    ASSERT_EQ(values.size(), 4u);
    ASSERT_TRUE(values[1].has_value());
    EXPECT_EQ(values[1]->ToString(), "1");
    EXPECT_FALSE(values[2].has_value());
    EXPECT_OK(session->MultiGet({"a"}, &values));
  }
  EXPECT_OK(engine->Close());
  EXPECT_OK(engine->Destroy());
}

}  // namespace
}  // namespace dlsm::bench
