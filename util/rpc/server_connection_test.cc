// What a memory node keeps for a connection, with the client's end in the test's hands.
#include "util/rpc/server_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "util/deadline.h"
#include "util/file_descriptor.h"
#include "util/rpc/auth/control_stream.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/frame_seal.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/channel/rpc.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;

constexpr size_t kReplyBytes = size_t{1} << 20;

// Answers everything at once, and at length.
class LongAnswers final : public RpcHandler {
 public:
  void Handle(const RpcPeer& /*peer*/, Method /*method*/, const Slice& /*request*/,
              RpcDone done) override {
    done(Status::OK(), std::string(kReplyBytes, 'x'));
    ++answered_;
  }
  void Disconnected(const RpcPeer& /*peer*/) override {}

  size_t answered() const { return answered_; }

 private:
  std::atomic<size_t> answered_{0};
};

// A client that always waits for several replies, and takes them. Fails if those that it has taken
// are kept as long as there are others: the memory node would grow for as long as it goes on.
TEST(ServerConnectionTest, RepliesThatWereTakenAreNotKept) {
  constexpr size_t kUnderWay = 8;
  constexpr size_t kRounds = 120;
  constexpr size_t kKeptMax = size_t{64} << 20;
  static_assert(kRounds * kReplyBytes > kKeptMax && 4 * (kUnderWay + 1) * kReplyBytes < kKeptMax);
  const FrameKeys keys{std::string(32, 'c'), std::string(32, 'm')};
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const auto connection =
      std::make_shared<ServerConnection>(TcpStream(FileDescriptor(ends[0])), seconds(60));
  ControlStream client;
  client.stream = TcpStream(FileDescriptor(ends[1]));
  ASSERT_OK(client.seals.MakeForClient(keys));
  LongAnswers handler;
  Status ended;
  ASSERT_OK(connection->Begin(keys, {}));
  std::thread server([&] {
    ended = connection->Serve(RpcPeer{}, &handler, {}, /*patience=*/seconds(3600));
    connection->End();
  });

  const Deadline soon = Deadline::In(seconds(60));
  // Until it is answered: so the replies are never all sent before one more has been made.
  size_t asked = 0;
  const auto ask = [&] {
    std::string frame;
    EXPECT_OK(
        MakeFrame(FrameType::kRequest, Method::kPutManifest, Status::Code::kOk, 1, "", &frame));
    EXPECT_OK(client.seals.sent->Append(&frame));
    EXPECT_OK(SendAll(client.stream, frame, soon));
    ++asked;
    while (handler.answered() < asked && !soon.Passed()) std::this_thread::yield();
  };
  for (size_t i = 0; i < kUnderWay; ++i) ask();
  std::string reply(kFrameHeaderBytes + kReplyBytes + FrameSeal::kBytes, '\0');
  for (size_t round = 0; round < kRounds && !soon.Passed(); ++round) {
    EXPECT_OK(ReceiveAll(client.stream, reply.data(), reply.size(), soon));
    ask();
  }
  EXPECT_EQ(handler.answered(), kUnderWay + kRounds);
  EXPECT_LT(connection->output_memory(), kKeptMax);
  connection->Stop();
  server.join();
  EXPECT_TRUE(ended.IsIOError()) << ended.ToString();
}

}  // namespace
}  // namespace dlsm
