// A memory node's half of a fabric, in the test's process: a region and, for tcp and verbs, the
// server behind an acceptor that knows data connections only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/tcp/tcp_server.h"
#include "util/fabric/verbs/verbs_server.h"
#include "util/file_descriptor.h"

namespace dlsm {

inline constexpr NodeId kTestNode{7};
inline constexpr RegionId kTestRegion{3};
// How long a TestMemoryNode's threads for tcp poll.
inline constexpr std::chrono::microseconds kTestPoll{50};

// What the environment variable DLSM_TEST_RDMA_DEVICE says, as Options::rdma_device does: so the
// same tests run over other devices, and over connections that are made otherwise.
VerbsOptions TestVerbsOptions();

class TestMemoryNode {
 public:
  TestMemoryNode(FabricKind kind, uint64_t bytes, const VerbsOptions& verbs = TestVerbsOptions());
  // Serves verbs through a device that the test has opened.
  TestMemoryNode(uint64_t bytes, std::shared_ptr<const VerbsDevice> device);
  ~TestMemoryNode();

  char* data() { return region_->data(); }
  uint64_t bytes() const { return region_->info().bytes; }
  uint16_t port() const { return port_; }
  const std::string& token() const { return token_; }
  const std::string& key() const { return key_; }
  TcpFabricServer& tcp() { return *tcp_; }
  const MessageOrder& order() const { return order_; }
  VerbsFabricServer& verbs() { return *verbs_; }
  FabricPeer Peer() const;
  RemoteSpan Span(uint64_t offset, uint64_t span_bytes) const {
    return RemoteSpan{kTestNode, kTestRegion, offset, span_bytes};
  }

  // Ends the server and its connections, as a killed memory node would.
  void Die();

  // Empty where tests of this fabric can run; else why not, to skip with.
  static std::string WhyNot(FabricKind kind);
  // Not every RDMA device has them.
  static bool HasAtomics(FabricKind kind);

 private:
  void MakeRegion(uint64_t bytes);
  void Listen();
  void AcceptLoop();

  const FabricKind kind_;
  const BootId boot_;
  const std::string token_;
  const std::string key_ = std::string(32, 'k');  // Of the token.
  std::unique_ptr<ExportedRegion> region_;
  MessageOrder order_;
  std::unique_ptr<TcpFabricServer> tcp_;
  std::unique_ptr<VerbsFabricServer> verbs_;
  FileDescriptor listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
};

// What ends at all has ended by then.
inline Deadline Soon() { return Deadline::In(std::chrono::seconds(60)); }
// All of `bytes`, which need not be registered.
inline LocalSpan Local(std::string& bytes) { return LocalSpan{bytes.data(), bytes.size(), 0}; }

// A socket bound to a free port of the loopback interface; *port is set.
FileDescriptor ListenOnLoopback(uint16_t* port);
// A plain blocking connection to it.
FileDescriptor DialLoopback(uint16_t port);
void SendAll(int socket, const std::string& bytes);
// Shows `token` and proves it with `key`, as the client of a tcp data connection.
void SayTcpHello(int socket, const std::string& token, const std::string& key);
// Until the peer closes or `bytes` have come; gives up after some seconds.
std::string ReceiveUpTo(int socket, size_t bytes);

}  // namespace dlsm
