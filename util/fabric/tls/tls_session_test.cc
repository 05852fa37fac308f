#include "util/fabric/tls/tls_session.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>
#include <string>
#include <thread>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/tls/tls_context.h"
#include "util/file_descriptor.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if a receive goes on for as long as a peer has records to send, be they of bytes or of new
// keys, which fill no buffer: a thread that serves others as well would not come back to them. Or
// if what it has left is lost.
TEST(TlsSessionTest, AReceiveEndsThoughThereIsMore) {
  const std::string key(TlsContext::kKeyBytes, 'k');
  TlsConfig config;
  config.enabled = true;
  std::shared_ptr<const TlsContext> accepting;
  std::shared_ptr<const TlsContext> connecting;
  ASSERT_OK(TlsContext::ForServer(
      config, [key](const std::string& /*identity*/) { return key; }, &accepting));
  ASSERT_OK(TlsContext::ForClient(config, "tester", key, &connecting));
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const int socket_bytes = 1 << 20;  // The kernel gives what it gives anybody.
  ASSERT_EQ(::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &socket_bytes, sizeof(socket_bytes)), 0);
  TcpStream client(FileDescriptor{ends[0]});
  TcpStream node(FileDescriptor{ends[1]});
  std::thread memory_node([&] { EXPECT_OK(accepting->Accept(node, Soon())); });
  const Status connected = connecting->Connect(client, "localhost", "localhost:1", Soon());
  memory_node.join();
  ASSERT_OK(connected);

  const std::string sent(TlsSession::kInputBytesMax + (size_t{64} << 10), 'b');
  ASSERT_OK(SendWhole("the memory node", client, sent, Soon()));
  std::string got(sent.size(), '\0');
  size_t filled = 0;
  int calls = 0;
  for (; filled < sent.size() && calls < 100; ++calls) {
    iovec part{got.data() + filled, got.size() - filled};
    size_t moved = 0;
    const SocketOutcome outcome = node.Receive(&part, 1, &moved);
    ASSERT_TRUE(outcome == SocketOutcome::kMoved || outcome == SocketOutcome::kBlocked);
    EXPECT_LE(moved, TlsSession::kInputBytesMax);
    filled += moved;
    int left = 0;
    ASSERT_EQ(::ioctl(node.get(), FIONREAD, &left), 0);
    // Who waits is told of the rest.
    EXPECT_TRUE(filled == sent.size() || left > 0 || node.holds_input());
  }
  EXPECT_GT(calls, 1);
  EXPECT_TRUE(got == sent);
}

}  // namespace
}  // namespace dlsm
