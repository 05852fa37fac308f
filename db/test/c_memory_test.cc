// The C interface where the process has no memory: no exception may pass into C.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "dLSM/c.h"
#include "db/c/c_testing.h"
#include "port/failing_allocations_testing.h"

namespace dlsm {
namespace {

class CMemoryTest : public CTest {
 protected:
  // Whether an error has been told since the last call, and it is that there is no memory.
  bool ToldOfMemory() {
    const bool told = error_.text().find("memory") != std::string::npos;
    dlsm_free(*error_.out());  // NULL if there was none.
    *error_.out() = nullptr;
    return told;
  }
};

// Fails if one of these calls throws, or says that it has succeeded.
TEST_F(CMemoryTest, ACallThatCanTellAnErrorDoes) {
  Open();
  Put("a", "1");
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  dlsm_writebatch_put(batch, "b", 1, "2", 1);
  {
    const port::FailingAllocationsAt failing("c");
    dlsm_put(db_, write_, "a", 1, "2", 1, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    dlsm_delete(db_, write_, "a", 1, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    dlsm_write(db_, write_, batch, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    size_t bytes = 77;
    EXPECT_EQ(dlsm_get(db_, read_, "a", 1, &bytes, error_.out()), nullptr);
    EXPECT_EQ(bytes, 0u);
    EXPECT_TRUE(ToldOfMemory());
    dlsm_flush(db_, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    dlsm_wait_for_background_work(db_, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    dlsm_try_catch_up(db_, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    const char* const names[] = {"merge_scheduler"};
    const char* const values[] = {"fair"};
    dlsm_set_options(db_, 1, names, values, error_.out());
    EXPECT_TRUE(ToldOfMemory());
    EXPECT_EQ(dlsm_open(options_, "another", error_.out()), nullptr);
    EXPECT_TRUE(ToldOfMemory());
    EXPECT_EQ(dlsm_open_follower(options_, name_.c_str(), error_.out()), nullptr);
    EXPECT_TRUE(ToldOfMemory());
    dlsm_destroy_db(options_, "another", error_.out());
    EXPECT_TRUE(ToldOfMemory());
    EXPECT_EQ(failing.failed(), 11u);
  }
  EXPECT_EQ(Scan(), "a=1 ");
  dlsm_write(db_, write_, batch, error_.out());
  EXPECT_EQ(Scan(), "a=1 b=2 ");
  dlsm_writebatch_destroy(batch);
}

TEST_F(CMemoryTest, MultiGetTellsOfEachKey) {
  Open();
  Put("a", "1");
  const char* const keys[] = {"a", "b"};
  const size_t sizes[] = {1, 1};
  char* values[2];
  size_t value_sizes[2];
  char* errors[2];
  {
    const port::FailingAllocationsAt failing("c");
    dlsm_multi_get(db_, read_, 2, keys, sizes, values, value_sizes, errors);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(values[i], nullptr);
    EXPECT_EQ(value_sizes[i], 0u);
    ASSERT_NE(errors[i], nullptr);
    dlsm_free(errors[i]);
  }
}

// Fails if what has come of a MultiGet without keys, whether there is memory for it or not, is an
// error that nobody has looked at.
TEST_F(CMemoryTest, AMultiGetOfNoKeysHasNothingToTell) {
  Open();
  const auto get_nothing = [this] {
    dlsm_multi_get(db_, read_, 0, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  get_nothing();
  const port::FailingAllocationsAt failing("c");
  get_nothing();
  EXPECT_EQ(failing.failed(), 1u);
}

// Fails if one of these calls throws, or calls a destructor whose state is still the caller's.
TEST_F(CMemoryTest, WhatCannotBeMadeIsNull) {
  Open();
  Put("a", "1");
  int destroyed = 0;
  const auto destroy = [](void* state) { ++*static_cast<int*>(state); };
  const auto name = [](void*) { return "mine"; };
  {
    const port::FailingAllocationsAt failing("c");
    EXPECT_EQ(dlsm_options_create(), nullptr);
    EXPECT_EQ(dlsm_readoptions_create(), nullptr);
    EXPECT_EQ(dlsm_writeoptions_create(), nullptr);
    EXPECT_EQ(dlsm_writebatch_create(), nullptr);
    EXPECT_EQ(dlsm_cache_create_lru(1000), nullptr);
    EXPECT_EQ(dlsm_filterpolicy_create_bloom(10), nullptr);
    EXPECT_EQ(dlsm_comparator_create(
                  &destroyed, destroy,
                  [](void*, const char*, size_t, const char*, size_t) { return 0; }, name),
              nullptr);
    EXPECT_EQ(
        dlsm_filterpolicy_create(
            &destroyed, destroy,
            [](void*, const char* const*, const size_t*, int, size_t*) -> char* { return nullptr; },
            [](void*, const char*, size_t, const char*, size_t) -> uint8_t { return 1; }, name),
        nullptr);
    EXPECT_EQ(dlsm_create_iterator(db_, read_), nullptr);
    EXPECT_EQ(dlsm_create_snapshot(db_), nullptr);
    EXPECT_EQ(dlsm_property_value(db_, "dlsm.stats"), nullptr);
    uint64_t number = 77;
    EXPECT_EQ(dlsm_property_int(db_, "dlsm.approximate-memory-usage", &number), -1);
    EXPECT_EQ(number, 77u);
    const char* const starts[] = {"a"};
    const char* const limits[] = {"b"};
    const size_t sizes[] = {1};
    uint64_t bytes = 77;
    dlsm_approximate_sizes(db_, 1, starts, sizes, limits, sizes, &bytes);
    EXPECT_EQ(bytes, 0u);
    dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
    EXPECT_EQ(failing.failed(), 14u);
  }
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(Scan(), "a=1 ");
}

// Fails if a batch is written that lacks an update, or never again once it has been cleared.
TEST_F(CMemoryTest, ABatchThatLacksAnUpdateIsNotWritten) {
  Open();
  dlsm_writebatch_t* const batch = dlsm_writebatch_create();
  dlsm_writebatch_t* const copy = dlsm_writebatch_create();
  dlsm_writebatch_put(batch, "a", 1, "1", 1);
  {
    const port::FailingAllocationsAt failing("c");
    dlsm_writebatch_delete(batch, "b", 1);
  }
  dlsm_writebatch_put(batch, "c", 1, "3", 1);
  dlsm_write(db_, write_, batch, error_.out());
  EXPECT_TRUE(ToldOfMemory());
  dlsm_writebatch_append(copy, batch);
  dlsm_write(db_, write_, copy, error_.out());
  EXPECT_TRUE(ToldOfMemory());
  EXPECT_EQ(Scan(), "");
  dlsm_writebatch_clear(batch);
  dlsm_writebatch_put(batch, "d", 1, "4", 1);
  dlsm_write(db_, write_, batch, error_.out());
  EXPECT_EQ(Scan(), "d=4 ");
  dlsm_writebatch_destroy(batch);
  dlsm_writebatch_destroy(copy);
}

// Fails if an iterator throws, shows an entry after a move that was not made, or hides why.
TEST_F(CMemoryTest, AnIteratorTellsOfAMoveThatItCouldNotMake) {
  Open();
  for (const char* key : {"a", "b", "c"}) Put(key, key);
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  dlsm_iter_seek_to_first(iterator);
  EXPECT_EQ(At(iterator), "a=a");
  {
    const port::FailingAllocationsAt failing("c");
    dlsm_iter_next(iterator);
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_EQ(At(iterator), "<end>");
  dlsm_iter_seek_to_last(iterator);
  EXPECT_EQ(At(iterator), "<end>");
  dlsm_iter_get_error(iterator, error_.out());
  EXPECT_TRUE(ToldOfMemory());
  dlsm_iter_destroy(iterator);
  EXPECT_EQ(Scan(), "a=a b=b c=c ");
}

// Fails if a bound or an option that could not be set is taken for one that was.
TEST_F(CMemoryTest, OptionsThatCouldNotBeSetAreToldOf) {
  Open();
  Put("a", "1");
  dlsm_readoptions_t* const bounded = dlsm_readoptions_create();
  dlsm_options_t* const options = dlsm_options_create();
  {
    const port::FailingAllocationsAt failing("c");
    dlsm_readoptions_set_iterate_upper_bound(bounded, "a", 1);
    dlsm_options_set_secret_file(options, "secret");
    EXPECT_EQ(failing.failed(), 2u);
  }
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, bounded);
  dlsm_iter_seek_to_first(iterator);
  EXPECT_EQ(At(iterator), "<end>");
  dlsm_iter_get_error(iterator, error_.out());
  EXPECT_TRUE(ToldOfMemory());
  dlsm_iter_destroy(iterator);
  EXPECT_EQ(dlsm_open(options, "another", error_.out()), nullptr);
  EXPECT_TRUE(ToldOfMemory());
  dlsm_readoptions_destroy(bounded);
  dlsm_options_destroy(options);
}

// Keys and values that no process has memory for. Fails if they end this one.
TEST_F(CMemoryTest, LengthsBeyondAllMemoryAreErrors) {
  Open();
  dlsm_readoptions_set_iterate_lower_bound(read_, "a", SIZE_MAX);
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  dlsm_iter_get_error(iterator, error_.out());
  EXPECT_TRUE(ToldOfMemory());
  dlsm_iter_destroy(iterator);
}

}  // namespace
}  // namespace dlsm
