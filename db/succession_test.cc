#include "db/succession.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace dlsm {
namespace {

// Where objects live that are overwritten, and not given back, when they are dropped: so a reader
// that still has one sees that, whatever the allocator does.
constexpr uint64_t kAlive = 0x0123456789abcdef;

class Object : public std::enable_shared_from_this<Object> {
 public:
  explicit Object(std::atomic<uint64_t>* mark) : mark_(mark) { mark_->store(kAlive); }
  ~Object() { mark_->store(0); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  bool alive() const { return mark_->load(std::memory_order_relaxed) == kAlive; }
  std::atomic<uint64_t>* mark() const { return mark_; }

 private:
  std::atomic<uint64_t>* const mark_;
};

TEST(SuccessionTest, DropsWhatNobodyPins) {
  std::vector<std::atomic<uint64_t>> marks(3);
  Succession<Object> objects(std::make_shared<const Object>(&marks[0]));
  {
    const Succession<Object>::Pin pin(objects);
    objects.Install(std::make_shared<const Object>(&marks[1]));
    EXPECT_TRUE(pin->alive());
    EXPECT_EQ(pin->mark(), &marks[0]);
  }
  const std::shared_ptr<const Object> counted = objects.Current();
  EXPECT_EQ(counted->mark(), &marks[1]);
  objects.Install(std::make_shared<const Object>(&marks[2]));
  EXPECT_EQ(marks[0].load(), 0u) << "nobody announces it any more";
  EXPECT_TRUE(counted->alive());
}

// Fails if a reader's announcement is not seen by who replaces the object, and the reader does not
// see the replacement either. What it looks for is a store that is still under way, so it needs
// many tries: each object is replaced at once.
TEST(SuccessionTest, PinnedObjectsStayAlive) {
  constexpr int kObjects = 200'000;
  constexpr int kReaders = 2;
  std::vector<std::atomic<uint64_t>> marks(kObjects);
  Succession<Object> objects(std::make_shared<const Object>(marks.data()));
  std::atomic<bool> done{false};
  std::atomic<uint64_t> dead{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      uint64_t seen = 0;
      while (!done.load(std::memory_order_relaxed)) {
        const Succession<Object>::Pin pin(objects);
        seen += pin->alive() ? 0 : 1;
      }
      dead += seen;
    });
  }
  for (int i = 1; i < kObjects; ++i) objects.Install(std::make_shared<const Object>(&marks[i]));
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(dead.load(), 0u);
}

}  // namespace
}  // namespace dlsm
