// The C interface where it is given NULL, as what an earlier call could not make is, or as callers
// give it that do not want to know something; and handles that are destroyed before others use
// them.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "dLSM/c.h"
#include "db/c/c_testing.h"

namespace dlsm {
namespace {

// Fails if one of these calls crashes, or does not tell an error that names what is missing.
TEST_F(CTest, NullIsAnErrorWhereOneCanBeTold) {
  Open();
  Put("a", "1");
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  size_t bytes = 77;
  const char* const names[] = {"merge_scheduler", nullptr};
  const char* const values[] = {"fair", nullptr};
  const struct {
    const char* names;
    std::function<void(char**)> call;
  } cases[] = {
      {"options", [&](char** e) { dlsm_open(nullptr, "x", e); }},
      {"name", [&](char** e) { dlsm_open(options_, nullptr, e); }},
      {"options", [&](char** e) { dlsm_open_follower(nullptr, "x", e); }},
      {"name", [&](char** e) { dlsm_open_follower(options_, nullptr, e); }},
      {"options", [&](char** e) { dlsm_destroy_db(nullptr, "x", e); }},
      {"name", [&](char** e) { dlsm_destroy_db(options_, nullptr, e); }},
      {"db", [&](char** e) { dlsm_try_catch_up(nullptr, e); }},
      {"db", [&](char** e) { dlsm_put(nullptr, write_, "a", 1, "2", 1, e); }},
      {"options", [&](char** e) { dlsm_put(db_, nullptr, "a", 1, "2", 1, e); }},
      {"key", [&](char** e) { dlsm_put(db_, write_, nullptr, 1, "2", 1, e); }},
      {"val", [&](char** e) { dlsm_put(db_, write_, "a", 1, nullptr, 1, e); }},
      {"db", [&](char** e) { dlsm_delete(nullptr, write_, "a", 1, e); }},
      {"options", [&](char** e) { dlsm_delete(db_, nullptr, "a", 1, e); }},
      {"key", [&](char** e) { dlsm_delete(db_, write_, nullptr, 1, e); }},
      {"db", [&](char** e) { dlsm_write(nullptr, write_, batch, e); }},
      {"options", [&](char** e) { dlsm_write(db_, nullptr, batch, e); }},
      {"batch", [&](char** e) { dlsm_write(db_, write_, nullptr, e); }},
      {"db", [&](char** e) { dlsm_get(nullptr, read_, "a", 1, &bytes, e); }},
      {"options", [&](char** e) { dlsm_get(db_, nullptr, "a", 1, &bytes, e); }},
      {"key", [&](char** e) { dlsm_get(db_, read_, nullptr, 1, &bytes, e); }},
      {"db", [&](char** e) { dlsm_set_options(nullptr, 1, names, values, e); }},
      {"names", [&](char** e) { dlsm_set_options(db_, 1, nullptr, values, e); }},
      {"values", [&](char** e) { dlsm_set_options(db_, 1, names, nullptr, e); }},
      {"a name", [&](char** e) { dlsm_set_options(db_, 2, names, values, e); }},
      {"db", [&](char** e) { dlsm_compact_range_checked(nullptr, nullptr, 0, nullptr, 0, e); }},
      {"db", [&](char** e) { dlsm_flush(nullptr, e); }},
      {"db", [&](char** e) { dlsm_write_backup(nullptr, "path", e); }},
      {"path", [&](char** e) { dlsm_write_backup(db_, nullptr, e); }},
      {"path", [&](char** e) { dlsm_check_backup(nullptr, e); }},
      {"db", [&](char** e) { dlsm_restore_backup(nullptr, "path", 0, e); }},
      {"path", [&](char** e) { dlsm_restore_backup(db_, nullptr, 0, e); }},
      {"db", [&](char** e) { dlsm_wait_for_background_work(nullptr, e); }},
      {"db", [&](char** e) { dlsm_flush_log(nullptr, 1, e); }},
      {"db", [&](char** e) { dlsm_wait_durable(nullptr, 1, e); }},
      {"iterator", [&](char** e) { dlsm_iter_get_error(nullptr, e); }},
  };
  for (const auto& each : cases) {
    Error error;
    each.call(error.out());
    EXPECT_NE(error.text().find(std::string(each.names) + " is NULL"), std::string::npos)
        << each.names << ": \"" << error.text() << "\"";
    each.call(nullptr);  // Nobody wants to know.
  }
  EXPECT_EQ(Get("a"), "1");
  dlsm_writebatch_destroy(batch);
}

// Fails if an error that is not wanted is written somewhere, or a length that is not.
TEST_F(CTest, WhatNobodyWantsToKnowIsNotTold) {
  Open();
  dlsm_put(db_, write_, "a", 1, "1", 1, nullptr);
  dlsm_put(db_, write_, "b", 1, nullptr, 0, nullptr);
  char* const value = dlsm_get(db_, read_, "a", 1, nullptr, nullptr);
  EXPECT_STREQ(value, "1");
  dlsm_free(value);
  EXPECT_EQ(dlsm_get(db_, read_, nullptr, 0, nullptr, nullptr), nullptr);
  const char* const keys[] = {"a", "none"};
  const size_t sizes[] = {1, 4};
  char* values[2];
  dlsm_multi_get(db_, read_, 2, keys, sizes, values, nullptr, nullptr);
  EXPECT_STREQ(values[0], "1");
  EXPECT_EQ(values[1], nullptr);
  dlsm_free(values[0]);
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  dlsm_iter_seek_to_first(iterator);
  EXPECT_EQ(*dlsm_iter_key(iterator, nullptr), 'a');
  EXPECT_EQ(*dlsm_iter_value(iterator, nullptr), '1');
  dlsm_iter_get_error(iterator, nullptr);
  dlsm_iter_destroy(iterator);
  dlsm_flush(db_, nullptr);
  dlsm_close_checked(db_, nullptr);
  db_ = nullptr;
}

TEST_F(CTest, MultiGetWithoutArraysTellsWhatItCan) {
  Open();
  Put("a", "1");
  const char* const keys[] = {"a"};
  const char* const none[] = {nullptr};
  const size_t sizes[] = {1};
  const struct {
    dlsm_t* db;
    const char* const* keys;
    const size_t* sizes;
    bool has_values;
  } cases[] = {{nullptr, keys, sizes, true},
               {db_, nullptr, sizes, true},
               {db_, keys, nullptr, true},
               {db_, none, sizes, true},
               {db_, keys, sizes, false}};
  for (const auto& each : cases) {
    char* value = nullptr;
    size_t bytes = 77;
    char* error = nullptr;
    dlsm_multi_get(each.db, read_, 1, each.keys, each.sizes, each.has_values ? &value : nullptr,
                   &bytes, &error);
    EXPECT_EQ(value, nullptr);
    EXPECT_EQ(bytes, 0u);
    ASSERT_NE(error, nullptr);
    EXPECT_NE(std::string(error).find("is NULL"), std::string::npos) << error;
    dlsm_free(error);
    dlsm_multi_get(each.db, read_, 1, each.keys, each.sizes, nullptr, nullptr, nullptr);
  }
}

// Fails if one of these calls, which tell no errors, crashes or does something.
TEST_F(CTest, NullDoesNothingWhereNoErrorCanBeTold) {
  Open();
  Put("a", "1");
  EXPECT_EQ(dlsm_create_snapshot(nullptr), nullptr);
  dlsm_release_snapshot(db_, nullptr);
  dlsm_release_snapshot(nullptr, nullptr);
  EXPECT_EQ(dlsm_property_value(nullptr, "dlsm.stats"), nullptr);
  EXPECT_EQ(dlsm_property_value(db_, nullptr), nullptr);
  uint64_t number = 77;
  EXPECT_EQ(dlsm_property_int(nullptr, "dlsm.entries", &number), -1);
  EXPECT_EQ(dlsm_property_int(db_, nullptr, &number), -1);
  EXPECT_EQ(dlsm_property_int(db_, "dlsm.entries", nullptr), -1);
  EXPECT_EQ(number, 77u);
  dlsm_approximate_sizes(db_, 1, nullptr, nullptr, nullptr, nullptr, &number);
  EXPECT_EQ(number, 0u);
  dlsm_approximate_sizes(nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  dlsm_approximate_sizes(db_, 1, nullptr, nullptr, nullptr, nullptr, nullptr);
  dlsm_compact_range(nullptr, nullptr, 0, nullptr, 0);
  dlsm_writebatch_clear(nullptr);
  dlsm_writebatch_put(nullptr, "a", 1, "1", 1);
  dlsm_writebatch_delete(nullptr, "a", 1);
  dlsm_writebatch_append(nullptr, nullptr);
  dlsm_writebatch_iterate(nullptr, nullptr, nullptr, nullptr);
  dlsm_free(nullptr);
  EXPECT_EQ(Scan(), "a=1 ");
}

TEST_F(CTest, IteratorsThatCannotBeMadeTellWhy) {
  Open();
  Put("a", "1");
  for (const bool has_db : {false, true}) {
    dlsm_iterator_t* const iterator = dlsm_create_iterator(has_db ? db_ : nullptr, nullptr);
    dlsm_iter_seek_to_first(iterator);
    EXPECT_EQ(At(iterator), "<end>");
    Error error;
    dlsm_iter_get_error(iterator, error.out());
    EXPECT_NE(error.text().find(has_db ? "options is NULL" : "db is NULL"), std::string::npos);
    dlsm_iter_destroy(iterator);
  }
  size_t bytes = 77;
  EXPECT_EQ(dlsm_iter_valid(nullptr), 0);
  dlsm_iter_seek_to_first(nullptr);
  dlsm_iter_seek_to_last(nullptr);
  dlsm_iter_seek(nullptr, "a", 1);
  dlsm_iter_seek_for_prev(nullptr, "a", 1);
  dlsm_iter_next(nullptr);
  dlsm_iter_prev(nullptr);
  EXPECT_EQ(dlsm_iter_key(nullptr, &bytes), nullptr);
  EXPECT_EQ(bytes, 0u);
}

// One that is not at an entry. Fails if what is behind its end is read.
TEST_F(CTest, IteratorsBehindTheEndHaveNothing) {
  Open();
  Put("a", "1");
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  const auto expect_nothing = [iterator] {
    size_t bytes = 77;
    EXPECT_EQ(dlsm_iter_key(iterator, &bytes), nullptr);
    EXPECT_EQ(bytes, 0u);
    bytes = 77;
    EXPECT_EQ(dlsm_iter_value(iterator, &bytes), nullptr);
    EXPECT_EQ(bytes, 0u);
  };
  expect_nothing();
  dlsm_iter_next(iterator);
  dlsm_iter_prev(iterator);
  dlsm_iter_seek(iterator, "z", 1);
  expect_nothing();
  dlsm_iter_next(iterator);
  expect_nothing();
  dlsm_iter_seek(iterator, nullptr, 0);
  EXPECT_EQ(At(iterator), "a=1");
  Error error;
  dlsm_iter_seek(iterator, nullptr, 3);
  dlsm_iter_get_error(iterator, error.out());
  EXPECT_NE(error.text().find("key is NULL"), std::string::npos) << error.text();
  dlsm_iter_destroy(iterator);
}

TEST_F(CTest, ABatchTellsOfNullWhenItIsWritten) {
  Open();
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  const std::function<void()> spoil[] = {
      [batch] { dlsm_writebatch_put(batch, nullptr, 1, "1", 1); },
      [batch] { dlsm_writebatch_put(batch, "a", 1, nullptr, 1); },
      [batch] { dlsm_writebatch_delete(batch, nullptr, 1); },
      [batch] { dlsm_writebatch_append(batch, nullptr); },
  };
  for (const auto& each : spoil) {
    dlsm_writebatch_clear(batch);
    dlsm_writebatch_put(batch, "a", 1, nullptr, 0);
    dlsm_writebatch_delete(batch, nullptr, 0);
    dlsm_writebatch_iterate(batch, nullptr, nullptr, nullptr);
    each();
    Error error;
    dlsm_write(db_, write_, batch, error.out());
    EXPECT_NE(error.text().find("is NULL"), std::string::npos) << error.text();
  }
  EXPECT_EQ(Scan(), "");
  dlsm_writebatch_destroy(batch);
}

// Fails if a setter crashes, or if a database is opened with other options than were meant.
TEST_F(CTest, OptionsAreNotGuessed) {
  dlsm_options_set_write_buffer_size(nullptr, 1 << 20);
  dlsm_options_set_config(nullptr, "x");
  dlsm_options_set_comparator(nullptr, nullptr);
  dlsm_options_set_filter_policy(nullptr, nullptr);
  dlsm_options_set_cache(nullptr, nullptr);
  dlsm_options_set_shard_boundaries(nullptr, 1, nullptr, nullptr);
  dlsm_readoptions_set_fill_cache(nullptr, 1);
  dlsm_readoptions_set_snapshot(nullptr, nullptr);
  dlsm_readoptions_set_iterate_lower_bound(nullptr, "a", 1);
  dlsm_writeoptions_set_sync(nullptr, 1);
  dlsm_options_set_config(options_, nullptr);  // None.
  Open();
  Close();
  const struct {
    const char* names;
    std::function<void(dlsm_options_t*)> spoil;
  } cases[] = {
      {"comparator is null", [](auto* o) { dlsm_options_set_comparator(o, nullptr); }},
      {"keys is NULL", [](auto* o) { dlsm_options_set_shard_boundaries(o, 1, nullptr, nullptr); }},
  };
  for (const auto& each : cases) {
    dlsm_options_t* const options = dlsm_options_create();
    each.spoil(options);
    Error error;
    EXPECT_EQ(dlsm_open(options, name_.c_str(), error.out()), nullptr);
    EXPECT_NE(error.text().find(each.names), std::string::npos) << error.text();
    dlsm_options_destroy(options);
  }
  EXPECT_EQ(dlsm_comparator_create(nullptr, nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(dlsm_filterpolicy_create(nullptr, nullptr, nullptr, nullptr, nullptr), nullptr);
}

// Fails if a database uses a handle after it was destroyed; if its destructor is called while it is
// in use, or not at all; or if options are opened with, or call, what was destroyed.
TEST_F(CTest, HandlesMayBeDestroyedBeforeTheirUsers) {
  int destroyed = 0;
  const auto destroy = [](void* state) { ++*static_cast<int*>(state); };
  const auto name = [](void*) { return "c_test.Own"; };
  dlsm_comparator_t* const comparator = dlsm_comparator_create(
      &destroyed, destroy,
      [](void*, const char* a, size_t alen, const char* b, size_t blen) {
        return std::string(a, alen).compare(std::string(b, blen));
      },
      name);
  dlsm_filterpolicy_t* const policy = dlsm_filterpolicy_create(
      &destroyed, destroy,
      [](void*, const char* const*, const size_t*, int, size_t* length) -> char* {
        *length = 0;
        return nullptr;
      },
      [](void*, const char*, size_t, const char*, size_t) -> uint8_t { return 1; }, name);
  dlsm_cache_t* const cache = dlsm_cache_create_lru(1 << 20);
  dlsm_options_t* const options = dlsm_options_create();
  dlsm_options_set_create_if_missing(options, 1);
  dlsm_options_set_comparator(options, comparator);
  dlsm_options_set_filter_policy(options, policy);
  dlsm_options_set_cache(options, cache);
  dlsm_options_set_table_format(options, dlsm_block_based);
  db_ = dlsm_open(options, name_.c_str(), error_.out());
  ASSERT_EQ(error_.text(), "");
  dlsm_comparator_destroy(comparator);
  dlsm_filterpolicy_destroy(policy);
  dlsm_cache_destroy(cache);
  for (const char* key : {"b", "a"}) Put(key, "1");
  dlsm_flush(db_, error_.out());
  EXPECT_EQ(Scan(), "a=1 b=1 ");
  EXPECT_EQ(Get("b"), "1");
  Put("c", "1");
  EXPECT_EQ(destroyed, 0);
  ASSERT_NO_FATAL_FAILURE(Close());
  EXPECT_EQ(destroyed, 2);
  Error refused;
  EXPECT_EQ(dlsm_open(options, name_.c_str(), refused.out()), nullptr);
  EXPECT_NE(refused.text().find("comparator"), std::string::npos) << refused.text();
  dlsm_destroy_db(options, name_.c_str(), error_.out());
  EXPECT_EQ(error_.text(), "");
  dlsm_options_destroy(options);
}

TEST_F(CTest, ABuiltInFilterPolicyMayBeDestroyedFirst) {
  dlsm_filterpolicy_t* const policy = dlsm_filterpolicy_create_bloom(10);
  dlsm_options_set_filter_policy(options_, policy);
  Open();
  Put("a", "1");
  dlsm_filterpolicy_destroy(policy);
  dlsm_close(db_);
  dlsm_options_set_filter_policy(options_, nullptr);
  dlsm_options_set_error_if_exists(options_, 0);
  Open();
  EXPECT_EQ(Get("a"), "1");
}

}  // namespace
}  // namespace dlsm
