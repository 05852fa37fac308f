// The C interface, as a C program would use it: on the memory node inside the process.
#include "dLSM/c.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "db/c_handles.h"

namespace {

// An error that is expected or not; freed in the end.
class Error {
 public:
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() { std::free(message_); }

  char** out() { return &message_; }
  std::string text() const { return message_ == nullptr ? "" : message_; }

 private:
  char* message_ = nullptr;
};

constexpr uint64_t kMemoryBytes = uint64_t{1} << 30;

class CTest : public testing::Test {
 protected:
  void SetUp() override {
    dlsm_options_set_create_if_missing(options_, 1);
    dlsm_options_set_error_if_exists(options_, 1);
    dlsm_options_set_write_buffer_size(options_, 100000);
    dlsm_options_set_embedded_memory_bytes(options_, kMemoryBytes);
    dlsm_options_set_cache(options_, cache_);
    dlsm_options_set_value_cache_size(options_, 100000);
  }
  void TearDown() override {
    if (db_ != nullptr) Close();
    dlsm_destroy_db(options_, name_.c_str(), error_.out());
    EXPECT_EQ(error_.text(), "");
    dlsm_readoptions_destroy(read_);
    dlsm_writeoptions_destroy(write_);
    dlsm_options_destroy(options_);
    dlsm_cache_destroy(cache_);
  }

  void Open() {
    db_ = dlsm_open(options_, name_.c_str(), error_.out());
    ASSERT_EQ(error_.text(), "");
    ASSERT_NE(db_, nullptr);
  }
  void Close() {
    dlsm_close_checked(db_, error_.out());
    db_ = nullptr;
    ASSERT_EQ(error_.text(), "");
  }
  void Put(const std::string& key, const std::string& value) {
    dlsm_put(db_, write_, key.data(), key.size(), value.data(), value.size(), error_.out());
    ASSERT_EQ(error_.text(), "");
  }
  // "<none>" if there is none.
  std::string Get(const std::string& key) {
    size_t bytes = 77;
    char* const value = dlsm_get(db_, read_, key.data(), key.size(), &bytes, error_.out());
    EXPECT_EQ(error_.text(), "");
    if (value == nullptr) return bytes == 0 ? "<none>" : "<none, but a length>";
    const std::string copy(value, bytes);
    dlsm_free(value);
    return copy;
  }
  // All there is, forward.
  std::string Scan() {
    dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
    std::string text;
    for (dlsm_iter_seek_to_first(iterator); dlsm_iter_valid(iterator); dlsm_iter_next(iterator)) {
      text += At(iterator) + " ";
    }
    dlsm_iter_get_error(iterator, error_.out());
    EXPECT_EQ(error_.text(), "");
    dlsm_iter_destroy(iterator);
    return text;
  }
  static std::string At(const dlsm_iterator_t* iterator) {
    if (!dlsm_iter_valid(iterator)) return "<end>";
    size_t key_bytes;
    size_t value_bytes;
    const char* const key = dlsm_iter_key(iterator, &key_bytes);
    const char* const value = dlsm_iter_value(iterator, &value_bytes);
    return std::string(key, key_bytes) + "=" + std::string(value, value_bytes);
  }

  const std::string name_ = "c_test";
  dlsm_cache_t* const cache_ = dlsm_cache_create_lru(100000);
  dlsm_options_t* const options_ = dlsm_options_create();
  dlsm_readoptions_t* const read_ = dlsm_readoptions_create();
  dlsm_writeoptions_t* const write_ = dlsm_writeoptions_create();
  dlsm_t* db_ = nullptr;
  Error error_;
};

TEST_F(CTest, PutGetDelete) {
  Open();
  dlsm_writeoptions_set_sync(write_, 1);
  Put("a", "1");
  Put("", "");
  dlsm_put(db_, write_, "null", 4, nullptr, 0, error_.out());
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get(""), "");
  EXPECT_EQ(Get("null"), "");
  EXPECT_EQ(Get("b"), "<none>");
  dlsm_delete(db_, write_, "a", 1, error_.out());
  EXPECT_EQ(Get("a"), "<none>");
}

// Fails if an error leaves *errptr alone, leaks what was there, or sets it without an error.
TEST_F(CTest, ErrorsArriveByMalloc) {
  dlsm_options_set_create_if_missing(options_, 0);
  *error_.out() = strdup("an old error");
  EXPECT_EQ(dlsm_open(options_, name_.c_str(), error_.out()), nullptr);
  EXPECT_NE(error_.text(), "an old error");
  EXPECT_NE(error_.text(), "");
  const std::string kept = error_.text();
  dlsm_options_set_create_if_missing(options_, 1);
  db_ = dlsm_open(options_, name_.c_str(), error_.out());
  ASSERT_NE(db_, nullptr);
  EXPECT_EQ(error_.text(), kept) << "success leaves it alone";
  std::free(*error_.out());
  *error_.out() = nullptr;
}

TEST_F(CTest, BatchesApplyAsOne) {
  Open();
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  dlsm_writebatch_put(batch, "x", 1, "old", 3);
  dlsm_writebatch_clear(batch);
  dlsm_writebatch_put(batch, "a", 1, "1", 1);
  dlsm_writebatch_delete(batch, "a", 1);
  dlsm_writebatch_t* const more = dlsm_writebatch_create();
  dlsm_writebatch_put(more, "b", 1, "2", 1);
  dlsm_writebatch_append(batch, more);

  std::string seen;
  dlsm_writebatch_iterate(
      batch, &seen,
      [](void* state, const char* key, size_t keylen, const char* value, size_t vallen) {
        *static_cast<std::string*>(state) +=
            std::string(key, keylen) + "=" + std::string(value, vallen) + " ";
      },
      [](void* state, const char* key, size_t keylen) {
        *static_cast<std::string*>(state) += "-" + std::string(key, keylen) + " ";
      });
  EXPECT_EQ(seen, "a=1 -a b=2 ");

  dlsm_write(db_, write_, batch, error_.out());
  EXPECT_EQ(error_.text(), "");
  EXPECT_EQ(Scan(), "b=2 ");
  dlsm_writebatch_destroy(batch);
  dlsm_writebatch_destroy(more);
}

TEST_F(CTest, IteratorsGoBothWaysWithinBounds) {
  Open();
  for (const char* key : {"a", "b", "c", "d"}) Put(key, std::string(key) + key);
  dlsm_readoptions_set_iterate_lower_bound(read_, "b", 1);
  dlsm_readoptions_set_iterate_upper_bound(read_, "d", 1);
  EXPECT_EQ(Scan(), "b=bb c=cc ");
  dlsm_readoptions_set_iterate_lower_bound(read_, nullptr, 0);
  dlsm_readoptions_set_iterate_upper_bound(read_, nullptr, 0);

  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  EXPECT_EQ(At(iterator), "<end>");
  dlsm_iter_seek_to_last(iterator);
  EXPECT_EQ(At(iterator), "d=dd");
  dlsm_iter_prev(iterator);
  EXPECT_EQ(At(iterator), "c=cc");
  dlsm_iter_seek(iterator, "bb", 2);
  EXPECT_EQ(At(iterator), "c=cc");
  dlsm_iter_seek_for_prev(iterator, "bb", 2);
  EXPECT_EQ(At(iterator), "b=bb");
  dlsm_iter_next(iterator);
  EXPECT_EQ(At(iterator), "c=cc");
  dlsm_iter_destroy(iterator);
}

// Fails if the options that an iterator was made with, once they are changed or gone, change its
// bounds or take them away. What is short lies in a std::string, what is long elsewhere.
TEST_F(CTest, IteratorsKeepTheirBounds) {
  Open();
  for (const std::string& prefix : {std::string(), std::string(40, 'p')}) {
    SCOPED_TRACE(prefix);
    for (const char* key : {"a", "b", "c", "d", "e"}) Put(prefix + key, key);
    const auto set_bounds = [&](dlsm_readoptions_t* options, const char* lower, const char* upper) {
      const std::string from = prefix + lower;
      const std::string to = prefix + upper;
      dlsm_readoptions_set_iterate_lower_bound(options, from.data(), from.size());
      dlsm_readoptions_set_iterate_upper_bound(options, to.data(), to.size());
    };
    dlsm_readoptions_t* const options = dlsm_readoptions_create();
    set_bounds(options, "b", "d");
    dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, options);
    const auto expect_bounds = [&] {
      dlsm_iter_seek_to_last(iterator);
      EXPECT_EQ(At(iterator), prefix + "c=c");
      dlsm_iter_next(iterator);
      EXPECT_EQ(At(iterator), "<end>");
      dlsm_iter_seek_to_first(iterator);
      EXPECT_EQ(At(iterator), prefix + "b=b");
      dlsm_iter_prev(iterator);
      EXPECT_EQ(At(iterator), "<end>");
    };
    expect_bounds();
    set_bounds(options, "a", "e");
    expect_bounds();
    dlsm_readoptions_set_iterate_lower_bound(options, nullptr, 0);
    dlsm_readoptions_set_iterate_upper_bound(options, nullptr, 0);
    expect_bounds();
    dlsm_readoptions_destroy(options);
    expect_bounds();
    dlsm_iter_destroy(iterator);
  }
}

TEST_F(CTest, SnapshotsStay) {
  Open();
  Put("a", "old");
  const dlsm_snapshot_t* const snapshot = dlsm_create_snapshot(db_);
  Put("a", "new");
  Put("b", "new");
  dlsm_readoptions_set_snapshot(read_, snapshot);
  EXPECT_EQ(Get("a"), "old");
  EXPECT_EQ(Scan(), "a=old ");
  dlsm_readoptions_set_snapshot(read_, nullptr);
  EXPECT_EQ(Get("a"), "new");
  dlsm_release_snapshot(db_, snapshot);
}

TEST_F(CTest, MultiGetAnswersEachKey) {
  Open();
  Put("a", "1");
  Put("c", "");
  const char* const keys[] = {"a", "b", "c"};
  const size_t sizes[] = {1, 1, 1};
  char* values[3];
  size_t value_sizes[3];
  char* errors[3];
  dlsm_multi_get(db_, read_, 3, keys, sizes, values, value_sizes, errors);
  for (char* error : errors) EXPECT_EQ(error, nullptr);
  ASSERT_NE(values[0], nullptr);
  EXPECT_EQ(std::string(values[0], value_sizes[0]), "1");
  EXPECT_EQ(values[1], nullptr);
  ASSERT_NE(values[2], nullptr);
  EXPECT_EQ(value_sizes[2], 0u);
  for (char* value : values) dlsm_free(value);
}

TEST_F(CTest, FlushCompactAndSizes) {
  Open();
  for (int i = 0; i < 2000; ++i) Put("key" + std::to_string(i), std::string(200, 'v'));
  dlsm_flush(db_, error_.out());
  dlsm_wait_for_background_work(db_, error_.out());
  dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
  EXPECT_EQ(error_.text(), "");
  const char* const starts[] = {"key", "z"};
  const size_t start_sizes[] = {3, 1};
  const char* const limits[] = {"kez", "zz"};
  const size_t limit_sizes[] = {3, 2};
  uint64_t sizes[2];
  dlsm_approximate_sizes(db_, 2, starts, start_sizes, limits, limit_sizes, sizes);
  EXPECT_GT(sizes[0], 2000u * 200);
  EXPECT_LT(sizes[0], 2u * 2000 * 250);
  EXPECT_EQ(sizes[1], 0u);
  EXPECT_EQ(Get("key1999"), std::string(200, 'v'));

  char* const known = dlsm_property_value(db_, "dlsm.stats");
  EXPECT_NE(known, nullptr);
  dlsm_free(known);
  EXPECT_EQ(dlsm_property_value(db_, "no such property"), nullptr);
}

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
  const dlsm::Options& options = options_->options;
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

// Reverse order, and a count of destructions.
TEST_F(CTest, ComparatorsOfTheCaller) {
  int destroyed = 0;
  dlsm_comparator_t* const comparator = dlsm_comparator_create(
      &destroyed, [](void* state) { ++*static_cast<int*>(state); },
      [](void*, const char* a, size_t alen, const char* b, size_t blen) {
        return -std::string(a, alen).compare(std::string(b, blen));
      },
      [](void*) { return "c_test.Reverse"; });
  dlsm_options_set_comparator(options_, comparator);
  Open();
  for (const char* key : {"b", "c", "a"}) Put(key, "");
  EXPECT_EQ(Scan(), "c= b= a= ");
  dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
  EXPECT_EQ(Scan(), "c= b= a= ");
  Close();
  dlsm_destroy_db(options_, name_.c_str(), error_.out());
  EXPECT_EQ(error_.text(), "");
  dlsm_comparator_destroy(comparator);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(CTest, FilterPoliciesOfTheCaller) {
  dlsm_filterpolicy_t* const bloom = dlsm_filterpolicy_create_bloom(10);
  // A filter that is the number of its keys, and lets everything pass.
  dlsm_filterpolicy_t* const own = dlsm_filterpolicy_create(
      nullptr, [](void*) {},
      [](void*, const char* const*, const size_t*, int num_keys, size_t* filter_length) {
        const std::string filter = "keys " + std::to_string(num_keys);
        *filter_length = filter.size();
        return strdup(filter.c_str());
      },
      [](void*, const char*, size_t, const char* filter, size_t filter_length) -> uint8_t {
        return filter_length > 5 && std::memcmp(filter, "keys ", 5) == 0;
      },
      [](void*) { return "c_test.Filter"; });
  for (dlsm_filterpolicy_t* policy : {bloom, own}) {
    dlsm_options_set_filter_policy(options_, policy);
    ASSERT_NO_FATAL_FAILURE(Open());
    Put("a", "1");
    Put("b", "2");
    dlsm_flush(db_, error_.out());
    EXPECT_EQ(Get("a"), "1");
    EXPECT_EQ(Get("b"), "2");
    EXPECT_EQ(Get("c"), "<none>");
    ASSERT_NO_FATAL_FAILURE(Close());
    dlsm_destroy_db(options_, name_.c_str(), error_.out());
    ASSERT_EQ(error_.text(), "");
  }
  dlsm_options_set_filter_policy(options_, nullptr);
  dlsm_filterpolicy_destroy(bloom);
  dlsm_filterpolicy_destroy(own);
}

TEST_F(CTest, ReopensWhatWasClosed) {
  Open();
  Put("a", "1");
  dlsm_close(db_);
  dlsm_options_set_error_if_exists(options_, 0);
  dlsm_options_set_take_over(options_, 1);  // From nobody.
  Open();
  EXPECT_EQ(Get("a"), "1");
}

// Fails if C has no followers, or one of them can write.
TEST_F(CTest, FollowsWhatIsPublished) {
  dlsm_options_set_publish_interval_ms(options_, 5);
  dlsm_options_set_follow_interval_ms(options_, 0);
  Open();
  Put("a", "1");
  dlsm_t* const owner = db_;
  db_ = dlsm_open_follower(options_, name_.c_str(), error_.out());
  ASSERT_EQ(error_.text(), "");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Get("a") != "1" && std::chrono::steady_clock::now() < until) {
    dlsm_try_catch_up(db_, error_.out());
    ASSERT_EQ(error_.text(), "");
  }
  EXPECT_EQ(Get("a"), "1");
  Error refused;
  dlsm_put(db_, write_, "a", 1, "2", 1, refused.out());
  EXPECT_NE(refused.text().find("follows"), std::string::npos) << refused.text();
  dlsm_close(db_);
  db_ = owner;
}

TEST(CVersionTest, HasAVersion) {
  EXPECT_EQ(dlsm_major_version(), 0);
  EXPECT_GE(dlsm_minor_version(), 1);
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
