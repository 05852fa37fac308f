// A memory node and its clients over TLS: who is let in, what they are told who are not, and that
// data arrives whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <string>

#include "memory_node/memory_node_testing.h"
#include "memory_node/tls_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr const char* kSecret = "the secret of this cluster";

class NodeTlsTest : public testing::Test {
 protected:
  NodeTlsTest() {
    certificates_.Make("ca", "", "");
    certificates_.Make("server", "ca", "IP:127.0.0.1");
    certificates_.Make("client", "ca", "");
    options_.secret = kSecret;
    options_.fabric = FabricKind::kTcp;
    client_.enabled = true;
  }

  // The memory node is known by "NAME", clients by nothing but the secret.
  void ShowCertificate(const std::string& name) {
    options_.tls.certificate_file = certificates_.Certificate(name);
    options_.tls.key_file = certificates_.Key(name);
  }

  Status Connect(const TestServer& server, std::unique_ptr<NodeConnection>* connection,
                 const std::string& secret = kSecret, const std::string& access_name = {}) {
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    options.client_name = "tester";
    options.credentials = Credentials(secret);
    options.credentials.access_name = access_name;
    const Status status = UseTls(client_, &options.credentials);
    return status.ok() ? ConnectNode(server.address(), options, TestDeadline(), connection)
                       : status;
  }

  Status StartServer() {
    std::unique_ptr<NodeServer> server;
    NodeServerOptions options = TestServer::SmallOptions();
    options.secret = options_.secret;
    options.tls = options_.tls;
    return NodeServer::Start(options, &server);
  }

  void ExpectRefused(const TestServer& server, const char* why) {
    std::unique_ptr<NodeConnection> connection;
    const Status status = Connect(server, &connection);
    EXPECT_TRUE(status.IsInvalidArgument() || status.IsIOError()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr(why));
  }

  // Calls and transfers of all sizes arrive whole, both ways.
  static void ExpectWorks(NodeConnection& connection) {
    TestClient client(&connection.rpc());
    ASSERT_OK(client.Open("a"));
    constexpr size_t kBytes = size_t{8} << 20;
    const RemoteSpan extent = client.Grant(kBytes);
    std::unique_ptr<QueuePair> pair;
    ASSERT_OK(connection.fabric().NewQueuePair(TestDeadline(), &pair));
    RegisteredBuffer from;
    RegisteredBuffer to;
    ASSERT_OK(connection.fabric().NewBuffer(kBytes, &from));
    ASSERT_OK(connection.fabric().NewBuffer(kBytes, &to));
    Random random(7);
    std::memcpy(from.data(), random.Bytes(kBytes).data(), kBytes);
    Ticket ticket{};
    for (const size_t bytes : {size_t{1}, size_t{400}, size_t{16} << 10, kBytes}) {
      const RemoteSpan span = extent.Sub(0, bytes);
      ASSERT_OK(pair->PostWrite(from.span().Sub(0, bytes), span, Purpose::kFlush, &ticket));
      ASSERT_OK(pair->Wait(ticket, TestDeadline()));
      std::memset(to.data(), 0, kBytes);
      ASSERT_OK(pair->PostRead(span, to.span().Sub(0, bytes), Purpose::kRead, &ticket));
      ASSERT_OK(pair->Wait(ticket, TestDeadline()));
      ASSERT_EQ(std::memcmp(from.data(), to.data(), bytes), 0) << bytes;
    }
    // Many small ones behind one doorbell: more than one record, cut anywhere.
    std::memset(to.data(), 0, kBytes);
    for (size_t i = 0; i < 2000; ++i) {
      const size_t at = i * 1000;
      ASSERT_OK(
          pair->PostRead(extent.Sub(at, 700), to.span().Sub(at, 700), Purpose::kRead, &ticket));
    }
    ASSERT_OK(pair->Wait(ticket, TestDeadline()));
    for (size_t at = 0; at < 2000 * 1000; at += 1000) {
      ASSERT_EQ(std::memcmp(from.data() + at, to.data() + at, 700), 0) << at;
    }
    uint64_t before = 0;
    const RemoteSpan word = extent.Sub(0, sizeof(uint64_t));
    ASSERT_OK(pair->PostFetchAdd(word, 1, &before, Purpose::kFlush, &ticket));
    ASSERT_OK(pair->Wait(ticket, TestDeadline()));
    // A manifest is a call of some size.
    const std::string manifest = random.Bytes(3 << 20);
    ASSERT_OK(client.PutManifest(1, manifest, {extent}));
    ASSERT_OK(client.Close());
  }

  TestCertificates certificates_;
  NodeServerOptions options_ = TestServer::SmallOptions();
  TlsConfig client_;
};

TEST_F(NodeTlsTest, WorksWithTheSecretAlone) {
  options_.tls.enabled = true;
  TestServer server(options_);
  std::unique_ptr<NodeConnection> connection;
  ASSERT_OK(Connect(server, &connection));
  ExpectWorks(*connection);
}

TEST_F(NodeTlsTest, WorksWithCertificatesOnBothSides) {
  ShowCertificate("server");
  options_.tls.ca_file = certificates_.Certificate("ca");
  TestServer server(options_);
  client_.ca_file = certificates_.Certificate("ca");
  client_.certificate_file = certificates_.Certificate("client");
  client_.key_file = certificates_.Key("client");
  std::unique_ptr<NodeConnection> connection;
  ASSERT_OK(Connect(server, &connection));
  ExpectWorks(*connection);
  // And none without.
  client_.certificate_file.clear();
  client_.key_file.clear();
  ExpectRefused(server, "certificate required");
}

// Fails if a certificate is enough without the secret, or the other way round.
TEST_F(NodeTlsTest, TheSecretIsStillNeeded) {
  ShowCertificate("server");
  TestServer server(options_);
  client_.ca_file = certificates_.Certificate("ca");
  std::unique_ptr<NodeConnection> connection;
  EXPECT_TRUE(Connect(server, &connection, "another").IsInvalidArgument());
  EXPECT_OK(Connect(server, &connection));
}

TEST_F(NodeTlsTest, AnotherSecretIsRefusedByTheHandshake) {
  options_.tls.enabled = true;
  TestServer server(options_);
  std::unique_ptr<NodeConnection> connection;
  const Status status = Connect(server, &connection, "another");
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("refused the secret"));
  const Status none = Connect(server, &connection, "");
  EXPECT_TRUE(none.IsInvalidArgument());
  EXPECT_THAT(none.ToString(), HasSubstr("secret_file"));
}

// Fails if the handshake tells who is in the access list: a name that is not there would be told
// apart from a wrong secret.
TEST_F(NodeTlsTest, UnknownNamesAreRefusedLikeWrongSecrets) {
  options_.tls.enabled = true;
  auto list = std::make_shared<AccessList>();
  ASSERT_OK(AccessList::Parse("alice the-secret-of-alice own=a\n", "list", list.get()));
  options_.access = list;
  TestServer server(options_);
  std::unique_ptr<NodeConnection> connection;
  ASSERT_OK(Connect(server, &connection, "the-secret-of-alice", "alice"));
  const Status wrong_secret = Connect(server, &connection, "another", "alice");
  EXPECT_TRUE(wrong_secret.IsInvalidArgument());
  EXPECT_THAT(wrong_secret.ToString(), HasSubstr("refused the secret"));
  for (const char* name : {"bob", "a", "dLSM:alice"}) {
    const Status unknown = Connect(server, &connection, "the-secret-of-alice", name);
    EXPECT_EQ(unknown.ToString(), wrong_secret.ToString()) << name;
  }
}

TEST_F(NodeTlsTest, OneSideWithoutTlsIsToldSo) {
  options_.tls.enabled = true;
  TestServer secured(options_);
  client_.enabled = false;
  ExpectRefused(secured, "TLS only");
  options_.tls.enabled = false;
  TestServer plain(options_);
  client_.enabled = true;
  ExpectRefused(plain, "does not speak TLS");
}

// Fails if a client talks to who it cannot know.
TEST_F(NodeTlsTest, WrongCertificatesAreRefused) {
  certificates_.Make("other_ca", "", "");
  certificates_.Make("late", "ca", "IP:127.0.0.1", /*seconds=*/-1000);
  certificates_.Make("elsewhere", "ca", "DNS:elsewhere.example,IP:10.1.2.3");
  client_.ca_file = certificates_.Certificate("ca");
  for (const auto& [name, why] :
       {std::pair("late", "expired"), std::pair("elsewhere", "IP address mismatch")}) {
    ShowCertificate(name);
    ExpectRefused(TestServer(options_), why);
  }
  ShowCertificate("server");
  TestServer server(options_);
  client_.ca_file = certificates_.Certificate("other_ca");
  ExpectRefused(server, "unable to get local issuer certificate");
  client_.ca_file.clear();  // Known by the secret, it thinks.
  ExpectRefused(server, "tls_ca_file");
}

TEST_F(NodeTlsTest, FilesAreChecked) {
  ShowCertificate("absent");
  EXPECT_THAT(StartServer().ToString(), HasSubstr("absent.crt"));
  ShowCertificate("server");
  options_.tls.key_file = certificates_.Key("client");
  EXPECT_THAT(StartServer().ToString(), HasSubstr("no key for the certificate"));
  ShowCertificate("server");
  ASSERT_EQ(chmod(certificates_.Key("server").c_str(), 0640), 0);
  EXPECT_THAT(StartServer().ToString(), HasSubstr("chmod 600"));
  ShowCertificate("client");
  options_.tls.key_file.clear();
  EXPECT_THAT(StartServer().ToString(), HasSubstr("tls_key_file"));
  options_.tls = TlsConfig();
  options_.tls.enabled = true;
  options_.secret.clear();
  EXPECT_THAT(StartServer().ToString(), HasSubstr("--secret_file"));
}

}  // namespace
}  // namespace dlsm
