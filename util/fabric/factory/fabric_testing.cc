#include "util/fabric/factory/fabric_testing.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "util/fabric/mapped/local_regions.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_hello.h"
#include "util/fabric/verbs/verbs_device.h"
#include "util/fabric/verbs/verbs_frame.h"

namespace dlsm {
namespace {

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

BootId NextBoot() {
  static std::atomic<uint64_t> boot{100};
  return BootId{++boot};
}

}  // namespace

VerbsOptions TestVerbsOptions() {
  VerbsOptions options;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* const text = std::getenv("DLSM_TEST_RDMA_DEVICE");
  if (text == nullptr) return options;
  const Status status = ParseVerbsOptions(text, &options);
  EXPECT_TRUE(status.ok()) << "DLSM_TEST_RDMA_DEVICE: " << status.ToString();
  return options;
}

FileDescriptor ListenOnLoopback(uint16_t* port) {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), generic, bytes), 0);
  EXPECT_EQ(::listen(listener.get(), 64), 0);
  EXPECT_EQ(::getsockname(listener.get(), generic, &bytes), 0);
  *port = ntohs(address.sin_port);
  return listener;
}

FileDescriptor DialLoopback(uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  return socket;
}

void SendAll(int socket, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // The server may have closed the connection: the caller's subject.
    sent += static_cast<size_t>(n);
  }
}

void SayTcpHello(int socket, const std::string& token, const std::string& key) {
  TcpHello hello(token, key);
  std::string opening;
  EXPECT_TRUE(hello.Open(&opening).ok());
  SendAll(socket, std::string(kTcpPreamble) + opening);
  const std::string challenge = ReceiveUpTo(socket, kTcpChallengeBytes);
  std::string proof;
  if (challenge.size() < kTcpChallengeBytes) return;  // Refused: the caller's subject.
  EXPECT_TRUE(hello.Answer(challenge, &proof));
  SendAll(socket, proof);
}

std::string ReceiveUpTo(int socket, size_t bytes) {
  constexpr int kPatienceMs = 10'000;
  std::string received;
  while (received.size() < bytes) {
    pollfd entry{socket, POLLIN, 0};
    if (::poll(&entry, 1, kPatienceMs) <= 0) {
      ADD_FAILURE() << "nothing came and nobody closed";
      break;
    }
    std::array<char, 4096> part;
    const ssize_t n =
        ::recv(socket, part.data(), std::min(part.size(), bytes - received.size()), 0);
    if (n <= 0) break;
    received.append(part.data(), static_cast<size_t>(n));
  }
  return received;
}

TestMemoryNode::TestMemoryNode(FabricKind kind, uint64_t bytes, const VerbsOptions& verbs)
    : kind_(kind), boot_(NextBoot()), token_(kTcpTokenBytes, 't') {
  MakeRegion(bytes);
  Status status;
  if (kind == FabricKind::kTcp) {
    status = TcpFabricServer::Start({region_.get()}, 2, kTestPoll, &order_, &tcp_);
  } else if (kind == FabricKind::kVerbs) {
    status = VerbsFabricServer::Start({region_.get()}, verbs, &verbs_);
  }
  EXPECT_TRUE(status.ok()) << status.ToString();
  Listen();
}

TestMemoryNode::TestMemoryNode(uint64_t bytes, std::shared_ptr<const VerbsDevice> device)
    : kind_(FabricKind::kVerbs), boot_(NextBoot()), token_(kTcpTokenBytes, 't') {
  MakeRegion(bytes);
  const Status status = VerbsFabricServer::Start({region_.get()}, std::move(device), &verbs_);
  EXPECT_TRUE(status.ok()) << status.ToString();
  Listen();
}

void TestMemoryNode::MakeRegion(uint64_t bytes) {
  RegionOptions options;
  options.id = kTestRegion;
  options.bytes = bytes;
  options.kind = kind_;
  options.name = "test";
  const Status status = CreateRegion(options, &region_);
  EXPECT_TRUE(status.ok()) << status.ToString();
  LocalRegions::Instance().Add(kTestNode, boot_, kTestRegion, data(), bytes);
}

TestMemoryNode::~TestMemoryNode() {
  Die();
  LocalRegions::Instance().Remove(kTestNode, boot_);
}

void TestMemoryNode::Listen() {
  if (tcp_ != nullptr) tcp_->AllowToken(token_, key_);
  if (verbs_ != nullptr) verbs_->AllowToken(token_);
  if (tcp_ == nullptr && verbs_ == nullptr) return;
  listener_ = ListenOnLoopback(&port_);
  acceptor_ = std::thread([this] { AcceptLoop(); });
}

void TestMemoryNode::AcceptLoop() {
  while (!stopping_) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) return;
    std::string preamble(kTcpPreamble.size(), '\0');
    const ssize_t n = ::recv(socket.get(), preamble.data(), preamble.size(), MSG_WAITALL);
    if (n != static_cast<ssize_t>(preamble.size())) continue;
    if (tcp_ != nullptr && preamble == kTcpPreamble) {
      TcpStream stream(std::move(socket));
      std::string token;
      const Deadline deadline = Deadline::In(std::chrono::seconds(5));
      const Status greeted = tcp_->Greet(stream, deadline, &token);
      if (greeted.ok()) tcp_->Adopt(std::move(stream), token);
      continue;
    }
    if (verbs_ != nullptr && preamble == kVerbsPreamble) {
      std::string token;
      const Deadline deadline = Deadline::In(std::chrono::seconds(5));
      Status adopted = verbs_->Greet(socket.get(), deadline, &token);
      if (adopted.ok()) adopted = verbs_->Adopt(socket.Release(), token);
      adopted.PermitUncheckedError();  // The client is told, and what it makes of that is tested.
    }
  }
}

void TestMemoryNode::Die() {
  if (acceptor_.joinable()) {
    stopping_ = true;
    (void)::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    listener_.Close();
  }
  tcp_.reset();
  verbs_.reset();
}

std::string TestMemoryNode::WhyNot(FabricKind kind) {
  if (kind != FabricKind::kVerbs) return "";
  std::shared_ptr<const VerbsDevice> device;
  const Status status = VerbsDevice::Open(TestVerbsOptions(), &device);
  return status.ok() ? "" : status.message().ToString() + " (script/softroce/run-in-vm has one)";
}

bool TestMemoryNode::HasAtomics(FabricKind kind) {
  if (kind != FabricKind::kVerbs) return true;
  std::shared_ptr<const VerbsDevice> device;
  return VerbsDevice::Open(TestVerbsOptions(), &device).ok() && device->has_atomics();
}

FabricPeer TestMemoryNode::Peer() const {
  FabricPeer peer;
  peer.node = kTestNode;
  peer.boot = boot_;
  peer.host = "127.0.0.1";
  peer.port = port_;
  peer.data_token = token_;
  peer.data_key = key_;
  peer.regions = {region_->info()};
  return peer;
}

}  // namespace dlsm
