// The C interface: calls of databases, batches, iterators and snapshots.
#include "dLSM/c.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "db/c/c_testing.h"
#include "port/failing_allocations_testing.h"

namespace dlsm {
namespace {

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
  uint64_t entries = 0;
  EXPECT_EQ(dlsm_property_int(db_, "dlsm.entries", &entries), 0);
  EXPECT_GT(entries, 0u) << "in tables, for it was written with sync";
  dlsm_writeoptions_set_no_slowdown(write_, 1);
  Put("nobody waits", "");
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

// Fails if a call that fails looks like one that succeeds where there is no memory for the message,
// or if what stands for that is given to free().
TEST_F(CTest, AnErrorWithoutMemoryForItsMessageIsAnError) {
  Open();
  const char* const names[] = {"no such option"};
  const char* const values[] = {"1"};
  Error refused;
  for (int i = 0; i < 2; ++i) {
    const port::FailingAllocations failing(1);
    dlsm_set_options(db_, 1, names, values, refused.out());
    EXPECT_EQ(failing.failed(), 1u);
    EXPECT_NE(refused.text().find("no memory"), std::string::npos) << refused.text();
  }
  dlsm_set_options(db_, 1, names, values, refused.out());
  EXPECT_NE(refused.text().find(names[0]), std::string::npos) << refused.text();
  const port::FailingAllocations failing(1);
  dlsm_set_options(db_, 1, names, values, refused.out());  // Freed by dlsm_free().
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

// Fails if a handle that only reads writes, or does not read.
TEST_F(CTest, OpensForReadingOnly) {
  dlsm_options_set_embedded_memory_bytes(options_, uint64_t{256} << 20);
  Open();
  Put("a", "1");
  Close();
  db_ = dlsm_open_for_read_only(options_, name_.c_str(), error_.out());
  ASSERT_NE(db_, nullptr) << error_.text();
  EXPECT_EQ(Get("a"), "1");
  Error refused;
  dlsm_put(db_, write_, "b", 1, "2", 1, refused.out());
  EXPECT_NE(refused.text().find("Not supported"), std::string::npos) << refused.text();
}

TEST_F(CTest, IteratorsStayWithinAPrefix) {
  dlsm_slicetransform_t* const prefixes = dlsm_slicetransform_create_fixed_prefix(1);
  dlsm_options_set_prefix_extractor(options_, prefixes);
  dlsm_slicetransform_destroy(prefixes);
  Open();
  for (const char* key : {"a1", "b1", "b2", "c1"}) Put(key, "");
  dlsm_readoptions_set_prefix_same_as_start(read_, 1);
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  dlsm_iter_seek(iterator, "b2", 2);
  EXPECT_EQ(At(iterator), "b2=");
  dlsm_iter_next(iterator);
  EXPECT_EQ(At(iterator), "<end>");
  dlsm_iter_seek_for_prev(iterator, "b1", 2);
  EXPECT_EQ(At(iterator), "b1=");
  dlsm_iter_prev(iterator);
  EXPECT_EQ(At(iterator), "<end>");
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

// Fails if what was not made, for an error or for want of memory, cannot be given back as the rest.
TEST_F(CTest, WhatWasNotMadeIsGivenBackToo) {
  Open();
  const dlsm_snapshot_t* snapshot = nullptr;
  {
    const port::FailingAllocationsAt failing("c");
    snapshot = dlsm_create_snapshot(db_);
  }
  EXPECT_EQ(snapshot, nullptr);
  dlsm_release_snapshot(db_, snapshot);
  dlsm_close(nullptr);
  dlsm_close_checked(nullptr, error_.out());
  EXPECT_EQ(error_.text(), "");
  dlsm_iter_destroy(nullptr);
  dlsm_writebatch_destroy(nullptr);
  dlsm_options_destroy(nullptr);
  dlsm_comparator_destroy(nullptr);
  dlsm_filterpolicy_destroy(nullptr);
  dlsm_readoptions_destroy(nullptr);
  dlsm_writeoptions_destroy(nullptr);
  dlsm_cache_destroy(nullptr);
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
  dlsm_compact_range_checked(db_, nullptr, 0, nullptr, 0, error_.out());
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
  uint64_t number = 7;
  EXPECT_EQ(dlsm_property_int(db_, "dlsm.stats", &number), -1);
  EXPECT_EQ(dlsm_property_int(db_, "no such property", &number), -1);
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(dlsm_property_int(db_, "dlsm.entries", &number), 0);
  EXPECT_GE(number, 2000u);
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

// Fails if C has no followers, one of them can write or compact, or does not say that it cannot.
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
  Error not_compacted;
  dlsm_compact_range_checked(db_, "a", 1, nullptr, 0, not_compacted.out());
  EXPECT_NE(not_compacted.text().find("follows"), std::string::npos) << not_compacted.text();
  dlsm_compact_range(db_, "a", 1, nullptr, 0);  // Which has nobody to tell.
  dlsm_close(db_);
  db_ = owner;
}

TEST(CVersionTest, HasAVersion) {
  EXPECT_EQ(dlsm_version(), std::to_string(dlsm_major_version()) + "." +
                                std::to_string(dlsm_minor_version()) + "." +
                                std::to_string(dlsm_patch_version()));
}

}  // namespace
}  // namespace dlsm
