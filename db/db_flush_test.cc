// Flushes that somebody asks for.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "db/held_flushes_testing.h"
#include "db/test_database_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

// The only memtable that may wait does so. Fails if the flush that is asked for then is forgotten:
// the write before it would stay in the memtable until something else flushes it.
TEST(DbFlushTest, WhoDoesNotWaitIsNotForgotten) {
  Options options = TinyOptions();
  options.max_write_buffer_number = 2;
  const auto db = OpenOrDie(options, "flush");
  const auto flushes = [&db] { return db->GetStatistics()->Get(Ticker::kFlushes); };
  FlushOptions at_once;
  at_once.wait = false;
  {
    const HeldFlushes held;
    ASSERT_OK(db->Put(WriteOptions(), "first", "1"));
    ASSERT_OK(db->Flush(at_once));
    ASSERT_TRUE(Eventually([] { return HeldFlushes::any(); }));
    ASSERT_OK(db->Put(WriteOptions(), "second", "2"));
    ASSERT_OK(db->Flush(at_once));
    ASSERT_OK(db->Put(WriteOptions(), "third", "3"));  // Nobody has to wait for it.
    EXPECT_EQ(flushes(), 0u);
  }
  EXPECT_TRUE(Eventually([&flushes] { return flushes() >= 2; }));
  // What is written later is nobody's to flush.
  ASSERT_OK(db->Put(WriteOptions(), "fourth", "4"));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(flushes(), 2u);
  EXPECT_EQ(GetOr(db.get(), "second"), "2");
  ASSERT_OK(db->Close());
  EXPECT_OK(DestroyDB("flush", options));
}

}  // namespace
}  // namespace dlsm
