// What a MultiGet that takes several rounds holds of registered memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/filter_policy.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

// Denies nothing, and notes how many buffers there are when it is asked.
class BufferNotingFilter final : public FilterPolicy {
 public:
  explicit BufferNotingFilter(const FaultInjector* faults) : faults_(faults) {}

  const char* Name() const override { return "test.buffers"; }
  void CreateFilter(const Slice*, int, std::string* filter) const override { filter->append("."); }
  bool KeyMayMatch(const Slice&, const Slice&) const override {
    seen_.push_back(faults_->buffers());
    return true;
  }

  std::vector<int64_t> TakeSeen() { return std::exchange(seen_, {}); }

 private:
  const FaultInjector* const faults_;
  mutable std::vector<int64_t> seen_;  // Only the test's thread looks for keys.
};

// Every key's block is fetched from every run, one run in a round. Fails if what a round has
// fetched is kept when the next one begins.
TEST(MultiGetBuffersTest, AreThoseOfOneRound) {
  constexpr uint64_t kRuns = 3;
  constexpr uint64_t kKeysOfRun = 64;
  const auto faults = std::make_shared<FaultInjector>();
  BufferNotingFilter filter(faults.get());
  Options options = TinyOptions();
  options.fault_injector = faults;
  options.filter_policy = &filter;
  options.table_format = TableFormat::kBlockBased;
  options.level0_file_num_compaction_trigger = 1000;
  options.level0_stop_writes_trigger = 2000;
  options.max_tables_per_guard = 1000;
  options.idle_size_amplification_percent = 0;
  const auto node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, "multi get buffers");
  for (uint64_t run = 0; run < kRuns; ++run) {
    for (uint64_t i = 0; i < kKeysOfRun; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i * kRuns + run), NumberedValue(i, 300)));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  ASSERT_OK(db->WaitForBackgroundWork());
  // Of the oldest run; its first key is before those of the others.
  std::vector<std::string> keys;
  for (uint64_t i = 1; i < kKeysOfRun; ++i) keys.push_back(NumberedKey(i * kRuns));
  ReadOptions uncached;
  uncached.fill_cache = false;
  // This thread has a queue pair then.
  ASSERT_EQ(GetOr(db.get(), keys[0], uncached), NumberedValue(1, 300));
  filter.TakeSeen();
  const int64_t before = faults->buffers();
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      db->MultiGet(uncached, std::vector<Slice>(keys.begin(), keys.end()), &values);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_OK(statuses[i]);
    ASSERT_EQ(values[i], NumberedValue(i + 1, 300));
  }
  const std::vector<int64_t> seen = filter.TakeSeen();
  ASSERT_GT(seen.size(), keys.size()) << "one round was enough";
  EXPECT_LE(std::ranges::max(seen), before);
  CloseAndDestroy(&db, options, "multi get buffers");
}

}  // namespace
}  // namespace dlsm
