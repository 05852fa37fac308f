#include "util/rpc/auth/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <chrono>
#include <new>
#include <string>
#include <thread>

#include "util/random.h"
#include "util/rpc/auth/socket.h"
#include "util/secret_proof.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

Deadline HelloDeadline() { return Deadline::In(std::chrono::seconds(10)); }

struct Connected {
  Connected() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client = TcpStream(FileDescriptor(ends[0]));
    node = TcpStream(FileDescriptor(ends[1]));
  }
  TcpStream client;
  TcpStream node;
};

struct HelloOutcome {
  Status client;
  Status node;
  NodeInfo info;
  AuthenticatedClient authenticated;
  std::string allowed;  // The token, if one was allowed.
  ClientRights rights;
  FrameKeys keys;  // The client's.
};

NodeIdentity Node(const std::string& secret) {
  NodeIdentity identity;
  identity.secret = secret;
  identity.info.node = NodeId{7};
  identity.info.contents = ContentsId{54321};
  identity.info.boot = BootId{12345};
  identity.info.persistence = PersistenceId{777};
  identity.info.has_files = true;
  identity.info.fabric = FabricKind::kShm;
  identity.info.regions = {{RegionId{0}, 4096, "/dev/shm/dlsm-x"}, {RegionId{1}, 64, ""}};
  return identity;
}

ClientIdentity Client(const std::string& secret) {
  ClientIdentity identity;
  identity.secret = secret;
  identity.name = "tester";
  return identity;
}

Status ServeHello(TcpStream& stream, const NodeIdentity& identity, Deadline deadline,
                  HelloOutcome* outcome) {
  std::string preamble(kPreambleBytes, '\0');
  const Status status = ReceiveAll(stream, preamble.data(), preamble.size(), deadline);
  if (!status.ok()) return status;
  EXPECT_EQ(preamble, kControlPreamble);
  return NodeHello(
      stream, identity, deadline,
      [&](const std::string& shown, const ClientRights& rights, NodeInfo* info) {
        outcome->rights = rights;
        info->data_token = shown;
        const Status drawn =
            shown.empty() ? RandomBytes(kDataTokenBytes, &info->data_token) : Status::OK();
        outcome->allowed = info->data_token;
        return drawn;
      },
      &outcome->authenticated);
}

// Of a hello in which nobody proves himself.
Status NoToken(const std::string& /*shown*/, const ClientRights& /*rights*/, NodeInfo* /*info*/) {
  ADD_FAILURE() << "a stranger got a token";
  return Status::OK();
}

HelloOutcome Converse(const NodeIdentity& node, const ClientIdentity& client) {
  Connected ends;
  HelloOutcome outcome;
  std::thread server([&] {
    outcome.node = ServeHello(ends.node, node, HelloDeadline(), &outcome);
    ends.node.Shutdown();
  });
  outcome.client =
      ClientHello(ends.client, "host:1", client, HelloDeadline(), &outcome.info, &outcome.keys);
  ends.client.Shutdown();
  server.join();
  // Each test asks for what it is about.
  outcome.client.PermitUncheckedError();
  outcome.node.PermitUncheckedError();
  return outcome;
}

// Fails if either side does not learn what it must.
TEST(HelloTest, BothSidesAgree) {
  for (const std::string secret : {"", "the secret"}) {
    const HelloOutcome outcome = Converse(Node(secret), Client(secret));
    ASSERT_TRUE(outcome.client.ok()) << outcome.client.ToString();
    ASSERT_TRUE(outcome.node.ok()) << outcome.node.ToString();
    EXPECT_EQ(outcome.info.node, NodeId{7});
    EXPECT_EQ(outcome.info.contents, ContentsId{54321});
    EXPECT_EQ(outcome.info.boot, BootId{12345});
    EXPECT_EQ(outcome.info.persistence, PersistenceId{777});
    EXPECT_TRUE(outcome.info.has_files);
    EXPECT_EQ(outcome.info.fabric, FabricKind::kShm);
    ASSERT_EQ(outcome.info.regions.size(), 2u);
    EXPECT_EQ(outcome.info.regions[0].shm_path, "/dev/shm/dlsm-x");
    EXPECT_EQ(outcome.info.regions[1].bytes, 64u);
    EXPECT_EQ(outcome.authenticated.name, "tester");
    EXPECT_EQ(outcome.info.data_token.size(), kDataTokenBytes);
    EXPECT_EQ(outcome.info.data_token, outcome.authenticated.data_token);
    EXPECT_EQ(outcome.info.data_token, outcome.allowed);
  }
}

// Fails if a client that comes back would lose its data connections.
TEST(HelloTest, TokenIsKept) {
  ClientIdentity client = Client("s");
  client.data_token = std::string(kDataTokenBytes, 't');
  client.boot = Node("s").info.boot;
  HelloOutcome outcome = Converse(Node("s"), client);
  ASSERT_TRUE(outcome.client.ok());
  EXPECT_EQ(outcome.info.data_token, client.data_token);
  EXPECT_EQ(outcome.allowed, client.data_token);
  // But not across a restart, whatever the contents: access ends with the boot.
  client.boot = BootId{12346};
  outcome = Converse(Node("s"), client);
  ASSERT_TRUE(outcome.client.ok());
  EXPECT_NE(outcome.allowed, client.data_token);
  EXPECT_NE(Converse(Node("s"), Client("s")).allowed, Converse(Node("s"), Client("s")).allowed);
}

void ExpectRefused(const HelloOutcome& outcome, const char* remedy) {
  EXPECT_TRUE(outcome.client.IsInvalidArgument()) << outcome.client.ToString();
  EXPECT_THAT(outcome.client.ToString(), HasSubstr("host:1"));
  EXPECT_THAT(outcome.client.ToString(), HasSubstr("secret"));
  EXPECT_THAT(outcome.client.ToString(), HasSubstr(remedy));
  EXPECT_TRUE(outcome.node.IsInvalidArgument()) << outcome.node.ToString();
  // It learned nothing.
  EXPECT_EQ(outcome.info.contents, ContentsId{});
  EXPECT_EQ(outcome.info.boot, BootId{});
  EXPECT_TRUE(outcome.info.regions.empty());
  EXPECT_TRUE(outcome.info.data_token.empty());
  EXPECT_TRUE(outcome.allowed.empty());
}

// Fails if who does not know the secret is let in, or told anything but how to mend it.
TEST(HelloTest, WrongSecretIsRefused) {
  ExpectRefused(Converse(Node("right"), Client("wrong")), "same secret file");
}
TEST(HelloTest, MissingSecretIsRefused) {
  ExpectRefused(Converse(Node("right"), Client("")), "secret_file");
}
TEST(HelloTest, NeedlessSecretIsRefused) {
  ExpectRefused(Converse(Node(""), Client("mine")), "same secret file");
}

// Fails if one of the two sides cannot tell which two versions met.
TEST(HelloTest, VersionMismatchIsNamedOnBothSides) {
  ClientIdentity client = Client("s");
  client.version = 41;
  NodeIdentity node = Node("s");
  node.version = 42;
  const HelloOutcome outcome = Converse(node, client);
  for (const Status& status : {outcome.client, outcome.node}) {
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("version 41"));
    EXPECT_THAT(status.ToString(), HasSubstr("version 42"));
    EXPECT_THAT(status.ToString(), HasSubstr("same release"));
  }
}

// Fails if a client believes a memory node that accepts everybody but knows no secret.
TEST(HelloTest, ImpostorIsFoundOut) {
  Connected ends;
  std::thread impostor([&] {
    const auto receive = [&] {
      std::string header(kHelloHeaderBytes, '\0');
      ASSERT_TRUE(ReceiveAll(ends.node, header.data(), header.size(), HelloDeadline()).ok());
      uint32_t bytes = 0;
      uint32_t checksum = 0;
      ASSERT_TRUE(DecodeHelloHeader(header, &bytes, &checksum).ok());
      std::string body(bytes, '\0');
      ASSERT_TRUE(ReceiveAll(ends.node, body.data(), bytes, HelloDeadline()).ok());
    };
    const auto send = [&](const std::string& bytes) {
      ASSERT_TRUE(SendAll(ends.node, bytes, HelloDeadline()).ok());
    };
    std::string greeting(kGreetingBytes, '\0');
    ASSERT_TRUE(ReceiveAll(ends.node, greeting.data(), greeting.size(), HelloDeadline()).ok());
    send(greeting);
    receive();
    NodeChallenge challenge;
    challenge.nonce = std::string(kNonceBytes, 'n');
    send(EncodeHelloMessage(challenge.Encode()));
    receive();
    NodeInfo info;
    FrameKeys keys;
    info.data_token = std::string(kDataTokenBytes, 't');
    NodeWelcome welcome;
    welcome.info = info.Encode();
    welcome.proof = std::string(kProofBytes, 'p');
    send(EncodeHelloMessage(welcome.Encode()));
  });
  NodeInfo info;
  FrameKeys keys;
  const Status status =
      ClientHello(ends.client, "host:1", Client("s"), HelloDeadline(), &info, &keys);
  impostor.join();
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("did not prove"));
}

// Fails if one side's proof is good as the other's, or if a proof does not cover all it should.
TEST(HelloTest, ProofsDependOnEverything) {
  const std::string proof = SecretProof("s", ProofRole::kClient, "c", "n", "said");
  EXPECT_EQ(proof, SecretProof("s", ProofRole::kClient, "c", "n", "said"));
  EXPECT_NE(proof, SecretProof("t", ProofRole::kClient, "c", "n", "said"));
  EXPECT_NE(proof, SecretProof("s", ProofRole::kMemoryNode, "c", "n", "said"));
  EXPECT_NE(proof, SecretProof("s", ProofRole::kClient, "d", "n", "said"));
  EXPECT_NE(proof, SecretProof("s", ProofRole::kClient, "c", "o", "said"));
  EXPECT_NE(proof, SecretProof("s", ProofRole::kClient, "c", "n", "Said"));
  EXPECT_NE(proof, SecretProof("s", ProofRole::kClient, "cn", "", "said"));
  EXPECT_TRUE(ProofsEqual(proof, proof));
  EXPECT_FALSE(ProofsEqual(proof, proof.substr(1)));
}

// Fails if what happens to lie on the stack is taken for a proof, or a key, where OpenSSL computes
// none: who sends the same would be let in, and know the keys.
TEST(HelloTest, AProofThatCannotBeComputedIsNone) {
  // Until it may look for its algorithms again, it finds none, as if it had no memory for them.
  ASSERT_EQ(EVP_set_default_properties(nullptr, "provider=none"), 1);
  EXPECT_THROW(SecretProof("s", ProofRole::kClient, "c", "n", "said"), std::bad_alloc);
  EXPECT_THROW(DataKey("s", "token"), std::bad_alloc);
  EXPECT_THROW(TlsKey("s"), std::bad_alloc);
  ASSERT_EQ(EVP_set_default_properties(nullptr, ""), 1);
  EXPECT_EQ(SecretProof("s", ProofRole::kClient, "c", "n", "said").size(), kProofBytes);
}

// Fails if garbage is taken for a hello, or ends in anything but an error in time.
TEST(HelloTest, GarbageIsAnErrorOnEitherSide) {
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    std::string garbage = random.Bytes(1 + random.Uniform(300));
    if (i % 2 == 0) garbage = EncodeGreeting(kProtocolVersion) + garbage;
    {
      Connected ends;
      ASSERT_TRUE(SendAll(ends.node, garbage, HelloDeadline()).ok());
      ends.node.Shutdown();
      NodeInfo info;
      FrameKeys keys;
      const Status status =
          ClientHello(ends.client, "host:1", Client("s"), HelloDeadline(), &info, &keys);
      EXPECT_FALSE(status.ok());
    }
    {
      Connected ends;
      ASSERT_TRUE(SendAll(ends.client, garbage, HelloDeadline()).ok());
      ends.client.Shutdown();
      AuthenticatedClient client;
      EXPECT_FALSE(NodeHello(ends.node, Node("s"), HelloDeadline(), NoToken, &client).ok());
    }
  }
}

// Fails if a peer that says nothing holds the other side longer than its deadline.
TEST(HelloTest, SilenceEndsAtTheDeadline) {
  Connected ends;
  const Deadline deadline = Deadline::In(std::chrono::milliseconds(50));
  NodeInfo info;
  FrameKeys keys;
  EXPECT_TRUE(ClientHello(ends.client, "host:1", Client("s"), deadline, &info, &keys).IsTimedOut());
  Connected others;
  AuthenticatedClient client;
  EXPECT_TRUE(NodeHello(others.node, Node("s"), Deadline::In(std::chrono::milliseconds(50)),
                        NoToken, &client)
                  .IsTimedOut());
}

TEST(HelloTest, BusyNodeSaysSo) {
  Connected ends;
  std::thread server([&] {
    std::string preamble(kPreambleBytes, '\0');
    ASSERT_TRUE(ReceiveAll(ends.node, preamble.data(), preamble.size(), HelloDeadline()).ok());
    ASSERT_TRUE(RefuseHello(ends.node, "too many friends", HelloDeadline()).ok());
  });
  NodeInfo info;
  FrameKeys keys;
  const Status status =
      ClientHello(ends.client, "host:1", Client("s"), HelloDeadline(), &info, &keys);
  server.join();
  EXPECT_TRUE(status.IsBusy());
  EXPECT_THAT(status.ToString(), HasSubstr("too many friends"));
}

template <typename Message>
void CheckBody(const Message& message) {
  const std::string body = message.Encode();
  Message decoded;
  ASSERT_TRUE(decoded.Decode(body).ok());
  EXPECT_EQ(decoded.Encode(), body);
  for (size_t length = 0; length < body.size(); ++length) {
    ASSERT_TRUE(Message().Decode(body.substr(0, length)).IsCorruption()) << length;
  }
  EXPECT_TRUE(Message().Decode(body + '\0').IsCorruption());
  for (size_t bit = 0; bit < body.size() * 8; ++bit) {
    std::string flipped = body;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    Message changed;
    if (changed.Decode(flipped).ok()) {
      ASSERT_EQ(changed.Encode(), flipped);
    }
  }
}

// Fails if a field is lost or a bound is missing.
TEST(HelloMessagesTest, SurviveTheWireAndNothingElseDoes) {
  ClientOpening opening;
  opening.nonce = std::string(kNonceBytes, 'n');
  opening.name = "me";
  CheckBody(opening);
  NodeChallenge challenge;
  challenge.nonce = std::string(kNonceBytes, 'n');
  CheckBody(challenge);
  ClientProof proof;
  proof.proof = std::string(kProofBytes, 'p');
  CheckBody(proof);
  proof.data_token = std::string(kDataTokenBytes, 't');
  CheckBody(proof);
  NodeInfo info = Node("").info;
  info.data_token = std::string(kDataTokenBytes, 't');
  CheckBody(info);
  NodeWelcome welcome;
  welcome.proof = std::string(kProofBytes, 'p');
  welcome.info = info.Encode();
  CheckBody(welcome);
  // The bounds of what strangers send.
  opening.name = std::string(kClientNameBytesMax + 1, 'n');
  EXPECT_TRUE(ClientOpening().Decode(opening.Encode()).IsCorruption());
  std::string header = EncodeHelloMessage("").substr(0, kHelloHeaderBytes);
  header[2] = 1;
  uint32_t bytes = 0;
  uint32_t checksum = 0;
  EXPECT_TRUE(DecodeHelloHeader(header, &bytes, &checksum).IsCorruption());
}

}  // namespace
}  // namespace dlsm
