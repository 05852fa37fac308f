// A sink must put every byte where it belongs, whatever the window, and report every fault.
#include "table/remote_sink.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <utility>

#include "port/failing_allocations_testing.h"
#include "table/table_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr auto kTimeout = std::chrono::seconds(10);

class RemoteSinkTest : public testing::TestWithParam<bool> {
 protected:
  RemoteSinkTest() : queue_pairs_(&memory_, GetParam()) {}

  Status WriteAll(const RemoteSpan& image, const std::string& content, Random* random) {
    std::unique_ptr<TableSink> sink;
    Status status = RemoteSink::Open(image, &queue_pairs_, Purpose::kFlush, kTimeout, &sink);
    size_t at = 0;
    while (status.ok() && at < content.size()) {
      const size_t bytes = std::min<size_t>(random->Skewed(22), content.size() - at);
      if (char* const place = sink->Reserve(bytes); place != nullptr && random->OneIn(2)) {
        std::memcpy(place, content.data() + at, bytes);
        sink->Commit(bytes);
      } else {
        status = sink->Append(Slice(content.data() + at, bytes));
      }
      at += bytes;
    }
    return status.ok() ? sink->Finish() : status;
  }

  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
};

// Has no memory once, when it is told so.
class ShortOfMemory final : public QueuePairs {
 public:
  explicit ShortOfMemory(QueuePairs* base) : base_(base) {}

  Status ForThisThread(NodeId node, QueuePair** queue_pair) override {
    if (std::exchange(fails_next_, false)) throw std::bad_alloc();
    return base_->ForThisThread(node, queue_pair);
  }
  Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override {
    return base_->NewBuffer(node, bytes, buffer);
  }
  void FailNext() { fails_next_ = true; }

 private:
  QueuePairs* const base_;
  bool fails_next_ = false;
};

TEST_P(RemoteSinkTest, WritesEveryByte) {
  Random random(4);
  for (const size_t bytes : {0, 1, 1000, 1 << 20, (1 << 20) + 1, 11 << 20}) {
    const std::string content = random.Bytes(bytes);
    const RemoteSpan image = memory_.Allocate(bytes + random.Uniform(2));
    const WireCounts before = queue_pairs_.Counts(Purpose::kFlush);
    ASSERT_OK(WriteAll(image, content, &random));
    EXPECT_EQ(Slice(memory_.At(image), bytes), Slice(content));
    EXPECT_EQ((queue_pairs_.Counts(Purpose::kFlush) - before).write_bytes, bytes);
  }
}

TEST_P(RemoteSinkTest, RefusesMoreThanItsCapacity) {
  std::unique_ptr<TableSink> sink;
  ASSERT_OK(
      RemoteSink::Open(memory_.Allocate(1000), &queue_pairs_, Purpose::kFlush, kTimeout, &sink));
  ASSERT_OK(sink->Append(std::string(999, 'x')));
  EXPECT_TRUE(sink->Append("yz").IsIOError());
}

// Each transfer fails once; a sink that is dropped then still has writes under way.
TEST_P(RemoteSinkTest, ReportsEveryFault) {
  Random random(5);
  const std::string content = random.Bytes(7 << 20);
  int64_t n = 0;
  for (;; ++n) {
    queue_pairs_.FailAfter(n);
    const RemoteSpan image = memory_.Allocate(content.size());
    const Status status = WriteAll(image, content, &random);
    const bool failed = queue_pairs_.failed();
    queue_pairs_.FailNone();
    EXPECT_EQ(status.ok(), !failed) << "at transfer " << n;
    memory_.Free(image);
    if (!failed) break;
  }
  EXPECT_EQ(n == 0, GetParam()) << "what is written in place is not transferred";
}

TEST_P(RemoteSinkTest, MayBeDroppedUnfinished) {
  Random random(6);
  const RemoteSpan image = memory_.Allocate(20 << 20);
  std::unique_ptr<TableSink> sink;
  ASSERT_OK(RemoteSink::Open(image, &queue_pairs_, Purpose::kFlush, kTimeout, &sink));
  ASSERT_OK(sink->Append(random.Bytes(9 << 20)));
  sink.reset();
  EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0);
}

// There is no memory to hold what is written from. Fails if the write is under way then, and takes
// what is somebody else's by that time; or if it cannot be tried again.
TEST_P(RemoteSinkTest, PostsNothingThatCannotBeHeld) {
  if (GetParam()) GTEST_SKIP() << "there nothing is posted";
  Random random(7);
  const std::string content = random.Bytes(1000);
  const RemoteSpan image = memory_.Allocate(content.size());
  std::unique_ptr<TableSink> sink;
  ASSERT_OK(RemoteSink::Open(image, &queue_pairs_, Purpose::kFlush, kTimeout, &sink));
  ASSERT_OK(sink->Append(content));
  {
    const port::FailingAllocations failing(1);
    EXPECT_THROW(sink->Finish().PermitUncheckedError(), std::bad_alloc);
  }
  EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0u);
  ASSERT_OK(sink->Finish());
  EXPECT_EQ(Slice(memory_.At(image), content.size()), Slice(content));
}

// Fails if images behind one that there is no memory to wait for are not waited for: their memory
// would be given to others while they are written.
TEST_P(RemoteSinkTest, AllImagesAreWaitedForWhereThereIsNoMemoryForOne) {
  if (GetParam()) GTEST_SKIP() << "there nothing is under way";
  ShortOfMemory way(&queue_pairs_);
  UnfinishedWrites writes(&way, kTimeout);
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<TableSink> sink;
    ASSERT_OK(RemoteSink::Open(memory_.Allocate(1000), &queue_pairs_, Purpose::kFlush, kTimeout,
                               &sink, &writes));
    ASSERT_OK(sink->Append(std::string(1000, 'x')));
    ASSERT_OK(sink->Finish());
  }
  EXPECT_GT(queue_pairs_.Mine()->outstanding(), 0u);
  way.FailNext();
  EXPECT_TRUE(writes.Wait().IsIOError());
  EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0u);
  EXPECT_OK(writes.Wait());
}

INSTANTIATE_TEST_SUITE_P(EveryWay, RemoteSinkTest, testing::Bool(),
                         [](const auto& shape) { return shape.param ? "Direct" : "Posted"; });

}  // namespace
}  // namespace dlsm
