// The C interface: options.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "dLSM/c.h"
#include "dLSM/options.h"
#include "db/c/c_handles.h"
#include "db/c/c_testing.h"

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

// By a handle of its own, so that each setter finds all options as they are by default.
template <typename Argument, typename Value>
void ExpectSets(const char* name, void (*set)(dlsm_options_t*, Argument), Value Options::*option,
                std::type_identity_t<Argument> argument) {
  const std::unique_ptr<dlsm_options_t, void (*)(dlsm_options_t*)> handle(dlsm_options_create(),
                                                                          dlsm_options_destroy);
  const auto value = static_cast<Value>(argument);
  ASSERT_NE(handle->options.*option, value) << name << " is that by default";
  set(handle.get(), argument);
  EXPECT_EQ(handle->options.*option, value) << name;
}

// Fails if a setter of a text sets another option.
TEST(COptionsTest, SettersOfTexts) {
  ExpectSets("memory_nodes", dlsm_options_set_memory_nodes, &Options::memory_nodes, "text");
  ExpectSets("config", dlsm_options_set_config, &Options::config, "text");
  ExpectSets("fabric", dlsm_options_set_fabric, &Options::fabric, "text");
  ExpectSets("rpc_transport", dlsm_options_set_rpc_transport, &Options::rpc_transport, "text");
  ExpectSets("rdma_device", dlsm_options_set_rdma_device, &Options::rdma_device, "text");
  ExpectSets("secret_file", dlsm_options_set_secret_file, &Options::secret_file, "text");
  ExpectSets("access_name", dlsm_options_set_access_name, &Options::access_name, "text");
  ExpectSets("tls_ca_file", dlsm_options_set_tls_ca_file, &Options::tls_ca_file, "text");
  ExpectSets("tls_certificate_file", dlsm_options_set_tls_certificate_file,
             &Options::tls_certificate_file, "text");
  ExpectSets("tls_key_file", dlsm_options_set_tls_key_file, &Options::tls_key_file, "text");
}

// Fails if a setter of a truth value sets another option, or the opposite.
TEST(COptionsTest, SettersOfTruthValues) {
  ExpectSets("create_if_missing", dlsm_options_set_create_if_missing, &Options::create_if_missing,
             1);
  ExpectSets("error_if_exists", dlsm_options_set_error_if_exists, &Options::error_if_exists, 1);
  ExpectSets("take_over", dlsm_options_set_take_over, &Options::take_over, 1);
  ExpectSets("paranoid_checks", dlsm_options_set_paranoid_checks, &Options::paranoid_checks, 1);
  ExpectSets("tcp_share_reads", dlsm_options_set_tcp_share_reads, &Options::tcp_share_reads, 0);
  ExpectSets("tls", dlsm_options_set_tls, &Options::tls, 1);
  ExpectSets("accept_log_loss", dlsm_options_set_accept_log_loss, &Options::accept_log_loss, 1);
  ExpectSets("bulk_load", dlsm_options_set_bulk_load, &Options::bulk_load, 1);
  ExpectSets("slow_down_writes", dlsm_options_set_slow_down_writes, &Options::slow_down_writes, 1);
}

TEST(COptionsTest, LogLevelsAreThoseOfOptions) {
  ExpectSets("log", dlsm_options_set_log, &Options::log, dlsm_log_memory);
  EXPECT_EQ(static_cast<int>(LogLevel::kMemory), dlsm_log_memory);
  EXPECT_EQ(static_cast<int>(LogLevel::kNone), dlsm_log_none);
  EXPECT_EQ(static_cast<int>(LogLevel::kDisk), dlsm_log_disk);
  EXPECT_EQ(static_cast<int>(LogLevel::kDefault), dlsm_log_default);
}

// Fails if a setter of a number sets another option.
TEST(COptionsTest, SettersOfNumbers) {
  ExpectSets("write_buffer_size", dlsm_options_set_write_buffer_size, &Options::write_buffer_size,
             3);
  ExpectSets("max_open_files", dlsm_options_set_max_open_files, &Options::max_open_files, 3);
  ExpectSets("block_size", dlsm_options_set_block_size, &Options::block_size, 3);
  ExpectSets("block_restart_interval", dlsm_options_set_block_restart_interval,
             &Options::block_restart_interval, 3);
  ExpectSets("max_file_size", dlsm_options_set_max_file_size, &Options::max_file_size, 3);
  ExpectSets("log_bytes_max", dlsm_options_set_log_bytes_max, &Options::log_bytes_max, 300000);
  ExpectSets("log_sync_interval_ms", dlsm_options_set_log_sync_interval_ms,
             &Options::log_sync_interval_ms, 3);
  ExpectSets("publish_interval_ms", dlsm_options_set_publish_interval_ms,
             &Options::publish_interval_ms, 3);
  ExpectSets("follow_interval_ms", dlsm_options_set_follow_interval_ms,
             &Options::follow_interval_ms, 3);
  ExpectSets("compute_node_id", dlsm_options_set_compute_node_id, &Options::compute_node_id, 3);
  ExpectSets("tcp_poll_us", dlsm_options_set_tcp_poll_us, &Options::tcp_poll_us, 3);
  ExpectSets("embedded_memory_bytes", dlsm_options_set_embedded_memory_bytes,
             &Options::embedded_memory_bytes, 3);
  ExpectSets("open_timeout_ms", dlsm_options_set_open_timeout_ms, &Options::open_timeout_ms, 3);
  ExpectSets("operation_timeout_ms", dlsm_options_set_operation_timeout_ms,
             &Options::operation_timeout_ms, 3);
  ExpectSets("numa_node", dlsm_options_set_numa_node, &Options::numa_node, 3);
  ExpectSets("numa_node", dlsm_options_set_numa_node, &Options::numa_node, dlsm_no_numa_node);
  ExpectSets("memory_budget", dlsm_options_set_memory_budget, &Options::memory_budget, 3);
  ExpectSets("value_cache_size", dlsm_options_set_value_cache_size, &Options::value_cache_size, 3);
  ExpectSets("max_write_buffer_number", dlsm_options_set_max_write_buffer_number,
             &Options::max_write_buffer_number, 3);
  ExpectSets("max_background_flushes", dlsm_options_set_max_background_flushes,
             &Options::max_background_flushes, 3);
  ExpectSets("max_background_compactions", dlsm_options_set_max_background_compactions,
             &Options::max_background_compactions, 3);
  ExpectSets("max_subcompactions", dlsm_options_set_max_subcompactions,
             &Options::max_subcompactions, 3);
}

// Fails if a setter of reads sets the other option.
TEST(COptionsTest, SettersOfReads) {
  const std::unique_ptr<dlsm_readoptions_t, void (*)(dlsm_readoptions_t*)> handle(
      dlsm_readoptions_create(), dlsm_readoptions_destroy);
  dlsm_readoptions_set_verify_checksums(handle.get(), 1);
  EXPECT_TRUE(handle->options.verify_checksums);
  EXPECT_TRUE(handle->options.fill_cache);
  dlsm_readoptions_set_verify_checksums(handle.get(), 0);
  dlsm_readoptions_set_fill_cache(handle.get(), 0);
  EXPECT_FALSE(handle->options.verify_checksums);
  EXPECT_FALSE(handle->options.fill_cache);
  EXPECT_FALSE(handle->options.prefix_same_as_start);
  dlsm_readoptions_set_prefix_same_as_start(handle.get(), 1);
  EXPECT_TRUE(handle->options.prefix_same_as_start);
  EXPECT_EQ(handle->options.read_tier, kReadAllTier);
  dlsm_readoptions_set_read_tier(handle.get(), dlsm_block_cache_tier);
  EXPECT_EQ(handle->options.read_tier, kBlockCacheTier);
  dlsm_readoptions_set_deadline(handle.get(), 7);
  EXPECT_EQ(handle->options.deadline - kNoDeadline, std::chrono::microseconds(7));
  dlsm_readoptions_set_deadline(handle.get(), UINT64_MAX);
  EXPECT_EQ(handle->options.deadline, kNoDeadline);
  const std::unique_ptr<dlsm_writeoptions_t, void (*)(dlsm_writeoptions_t*)> write(
      dlsm_writeoptions_create(), dlsm_writeoptions_destroy);
  dlsm_writeoptions_set_deadline(write.get(), 8);
  EXPECT_EQ(write->options.deadline - kNoDeadline, std::chrono::microseconds(8));
}

// Fails if boundaries of compute nodes are taken for those of shards, or for C strings.
TEST(COptionsTest, BoundariesOfComputeNodes) {
  const std::unique_ptr<dlsm_options_t, void (*)(dlsm_options_t*)> handle(dlsm_options_create(),
                                                                          dlsm_options_destroy);
  const char* const keys[] = {"g\0x", "n"};
  const size_t lengths[] = {3, 1};
  dlsm_options_set_compute_boundaries(handle.get(), 2, keys, lengths);
  const std::vector<std::string> expected = {std::string("g\0x", 3), "n"};
  EXPECT_EQ(handle->options.compute_boundaries, expected);
  EXPECT_TRUE(handle->options.shard_boundaries.empty());
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
