// What tests of the C interface share: a database on the memory node inside the process, used as a
// C program would use it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "dLSM/c.h"

namespace dlsm {

// An error that is expected or not; freed in the end.
class Error {
 public:
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() { dlsm_free(message_); }

  char** out() { return &message_; }
  std::string text() const { return message_ == nullptr ? "" : message_; }

 private:
  char* message_ = nullptr;
};

class CTest : public testing::Test {
 protected:
  void SetUp() override {
    dlsm_options_set_create_if_missing(options_, 1);
    dlsm_options_set_error_if_exists(options_, 1);
    dlsm_options_set_write_buffer_size(options_, 100000);
    dlsm_options_set_embedded_memory_bytes(options_, uint64_t{1} << 30);
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

}  // namespace dlsm
