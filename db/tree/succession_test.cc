#include "db/tree/succession.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "util/random.h"

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
// see the replacement either: while the announcement waits in the reader's processor behind stores
// to memory that is not in its caches.
TEST(SuccessionTest, PinnedObjectsStayAlive) {
  constexpr int kPins = 60'000;      // Of each reader.
  constexpr size_t kObjects = 4096;  // Far more than are replaced while one is looked at.
  constexpr size_t kReaders = 2;
  constexpr size_t kSlowBytes = size_t{64} << 20;
  constexpr int kSlowStores = 20;
  constexpr int kLooks = 200;
  std::vector<std::atomic<uint64_t>> marks(kObjects);
  Succession<Object> objects(std::make_shared<const Object>(marks.data()));
  std::atomic<size_t> done{0};
  std::atomic<uint64_t> dead{0};
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      std::vector<char> slow(kSlowBytes);
      volatile char* const at = slow.data();
      Random random(static_cast<uint32_t>(i));
      uint64_t seen = 0;
      for (int n = 0; n < kPins; ++n) {
        size_t lines[kSlowStores];
        for (size_t& line : lines) line = random.Uniform(kSlowBytes / 64) * 64;
        for (const size_t line : lines) at[line] = 1;
        const Succession<Object>::Pin pin(objects);
        for (int look = 0; look < kLooks; ++look) seen += pin->alive() ? 0 : 1;
      }
      dead += seen;
      ++done;
    });
  }
  for (size_t i = 1; done.load() < kReaders; ++i) {
    while (marks[i % kObjects].load() != 0) ++i;  // Pinned, by a reader that stands still.
    objects.Install(std::make_shared<const Object>(&marks[i % kObjects]));
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(dead.load(), 0u);
}

}  // namespace
}  // namespace dlsm
