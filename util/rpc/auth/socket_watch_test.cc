#include "util/rpc/auth/socket_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "util/eventually_testing.h"
#include "util/file_descriptor.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using Calls = SocketWatch::Calls;
using Outcome = SocketWatch::Source::Outcome;

// The near end of a connection, which reads a byte when it is told that there is one.
class End final : public SocketWatch::Source {
 public:
  End() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    near_ = FileDescriptor(ends[0]);
    far_ = FileDescriptor(ends[1]);
  }

  Outcome Ready() noexcept override {
    ++calls_;
    while (held_) std::this_thread::yield();
    char byte;
    const ssize_t bytes = ::read(near_.get(), &byte, 1);
    if (bytes > 0) ++bytes_;
    if (bytes == 0) ended_ = true;
    return bytes == 0                 ? Outcome::kEnded
           : more_ > 0 && more_-- > 0 ? Outcome::kMore
                                      : Outcome::kWait;
  }
  void Send() { EXPECT_EQ(::write(far_.get(), "x", 1), 1); }
  void Break() { far_ = FileDescriptor(); }

  int socket() const { return near_.get(); }
  int calls() const { return calls_; }
  int bytes() const { return bytes_; }
  bool ended() const { return ended_; }
  void Hold(bool held) { held_ = held; }
  void HaveMore(int times) { more_ = times; }

 private:
  FileDescriptor near_;
  FileDescriptor far_;
  std::atomic<int> calls_{0};
  std::atomic<int> bytes_{0};
  std::atomic<int> more_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> held_{false};
};

class SocketWatchTest : public testing::Test {
 protected:
  SocketWatchTest() { EXPECT_OK(SocketWatch::Start("test", &watch_)); }

  std::shared_ptr<SocketWatch> watch_;
};

// Fails if something that has come is not noticed, or the end of a connection that is idle.
TEST_F(SocketWatchTest, CallsWhoseSocketIsReadable) {
  End a;
  End b;
  uint64_t of_a;
  uint64_t of_b;
  ASSERT_OK(watch_->Add(a.socket(), Calls::kAlways, &a, &of_a));
  ASSERT_OK(watch_->Add(b.socket(), Calls::kAlways, &b, &of_b));
  for (int i = 1; i <= 10; ++i) {
    a.Send();
    ASSERT_TRUE(Eventually([&] { return a.bytes() == i; }));
  }
  EXPECT_EQ(b.calls(), 0);
  b.Break();
  EXPECT_TRUE(Eventually([&] { return b.ended(); }));
  a.Send();
  EXPECT_TRUE(Eventually([&] { return a.bytes() == 11; }));
  EXPECT_EQ(b.calls(), 1) << "never again";
  watch_->Remove(of_a);
  watch_->Remove(of_b);
}

// Fails if one that is called once is called twice, or not again when it has resumed.
TEST_F(SocketWatchTest, CallsOnceUntilItResumes) {
  End end;
  End other;
  uint64_t id;
  uint64_t of_other;
  ASSERT_OK(watch_->Add(end.socket(), Calls::kOnce, &end, &id));
  ASSERT_OK(watch_->Add(other.socket(), Calls::kAlways, &other, &of_other));
  end.Send();
  end.Send();
  end.Send();
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(Eventually([&] { return end.calls() == round; }));
    other.Send();
    ASSERT_TRUE(Eventually([&] { return other.bytes() == round; }));
    EXPECT_EQ(end.calls(), round);
    watch_->Resume(id);
  }
  watch_->Remove(id);
  watch_->Remove(of_other);
}

// Fails if what a source holds beside its socket is forgotten, or keeps others waiting.
TEST_F(SocketWatchTest, ComesBackForMore) {
  End end;
  End other;
  uint64_t id;
  uint64_t of_other;
  ASSERT_OK(watch_->Add(end.socket(), Calls::kAlways, &end, &id));
  ASSERT_OK(watch_->Add(other.socket(), Calls::kAlways, &other, &of_other));
  end.HaveMore(1'000'000'000);
  end.Send();
  ASSERT_TRUE(Eventually([&] { return end.calls() > 10; }));
  other.Send();
  EXPECT_TRUE(Eventually([&] { return other.bytes() == 1; }));
  end.HaveMore(0);
  watch_->Remove(id);
  watch_->Remove(of_other);
}

// Fails if a source is called while, or after, it is removed: it is gone then.
TEST_F(SocketWatchTest, RemovingWaitsForACall) {
  End end;
  uint64_t id;
  ASSERT_OK(watch_->Add(end.socket(), Calls::kAlways, &end, &id));
  end.Hold(true);
  end.Send();
  ASSERT_TRUE(Eventually([&] { return end.calls() == 1; }));
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    watch_->Remove(id);
    removed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_FALSE(removed);
  end.Hold(false);
  remover.join();
  end.Send();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(end.calls(), 1);
}

// Fails if clients do not share a thread.
TEST(SocketWatchOfClientsTest, IsShared) {
  std::shared_ptr<SocketWatch> one;
  std::shared_ptr<SocketWatch> two;
  ASSERT_OK(SocketWatch::OfClients(&one));
  ASSERT_OK(SocketWatch::OfClients(&two));
  EXPECT_EQ(one, two);
  const std::weak_ptr<SocketWatch> gone = one;
  one.reset();
  two.reset();
  EXPECT_TRUE(gone.expired());
}

}  // namespace
}  // namespace dlsm
