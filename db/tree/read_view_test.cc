#include "db/tree/read_view.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "db/test/bytewise_order_testing.h"
#include "db/test/fake_table_testing.h"

namespace dlsm {
namespace {

std::shared_ptr<const ReadView> NewView(uint64_t number) {
  auto view = std::make_shared<ReadView>();
  view->active = std::make_shared<Memtable>(Bytewise(), number, Slice());
  view->version = std::make_shared<const Version>(Bytewise(), std::vector<Level>(1));
  return view;
}

// Fails if a reader does not get the view that was installed last.
TEST(ReadViewTest, ShowsTheNewest) {
  ReadViews views(NewView(1));
  EXPECT_EQ(ReadViews::Pin(views)->active->number(), 1u);
  views.Install(NewView(2));
  EXPECT_EQ(ReadViews::Pin(views)->active->number(), 2u);
  EXPECT_EQ(views.Current()->active->number(), 2u);
}

// Fails if a view goes while a pin holds it, or stays when nobody does.
TEST(ReadViewTest, PinKeepsAView) {
  auto first = NewView(1);
  const std::weak_ptr<const ReadView> watched = first;
  ReadViews views(std::move(first));
  {
    const ReadViews::Pin pin(views);
    views.Install(NewView(2));
    views.Reclaim();
    ASSERT_FALSE(watched.expired());
    EXPECT_EQ(pin->active->number(), 1u);
  }
  EXPECT_FALSE(watched.expired()) << "dropped by Reclaim(), not by the reader";
  views.Reclaim();
  EXPECT_TRUE(watched.expired());
}

// Fails if a counted view goes before its last holder.
TEST(ReadViewTest, CountedViewOutlivesItsReplacement) {
  ReadViews views(NewView(1));
  std::shared_ptr<const ReadView> held = views.Current();
  views.Install(NewView(2));
  views.Reclaim();
  const std::weak_ptr<const ReadView> watched = held;
  EXPECT_EQ(held->active->number(), 1u);
  held.reset();
  EXPECT_TRUE(watched.expired());
}

// Fails if one thread's pin does not protect a view from another thread's Reclaim().
TEST(ReadViewTest, PinsOfAllThreadsCount) {
  auto first = NewView(1);
  const std::weak_ptr<const ReadView> watched = first;
  ReadViews views(std::move(first));
  std::atomic<int> step{0};
  std::thread reader([&] {
    const ReadViews::Pin pin(views);
    step = 1;
    while (step != 2) std::this_thread::yield();
    EXPECT_EQ(pin->active->number(), 1u);
  });
  while (step != 1) std::this_thread::yield();
  views.Install(NewView(2));
  views.Reclaim();
  EXPECT_FALSE(watched.expired());
  step = 2;
  reader.join();
  views.Reclaim();
  EXPECT_TRUE(watched.expired());
}

// Views are replaced under readers all the time. Fails (under a sanitizer, or by its numbers) if a
// reader sees a view that is gone, or an older one after a newer one.
TEST(ReadViewTest, ReadersNeverSeeAViewThatIsGone) {
  ReadViews views(NewView(1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      uint64_t newest = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        uint64_t seen;
        if (i == 0) {
          seen = views.Current()->active->number();
        } else {
          const ReadViews::Pin pin(views);
          seen = pin->active->number();
          EXPECT_EQ(pin->version->levels().size(), 1u);
        }
        EXPECT_GE(seen, newest);
        newest = seen;
      }
    });
  }
  for (uint64_t number = 2; number < 3000; ++number) {
    views.Install(NewView(number));
    if (number % 7 == 0) views.Reclaim();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace dlsm
