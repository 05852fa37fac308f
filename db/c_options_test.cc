// The C interface: options.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "dLSM/c.h"
#include "dLSM/options.h"
#include "db/c_handles.h"
#include "db/c_testing.h"

namespace dlsm {
namespace {

TEST_F(CTest, OptionsThatChange) {
  Open();
  const char* const names[] = {"merge_scheduler", "compaction_bandwidth"};
  const char* const values[] = {"fair", "5000000"};
  dlsm_set_options(db_, 2, names, values, error_.out());
  EXPECT_EQ(error_.text(), "");
  char* const schedule = dlsm_property_value(db_, "dlsm.merge-schedule");
  ASSERT_NE(schedule, nullptr);
  EXPECT_EQ(std::string(schedule).find("merge_scheduler fair\ncompaction_bandwidth 5000000\n"), 0u);
  dlsm_free(schedule);
  const char* const wrong[] = {"fair", "much"};
  Error refused;
  dlsm_set_options(db_, 2, names, wrong, refused.out());
  EXPECT_NE(refused.text(), "");
}

TEST_F(CTest, EveryTableFormatAndPlace) {
  for (const int format : {dlsm_byte_addressable, dlsm_block_based}) {
    for (const int place : {dlsm_memory_node, dlsm_compute_node, dlsm_automatic}) {
      SCOPED_TRACE(testing::Message() << "format " << format << " place " << place);
      dlsm_options_set_table_format(options_, format);
      dlsm_options_set_compaction_place(options_, place);
      dlsm_options_set_compression(
          options_, format == dlsm_block_based ? dlsm_snappy_compression : dlsm_no_compression);
      dlsm_options_set_block_size(options_, 2048);
      ASSERT_NO_FATAL_FAILURE(Open());
      for (int i = 0; i < 1000; ++i) Put(std::to_string(i), std::string(500, 'v'));
      dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
      EXPECT_EQ(Get("999"), std::string(500, 'v'));
      ASSERT_NO_FATAL_FAILURE(Close());
      dlsm_destroy_db(options_, name_.c_str(), error_.out());
      ASSERT_EQ(error_.text(), "");
    }
  }
}

// Fails if a setter of the tree's shape sets another option.
TEST_F(CTest, SettersOfTheTree) {
  int value = 3;
  dlsm_options_set_max_tables_per_guard(options_, value++);
  dlsm_options_set_guard_bits(options_, value++);
  dlsm_options_set_max_size_amplification_percent(options_, value++);
  dlsm_options_set_idle_size_amplification_percent(options_, value++);
  dlsm_options_set_level0_file_num_compaction_trigger(options_, value++);
  dlsm_options_set_level0_stop_writes_trigger(options_, value++);
  dlsm_options_set_num_levels(options_, value++);
  dlsm_options_set_max_bytes_for_level_base(options_, 1 << 20);
  dlsm_options_set_max_bytes_for_level_multiplier(options_, 2.5);
  dlsm_options_set_write_stall_timeout_ms(options_, 1234);
  const Options& options = options_->options;
  value = 3;
  EXPECT_EQ(options.max_tables_per_guard, value++);
  EXPECT_EQ(options.guard_bits, value++);
  EXPECT_EQ(options.max_size_amplification_percent, value++);
  EXPECT_EQ(options.idle_size_amplification_percent, value++);
  EXPECT_EQ(options.level0_file_num_compaction_trigger, value++);
  EXPECT_EQ(options.level0_stop_writes_trigger, value++);
  EXPECT_EQ(options.num_levels, value++);
  EXPECT_EQ(options.max_bytes_for_level_base, uint64_t{1} << 20);
  EXPECT_EQ(options.max_bytes_for_level_multiplier, 2.5);
  EXPECT_EQ(options.write_stall_timeout_ms, 1234u);
}

// Fails if a setter sets another option, or a value of the enum means another style.
TEST_F(CTest, EveryCompactionStyle) {
  dlsm_options_set_write_buffer_size(options_, 65536);
  dlsm_options_set_merge_scheduler(options_, dlsm_fair);
  dlsm_options_set_component_constraint(options_, dlsm_global_constraint);
  dlsm_options_set_max_components(options_, 100);
  dlsm_options_set_slow_down_writes(options_, 1);
  dlsm_options_set_max_tables_per_guard(options_, 4);
  dlsm_options_set_idle_size_amplification_percent(options_, 10);
  dlsm_options_set_compaction_place(options_, dlsm_compute_node);
  dlsm_options_set_compaction_bandwidth(options_, uint64_t{1} << 30);
  for (const int style : {dlsm_leveled, dlsm_guards, dlsm_leveled_choose_best, dlsm_full_leveling,
                          dlsm_tiered, dlsm_size_tiered}) {
    SCOPED_TRACE(testing::Message() << "style " << style);
    dlsm_options_set_compaction_style(options_, style);
    ASSERT_NO_FATAL_FAILURE(Open());
    for (int i = 0; i < 2000; ++i) Put(std::to_string(i % 1000), std::string(500, 'v'));
    dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
    EXPECT_EQ(Get("999"), std::string(500, 'v'));
    // Of guards alone are there several; of size-tiered runs all are in level 0.
    char* const guards = dlsm_property_value(db_, "dlsm.guards");
    const bool in_level0 = std::string(guards).rfind("level 0", 0) == 0;
    EXPECT_EQ(in_level0, style == dlsm_size_tiered) << guards;
    dlsm_free(guards);
    ASSERT_NO_FATAL_FAILURE(Close());
    dlsm_destroy_db(options_, name_.c_str(), error_.out());
    ASSERT_EQ(error_.text(), "");
  }
}

// Fails if an option that the enum does not know becomes one that it does.
TEST_F(CTest, UnknownEnumValuesAreErrors) {
  for (const int value : {-1, 2, 256, 257}) {
    dlsm_options_set_compression(options_, value);
    EXPECT_EQ(dlsm_open(options_, name_.c_str(), error_.out()), nullptr);
    EXPECT_NE(error_.text(), "");
    std::free(*error_.out());
    *error_.out() = nullptr;
  }
}

// Fails if boundaries are taken for C strings, or not at all.
TEST_F(CTest, ADatabaseCanBeDivided) {
  const char* const boundaries[] = {"g\0x", "n"};
  const size_t lengths[] = {3, 1};
  dlsm_options_set_shards(options_, 3);
  dlsm_options_set_shard_boundaries(options_, 2, boundaries, lengths);
  dlsm_options_set_placement(options_, dlsm_place_power_of_d);
  dlsm_options_set_power_of_d(options_, 3);
  dlsm_options_set_scatter_width(options_, 2);
  Open();
  for (const char* key : {"a", "g", "m", "n", "z"}) Put(key, key);
  EXPECT_EQ(Scan(), "a=a g=g m=m n=n z=z ");
  char* const shards = dlsm_property_value(db_, "dlsm.shards");
  ASSERT_NE(shards, nullptr);
  EXPECT_NE(std::string(shards).find("g\\x00x"), std::string::npos) << shards;
  EXPECT_NE(std::string(shards).find("\"n\""), std::string::npos) << shards;
  dlsm_free(shards);
}

}  // namespace
}  // namespace dlsm
