// Reads of many threads over one connection: each gets its own bytes, and after a failure or a
// deadline nothing is written to its memory; whether the readers sleep, or serve the connection.
#include "util/fabric/tcp/tcp_shared_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "port/sync_point.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/known_bytes_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// The other end of the connection, as the test plays it.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket) {}

  TcpRequest Receive() {
    char bytes[TcpRequest::kBytes];
    EXPECT_EQ(::recv(socket_.get(), bytes, sizeof(bytes), MSG_WAITALL), ssize_t{sizeof(bytes)});
    TcpRequest request;
    EXPECT_EQ(request.Decode(bytes), TcpCode::kOk);
    return request;
  }
  static std::string ReplyTo(const TcpRequest& request, TcpCode code = TcpCode::kOk) {
    TcpReply::Encoded header;
    TcpReply{TcpOpcode::kRead, code, request.sequence, request.operand}.Encode(header.data());
    std::string reply(header.data(), header.size());
    if (code == TcpCode::kOk) reply += BytesAt(request.offset, request.operand);
    return reply;
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void Answer() { Send(ReplyTo(Receive())); }
  void Close() { socket_.Close(); }

 private:
  FileDescriptor socket_;
};

class TcpSharedReadsTest : public testing::TestWithParam<uint32_t> {
 protected:
  // How many turns each reader takes.
  static uint32_t Turns() { return GetParam(); }

  TcpSharedReadsTest() { Begin(polls_); }

  // With another connection.
  void Begin(PollGroup& polls) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    auto to = std::make_shared<TcpPeer>();
    to->name = "memory node 7";
    EXPECT_OK(
        TcpSharedReads::Start(TcpStream(FileDescriptor(ends[0])), to, polls, gauges_, &shared_));
    peer_ = std::make_unique<Peer>(ends[1]);
  }

  Status Read(uint64_t offset, std::string* to, Deadline deadline = Soon()) {
    const TcpSharedReads::Read read{kTestRegion, offset, LocalSpan{to->data(), to->size()}};
    return Run({&read, 1}, deadline);
  }
  Status Run(std::span<const TcpSharedReads::Read> reads, Deadline deadline) {
    PollGroup group(seconds(60), UINT32_MAX);
    AdaptivePoll turns(group);
    turns.Begin();
    turns.LookAtMost(Turns());
    Status status = shared_->Run(reads, deadline, turns);
    turns.End();
    return status;
  }
  // By another thread.
  std::thread ReadAside(uint64_t offset, std::string* to, Status* status) {
    return std::thread([=, this] { *status = Read(offset, to); });
  }

  PollGroup polls_{kTestPoll, 2};
  PollGroup long_polls_{seconds(30), 2};
  TcpSharedReads::Gauges gauges_;
  std::unique_ptr<Peer> peer_;
  std::shared_ptr<TcpSharedReads> shared_;
};

// Fails if bytes go to the wrong read where replies arrive in pieces of any size.
TEST_P(TcpSharedReadsTest, RepliesInPiecesAreWhole) {
  Random random(301);
  for (int round = 0; round < 30; ++round) {
    const uint64_t first = random.Uniform(1000);
    std::vector<std::string> got(1 + random.Uniform(5));
    std::vector<TcpSharedReads::Read> reads;
    for (size_t i = 0; i < got.size(); ++i) {
      got[i].resize(random.Uniform(300));  // Of nothing, too.
      reads.push_back({kTestRegion, first + i, LocalSpan{got[i].data(), got[i].size()}});
    }
    Status status;
    std::thread reader([&] { status = Run(reads, Soon()); });
    std::string replies;
    for (size_t i = 0; i < got.size(); ++i) replies += Peer::ReplyTo(peer_->Receive());
    while (!replies.empty()) {
      const size_t piece = 1 + random.Uniform(std::min<uint64_t>(replies.size(), 100));
      peer_->Send(replies.substr(0, piece));
      replies.erase(0, piece);
      if (random.Uniform(8) == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    reader.join();
    ASSERT_OK(status);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], BytesAt(first + i, got[i].size()));
  }
}

// Fails if a reply is written to memory whose reader has gone, or is taken for the next one's.
TEST_P(TcpSharedReadsTest, ALateReplyIsWrittenNowhere) {
  std::string late(100, 'x');
  EXPECT_TRUE(Read(10, &late, Deadline::In(milliseconds(30))).IsTimedOut());
  EXPECT_FALSE(shared_->closed());
  std::string next(100, 'x');
  Status status;
  std::thread reader = ReadAside(500, &next, &status);
  const std::string to_late = Peer::ReplyTo(peer_->Receive());
  peer_->Send(to_late.substr(0, 50));
  peer_->Send(to_late.substr(50));
  peer_->Answer();
  reader.join();
  EXPECT_OK(status);
  EXPECT_EQ(next, BytesAt(500, 100));
  EXPECT_EQ(late, std::string(100, 'x'));
}

// Fails if the deadline of one ends the wait of another, or waits for it.
TEST_P(TcpSharedReadsTest, EachHasADeadlineOfItsOwn) {
  std::string patient(10, 'x');
  Status status;
  std::thread reader = ReadAside(70, &patient, &status);
  const TcpRequest request = peer_->Receive();
  for (int i = 0; i < 3; ++i) {
    std::string hasty(10, 'x');
    EXPECT_TRUE(Read(80, &hasty, Deadline::In(milliseconds(20))).IsTimedOut());
    EXPECT_EQ(peer_->Receive().offset, 80u);
  }
  peer_->Send(Peer::ReplyTo(request));
  reader.join();
  EXPECT_OK(status);
  EXPECT_EQ(patient, BytesAt(70, 10));
}

// Two calls that mostly go together. Fails if the one whose deadline has passed, or whose answer is
// there, sleeps until the other one is done, too.
TEST_P(TcpSharedReadsTest, NobodySleepsForTheOthersOfItsFlight) {
  for (int round = 0; round < 20; ++round) {
    const bool answered = round % 2 == 0;
    SCOPED_TRACE(answered);
    std::string got[2] = {std::string(10, 'x'), std::string(10, 'x')};
    Status status[2];
    std::atomic<int> started{0};
    std::atomic<bool> ended[2] = {false, false};
    const auto start = [&](size_t i, Deadline deadline) {
      return std::thread([&, i, deadline] {
        for (++started; started < 2;) std::this_thread::yield();
        status[i] = Read(100 + i, &got[i], deadline);
        ended[i] = true;
      });
    };
    std::thread first = start(0, answered ? Soon() : Deadline::In(milliseconds(20)));
    std::thread second = start(1, Deadline::In(seconds(10)));
    TcpRequest requests[2] = {peer_->Receive(), peer_->Receive()};
    const bool swapped = requests[0].offset != 100;
    // Replies come in order.
    if (answered && !swapped) peer_->Send(Peer::ReplyTo(requests[0]));
    if (!answered || !swapped) {
      first.join();
      EXPECT_FALSE(ended[1]);
      EXPECT_EQ(status[0].IsTimedOut(), !answered) << status[0].ToString();
    }
    if (!answered || swapped) peer_->Send(Peer::ReplyTo(requests[0]));
    peer_->Send(Peer::ReplyTo(requests[1]));
    if (first.joinable()) first.join();
    second.join();
    EXPECT_OK(status[1]);
    EXPECT_TRUE(status[0].ok() || !answered) << status[0].ToString();
  }
}

// One whose deadline is near and one who is patient sleep, a third one takes turns, and the
// connection's own thread is long on its way to sleep. Fails if the first one is let go of by the
// third, and sleeps on with the second.
TEST_P(TcpSharedReadsTest, ALateCallHearsOfItWhoeverLetsGoOfIt) {
  if (Turns() > 0) GTEST_SKIP() << "two of the readers sleep anyway";
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (std::strcmp(place, "shared reads: to sleep") == 0) {
      std::this_thread::sleep_for(milliseconds(30));
    }
  };
  for (int round = 0; round < 10; ++round) {
    Begin(polls_);
    std::string got[3] = {std::string(10, 'x'), std::string(10, 'x'), std::string(10, 'x')};
    Status statuses[3];
    std::thread patient([&] { statuses[0] = Read(0, &got[0]); });
    std::thread active([&] {
      const TcpSharedReads::Read read{kTestRegion, 0, LocalSpan{got[1].data(), 10}};
      PollGroup group(seconds(60), UINT32_MAX);
      AdaptivePoll turns(group);
      turns.Begin();
      statuses[1] = shared_->Run({&read, 1}, Soon(), turns);
      turns.End();
    });
    const auto before = Deadline::Clock::now();
    statuses[2] = Read(0, &got[2], Deadline::In(milliseconds(40 + 5 * round)));
    EXPECT_TRUE(statuses[2].IsTimedOut());
    EXPECT_LT(Deadline::Clock::now() - before, seconds(20));
    peer_->Close();
    patient.join();
    active.join();
    EXPECT_TRUE(statuses[0].IsIOError() && statuses[1].IsIOError());
  }
  port::SyncPointHookOfProcess() = nullptr;
}

// A reader finds a wrong reply after the connection's own thread has looked for the last time, so
// that nothing is left on the socket to wake it. Fails if the reader does not.
TEST_P(TcpSharedReadsTest, WhoFindsTheEndWakesTheThread) {
  if (Turns() < 1000) GTEST_SKIP() << "the reader is to be there all the time";
  static std::atomic<bool> sleeps;
  sleeps = false;
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (std::strcmp(place, "shared reads: sleeps") != 0 || sleeps.exchange(true)) return;
    std::this_thread::sleep_for(milliseconds(100));
  };
  std::string got(10, 'x');
  Status status;
  const auto before = Deadline::Clock::now();
  std::thread reader([&] {
    PollGroup group(seconds(60), UINT32_MAX);
    AdaptivePoll turns(group);
    turns.Begin();
    const TcpSharedReads::Read read{kTestRegion, 3, LocalSpan{got.data(), got.size()}};
    status = shared_->Run({&read, 1}, Deadline::In(seconds(30)), turns);
    turns.End();
  });
  peer_->Receive();
  while (!sleeps) std::this_thread::yield();
  peer_->Send(std::string(20, 'z'));
  reader.join();
  EXPECT_THAT(status.ToString(), HasSubstr("malformed reply"));
  EXPECT_LT(Deadline::Clock::now() - before, seconds(20));
  port::SyncPointHookOfProcess() = nullptr;
}

// Fails if a memory node that has gone silent is asked again and again over the same connection.
TEST_P(TcpSharedReadsTest, LongSilenceEndsTheConnection) {
  std::string got(10, 'x');
  EXPECT_TRUE(Read(1, &got, Deadline::In(milliseconds(1200))).IsTimedOut());
  for (int i = 0; i < 6000 && !shared_->closed(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(shared_->closed());
}

// Fails if deadlines are looked at only before the serving thread sleeps.
TEST_P(TcpSharedReadsTest, ADeadlineEndsPolling) {
  Begin(long_polls_);
  for (int i = 0; i < 3; ++i) {
    std::string got(10, 'x');
    const auto before = Deadline::Clock::now();
    EXPECT_TRUE(Read(1, &got, Deadline::In(milliseconds(20))).IsTimedOut());
    EXPECT_LT(Deadline::Clock::now() - before, seconds(10));
  }
}

// A deadline that is put off while half of a call's replies have come.
TEST_P(TcpSharedReadsTest, ADeadlineMayBePutOff) {
  std::atomic<Deadline::Clock::time_point> until{Deadline::Clock::now() + seconds(60)};
  std::vector<std::string> got(2, std::string(10, 'x'));
  const TcpSharedReads::Read reads[] = {{kTestRegion, 1, LocalSpan{got[0].data(), 10}},
                                        {kTestRegion, 2, LocalSpan{got[1].data(), 10}}};
  Status status;
  std::thread reader([&] {
    status = Run(reads, Deadline::Extendable(Deadline::Clock::now() + milliseconds(10), &until));
  });
  peer_->Answer();
  std::this_thread::sleep_for(milliseconds(50));
  peer_->Answer();
  reader.join();
  EXPECT_OK(status);
  EXPECT_EQ(got[1], BytesAt(2, 10));
}

// Fails if somebody who waits is forgotten when the connection ends, or one who comes later waits.
TEST_P(TcpSharedReadsTest, AllFailWithTheConnection) {
  std::vector<std::string> got(5, std::string(10, 'x'));
  std::vector<Status> statuses(5);
  std::vector<std::thread> readers;
  for (size_t i = 0; i < 5; ++i) readers.push_back(ReadAside(i, &got[i], &statuses[i]));
  for (size_t i = 0; i < 5; ++i) peer_->Receive();
  peer_->Close();
  for (std::thread& reader : readers) reader.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_TRUE(shared_->closed());
  std::string later(10, 'x');
  EXPECT_TRUE(Read(0, &later).IsIOError());
}

// A read that there is no memory to take over. Fails if that ends the process, if a reader waits
// for ever, or if anybody's memory is written to afterwards.
TEST_P(TcpSharedReadsTest, ACallWithoutMemoryEndsTheConnection) {
  std::string under_way(10, '\0');
  std::string refused(10, '\0');
  Status failed;
  std::thread reader = ReadAside(5, &under_way, &failed);
  peer_->Receive();
  {
    const port::FailingAllocationsAt failing("shared reads");
    const Status status = Read(50, &refused);
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("memory"));
    reader.join();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_EQ(under_way, std::string(10, '\0'));
  EXPECT_EQ(refused, std::string(10, '\0'));
  EXPECT_TRUE(Read(50, &refused).IsIOError());
}

TEST_P(TcpSharedReadsTest, WrongRepliesEndTheConnection) {
  const auto refused_with = [&](const std::string& why, auto&& damage) {
    SCOPED_TRACE(why);
    Begin(polls_);
    std::string got(10, 'x');
    Status status;
    std::thread reader = ReadAside(3, &got, &status);
    peer_->Send(damage(peer_->Receive()));
    reader.join();
    EXPECT_THAT(status.ToString(), HasSubstr(why));
    EXPECT_TRUE(shared_->closed());
    EXPECT_EQ(got, std::string(10, 'x'));
  };
  refused_with("malformed reply", [](const TcpRequest&) { return std::string(20, 'z'); });
  refused_with("malformed reply", [](TcpRequest request) {
    ++request.sequence;
    return Peer::ReplyTo(request);
  });
  refused_with("another request", [](TcpRequest request) {
    ++request.operand;
    return Peer::ReplyTo(request);
  });
  refused_with("not inside one of its regions", [](const TcpRequest& request) {
    return Peer::ReplyTo(request, TcpCode::kOutOfBounds);
  });
  refused_with("access list", [](const TcpRequest& request) {
    return Peer::ReplyTo(request, TcpCode::kForbidden);
  });
}

TEST_P(TcpSharedReadsTest, MoreThanWasAskedForEndsTheConnection) {
  std::string got(10, 'x');
  Status status;
  std::thread reader = ReadAside(3, &got, &status);
  const std::string reply = Peer::ReplyTo(peer_->Receive());
  peer_->Send(reply + reply);
  reader.join();
  EXPECT_OK(status);
  for (int i = 0; i < 6000 && !shared_->closed(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_THAT(Read(3, &got).ToString(), HasSubstr("more on a data connection than was asked"));
}

// Under ThreadSanitizer: fails also if two threads touch what is one's. Hangs if a wake-up is lost.
TEST_P(TcpSharedReadsTest, ManyThreadsReadAndGiveUp) {
  constexpr int kThreads = 8;
  constexpr uint64_t kLast = 1 << 21;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> readers;
  for (int id = 0; id < kThreads; ++id) {
    readers.emplace_back([&, id] {
      Random random(17 + static_cast<uint64_t>(id));
      for (uint64_t i = 0; i < Rounds(400); ++i) {
        std::string got(1 + random.Uniform(500), 'x');
        const uint64_t offset = random.Uniform(1 << 20);
        const bool hasty = random.Uniform(10) == 0;
        const Status status =
            Read(offset, &got,
                 hasty ? Deadline::In(std::chrono::microseconds(random.Uniform(200))) : Soon());
        if (hasty && status.IsTimedOut()) continue;
        ASSERT_OK(status);
        ASSERT_EQ(got, BytesAt(offset, got.size()));
      }
      // The peer sees the end by one more request.
      if (--running == 0) {
        std::string last(1, 'x');
        ASSERT_OK(Read(kLast, &last));
      }
    });
  }
  Random random(3);
  for (uint64_t offset = 0; offset != kLast;) {
    const TcpRequest request = peer_->Receive();
    if (random.Uniform(100) == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    peer_->Send(Peer::ReplyTo(request));
    offset = request.offset;
  }
  for (std::thread& reader : readers) reader.join();
}

// Fails if what is known from outside is not what has happened.
TEST_P(TcpSharedReadsTest, GaugesTellOfSleepersAndCrowds) {
  constexpr uint64_t kReaders = 6;
  std::vector<std::string> got(kReaders, std::string(10, 'x'));
  std::vector<Status> statuses(kReaders);
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kReaders; ++i) readers.push_back(ReadAside(i, &got[i], &statuses[i]));
  std::vector<TcpRequest> requests;
  for (size_t i = 0; i < kReaders; ++i) requests.push_back(peer_->Receive());
  std::string replies;
  for (const TcpRequest& request : requests) replies += Peer::ReplyTo(request);
  const Deadline deadline = Soon();
  peer_->Send(replies);
  while (gauges_.crowd < kReaders / 2 && !deadline.Passed()) std::this_thread::yield();
  EXPECT_GE(gauges_.crowd, kReaders / 2);
  for (std::thread& reader : readers) reader.join();
  for (const Status& status : statuses) EXPECT_OK(status);
  // To be there by itself, so that what was counted of those before is told.
  std::string last(10, 'x');
  std::thread reader = ReadAside(7, &last, &statuses[0]);
  peer_->Answer();
  reader.join();
  EXPECT_GE(gauges_.polled + gauges_.slept, kReaders);
  // One reader alone is not a crowd for long.
  for (int i = 0; i < 50; ++i) {
    reader = ReadAside(8, &last, &statuses[0]);
    peer_->Answer();
    reader.join();
  }
  EXPECT_LE(gauges_.crowd, 1u);
}

// Fails if a crowd that has gone counts on: with another connection's it keeps together whoever is
// left, though that be one thread.
TEST_P(TcpSharedReadsTest, ACrowdThatHasGoneIsForgotten) {
  std::vector<std::string> got(4, std::string(10, 'x'));
  std::vector<Status> statuses(got.size());
  std::vector<std::thread> readers;
  for (size_t i = 0; i < got.size(); ++i) readers.push_back(ReadAside(i, &got[i], &statuses[i]));
  std::string replies;
  for (size_t i = 0; i < got.size(); ++i) replies += Peer::ReplyTo(peer_->Receive());
  const Deadline deadline = Deadline::In(seconds(20));  // Before any of theirs.
  peer_->Send(replies);
  while (gauges_.crowd == 0 && !deadline.Passed()) std::this_thread::yield();
  EXPECT_GT(gauges_.crowd, 0u);
  for (std::thread& reader : readers) reader.join();
  for (const Status& status : statuses) EXPECT_OK(status);
  while (gauges_.crowd > 0 && !deadline.Passed()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(gauges_.crowd, 0u);
}

INSTANTIATE_TEST_SUITE_P(Turns, TcpSharedReadsTest, testing::Values(0, 3, 100'000),
                         [](const auto& turns) { return "Of" + std::to_string(turns.param); });

}  // namespace
}  // namespace dlsm
