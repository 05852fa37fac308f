#include "dLSM/iterator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "util/status_testing.h"

namespace dlsm {
namespace {

// Over sorted keys that are their own values; with an error set, never valid.
class KeysIterator final : public Iterator {
 public:
  explicit KeysIterator(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  void Fail(const Status& status) { status_ = status; }

  bool Valid() const override { return status_.ok() && at_ < keys_.size(); }
  void SeekToFirst() override { at_ = 0; }
  void SeekToLast() override { at_ = keys_.size() - 1; }
  void Seek(const Slice& target) override {
    const auto found = std::lower_bound(keys_.begin(), keys_.end(), target.ToString());
    at_ = static_cast<size_t>(found - keys_.begin());
  }
  void Next() override { ++at_; }
  void Prev() override { --at_; }
  Slice key() const override { return keys_[at_]; }
  Slice value() const override { return key(); }
  Status status() const override { return status_; }

 private:
  const std::vector<std::string> keys_;
  Status status_;
  size_t at_ = 0;
};

TEST(IteratorTest, SeekForPrevFindsTheLastKeyNotAfterTheTarget) {
  KeysIterator iterator({"b", "d"});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a", ""}, {"b", "b"}, {"c", "b"}, {"d", "d"}, {"e", "d"}};
  for (const auto& [target, expected] : cases) {
    iterator.SeekForPrev(target);
    ASSERT_EQ(iterator.Valid(), !expected.empty()) << target;
    if (iterator.Valid()) {
      EXPECT_EQ(iterator.key(), Slice(expected));
    }
  }
}

// Fails if SeekForPrev takes an error for the end of the data.
TEST(IteratorTest, SeekForPrevKeepsTheError) {
  KeysIterator iterator({"b"});
  iterator.Fail(Status::IOError("gone"));
  iterator.SeekForPrev("c");
  EXPECT_FALSE(iterator.Valid());
  EXPECT_TRUE(iterator.status().IsIOError());
}

// Fails if a cleanup is skipped or called twice.
TEST(IteratorTest, EveryCleanupIsCalledOnce) {
  int one = 1;
  std::vector<int> calls(3);
  {
    const std::unique_ptr<Iterator> iterator(NewEmptyIterator());
    for (int& call : calls) {
      iterator->RegisterCleanup(
          [](void* counter, void* addend) {
            *static_cast<int*>(counter) += *static_cast<int*>(addend);
          },
          &call, &one);
    }
    EXPECT_EQ(calls, std::vector<int>({0, 0, 0}));
  }
  EXPECT_EQ(calls, std::vector<int>({1, 1, 1}));
}

TEST(IteratorTest, EmptyAndErrorIterators) {
  const std::unique_ptr<Iterator> empty(NewEmptyIterator());
  empty->SeekToFirst();
  EXPECT_FALSE(empty->Valid());
  EXPECT_OK(empty->status());
  const std::unique_ptr<Iterator> error(NewErrorIterator(Status::Corruption("bad")));
  error->SeekForPrev("a");
  EXPECT_FALSE(error->Valid());
  EXPECT_TRUE(error->status().IsCorruption());
}

}  // namespace
}  // namespace dlsm
