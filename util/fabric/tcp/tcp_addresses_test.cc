#include "util/fabric/tcp/tcp_addresses.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "util/child_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A port of 127.0.0.1.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(::listen(socket_.get(), /*backlog=*/0), 0);
    address_.bytes = sizeof(address_.storage);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_.storage),
                            &address_.bytes),
              0);
  }

  const TcpAddresses::Address& address() const { return address_; }

  // From now on it is silent: its queue is full, and the kernel drops who asks for more.
  void FillQueue() {
    for (int i = 0; i < 8; ++i) {
      FileDescriptor waiting;
      ConnectFailure failure{};
      const Status status =
          TcpAddresses({address_}).Connect(Deadline::In(milliseconds(200)), &waiting, &failure);
      if (status.IsTimedOut()) return;
      ASSERT_OK(status);
      waiting_.push_back(std::move(waiting));
    }
    FAIL() << "this kernel takes more connections than the queue has room for";
  }
  void Close() { socket_.Close(); }

 private:
  FileDescriptor socket_;
  TcpAddresses::Address address_;
  std::vector<FileDescriptor> waiting_;
};

class TcpAddressesTest : public testing::Test {
 protected:
  Listener first_;
  Listener second_;
  TcpAddresses both_{{first_.address(), second_.address()}};
  FileDescriptor socket_;
  ConnectFailure failure_{};

  bool ReachedSecond() const {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return false;
    return std::memcmp(&peer, &second_.address().storage, second_.address().bytes) == 0;
  }
};

TEST_F(TcpAddressesTest, ASilentAddressLeavesTimeForTheNext) {
  ASSERT_NO_FATAL_FAILURE(first_.FillQueue());
  const auto start = Deadline::Clock::now();
  ASSERT_OK(both_.Connect(Deadline::In(seconds(4)), &socket_, &failure_));
  EXPECT_LT(Deadline::Clock::now() - start, milliseconds(3500));
  EXPECT_TRUE(ReachedSecond());
  EXPECT_NE(::fcntl(socket_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(TcpAddressesTest, WhereNobodyListensTheNextIsTried) {
  first_.Close();
  ASSERT_OK(both_.Connect(Deadline::In(seconds(10)), &socket_, &failure_));
  EXPECT_TRUE(ReachedSecond());
}

TEST_F(TcpAddressesTest, TellsThatNobodyListens) {
  first_.Close();
  second_.Close();
  const Status status = both_.Connect(Deadline::In(seconds(10)), &socket_, &failure_);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_EQ(failure_, ConnectFailure::kRefused);
}

TEST_F(TcpAddressesTest, TellsThatNobodyAnswers) {
  ASSERT_NO_FATAL_FAILURE(first_.FillQueue());
  ASSERT_NO_FATAL_FAILURE(second_.FillQueue());
  const auto start = Deadline::Clock::now();
  const Status status = both_.Connect(Deadline::In(milliseconds(400)), &socket_, &failure_);
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_EQ(failure_, ConnectFailure::kOther);
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(400));
}

// Fails if a process without descriptors blames the other side, or does not say what it lacks.
TEST_F(TcpAddressesTest, TellsThatThisProcessHasNoDescriptor) {
  if (!kWorksWithoutDescriptors) GTEST_SKIP() << "UBSan needs a descriptor now and then";
  InChild([this] {
    const rlimit none{0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Status status = both_.Connect(Deadline::In(seconds(4)), &socket_, &failure_);
    EXPECT_TRUE(status.IsIOError());
    EXPECT_EQ(failure_, ConnectFailure::kOwnLimit);
    EXPECT_NE(status.ToString().find("this process has no descriptor left"), std::string::npos);
    EXPECT_NE(status.ToString().find("ulimit -n"), std::string::npos);
  });
}

TEST_F(TcpAddressesTest, ResolvesNamesAndRefusesWhatIsNone) {
  TcpAddresses resolved;
  ASSERT_OK(TcpAddresses::Resolve("localhost", 1, &resolved));
  EXPECT_FALSE(resolved.all().empty());
  EXPECT_TRUE(TcpAddresses::Resolve("no host has such a name", 1, &resolved).IsIOError());
  EXPECT_TRUE(TcpAddresses::ResolveNumeric("localhost", 1, &resolved).IsIOError());
  ASSERT_OK(TcpAddresses::ResolveNumeric("127.0.0.1", 1, &resolved));
  EXPECT_EQ(resolved.all().size(), 1U);
}

}  // namespace
}  // namespace dlsm
