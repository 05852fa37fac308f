// The C interface: comparators and filters that are the caller's own.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "dLSM/c.h"
#include "db/c/c_testing.h"

namespace dlsm {
namespace {

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

}  // namespace
}  // namespace dlsm
