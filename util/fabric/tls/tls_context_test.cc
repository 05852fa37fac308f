#include "util/fabric/tls/tls_context.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <new>
#include <string>
#include <thread>

#include "util/fabric/factory/fabric_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if an exception passes through OpenSSL, whose work stays half done then, or if a client is
// let in whose key is not known.
TEST(TlsContextTest, AClientForWhoseKeyThereIsNoMemoryIsRefused) {
  const auto out_of_memory = [](const std::string& /*identity*/) -> std::string {
    throw std::bad_alloc();
  };
  TlsConfig config;
  config.enabled = true;
  std::shared_ptr<const TlsContext> accepting;
  std::shared_ptr<const TlsContext> connecting;
  ASSERT_OK(TlsContext::ForServer(config, out_of_memory, &accepting));
  ASSERT_OK(TlsContext::ForClient(config, "tester", std::string(TlsContext::kKeyBytes, 'k'),
                                  &connecting));
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  TcpStream client(FileDescriptor{ends[0]});
  TcpStream node(FileDescriptor{ends[1]});
  Status refused;
  std::thread memory_node([&] {
    EXPECT_NO_THROW(refused = accepting->Accept(node, Soon()));
    node.Close();
  });
  const Status status = connecting->Connect(client, "localhost", "localhost:1", Soon());
  memory_node.join();
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
}

}  // namespace
}  // namespace dlsm
