// How much of a large transfer a memory node moves before others have their turn.
#include "util/fabric/tcp/tcp_server_connection.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "util/deadline.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/region_table.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_frame_testing.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/file_descriptor.h"
#include "util/message_order.h"

namespace dlsm {
namespace {

// One connection, whose socket takes and gives more than a piece at once.
class TcpServerConnectionTest : public testing::Test {
 protected:
  static constexpr size_t kPieceBytes = size_t{128} << 10;

  TcpServerConnectionTest() {
    regions_.Add(MappedRegion{kTestRegion, memory_.data(), memory_.size()});
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_ = FileDescriptor(ends[0]);
    for (const int end : ends) {
      const int bytes = 1 << 20;  // The kernel gives what it gives anybody.
      EXPECT_EQ(::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    }
    connection_ =
        std::make_unique<TcpServerConnection>(TcpStream(FileDescriptor(ends[1])), "token",
                                              /*reach=*/nullptr, regions_, &order_, kPieceBytes);
  }

  // A turn whose time is over as soon as it begins.
  void ServeOnce() { EXPECT_TRUE(connection_->Serve(scratch_, Deadline::Clock::now())); }
  int WaitingForClient() const {
    int bytes = -1;
    EXPECT_EQ(::ioctl(client_.get(), FIONREAD, &bytes), 0);
    return bytes;
  }

  std::string memory_ = std::string(size_t{1} << 20, '\0');
  RegionTable regions_;
  MessageOrder order_;
  FileDescriptor client_;
  std::unique_ptr<TcpServerConnection> connection_;
  TcpServerConnection::Scratch scratch_{};
};

// Fails if all of a write is received that has come: under TLS as much comes while it is decrypted,
// and so others of the thread wait for as many bytes as their neighbour likes to write.
TEST_F(TcpServerConnectionTest, ALargeWriteIsReceivedByPieces) {
  // What comes together with the request goes through the scratch.
  constexpr size_t kFirst = TcpServerConnection::kScratchBytes - TcpRequest::kBytes;
  constexpr size_t kAll = kFirst + kPieceBytes + (size_t{32} << 10);
  const std::string bytes(kAll, 'w');
  const std::string sent =
      Encoded(TcpRequest{TcpOpcode::kWrite, 1, kTestRegion, 0, kAll, 0}) + bytes;
  ASSERT_EQ(::send(client_.get(), sent.data(), sent.size(), MSG_DONTWAIT),
            static_cast<ssize_t>(sent.size()));
  ServeOnce();
  EXPECT_EQ(memory_.find('\0'), kFirst);
  ServeOnce();
  EXPECT_EQ(memory_.find('\0'), kFirst + kPieceBytes);
  EXPECT_EQ(WaitingForClient(), 0);
  ServeOnce();
  EXPECT_EQ(memory_.substr(0, kAll + 1), bytes + '\0');
  EXPECT_EQ(ReceiveUpTo(client_.get(), TcpReply::kBytes),
            Encoded(TcpReply{TcpOpcode::kWrite, TcpCode::kOk, 1, kAll}));
}

// Fails if all of what was asked for is sent that the client takes, for as long as it takes more.
TEST_F(TcpServerConnectionTest, ALargeReadIsSentByPieces) {
  for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<char>('a' + i % 26);
  SendAll(client_.get(),
          Encoded(TcpRequest{TcpOpcode::kRead, 1, kTestRegion, 0, memory_.size(), 0}));
  ServeOnce();
  EXPECT_EQ(WaitingForClient(), static_cast<int>(kPieceBytes));
  const std::string expected =
      Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 1, memory_.size()}) + memory_;
  std::string got;
  while (connection_->wants_to_send()) {
    got += ReceiveUpTo(client_.get(), static_cast<size_t>(WaitingForClient()));
    ServeOnce();
  }
  got += ReceiveUpTo(client_.get(), static_cast<size_t>(WaitingForClient()));
  EXPECT_EQ(got.size(), expected.size());
  EXPECT_TRUE(got == expected);
}

}  // namespace
}  // namespace dlsm
