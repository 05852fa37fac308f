// A server with a handler of its own, and clients and strangers to it, over real sockets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "util/rpc/auth/control_stream.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/hello.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server.h"
#include "util/rpc/verbs/rpc_transport.h"
#include "util/rpc/verbs/verbs_rpc_server.h"
#include "util/status_testing.h"

namespace dlsm {

inline constexpr size_t kLargeReplyBytes = size_t{1} << 20;

// kGrant: answers with the request. kMerge: the same, 20 ms later, from another thread. kFree:
// never answers by itself. kPutManifest: answers with 1 MB. kListDatabases: with more than a frame
// holds.
class TestHandler : public RpcHandler {
 public:
  ~TestHandler() override {
    const port::MutexLock lock(mutex_);
    for (std::thread& thread : threads_) thread.join();
  }

  void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) override {
    const port::MutexLock lock(mutex_);
    if (live_.insert(peer.connection).second) last_name_ = peer.name;
    switch (method) {
      case Method::kGrant:
        return done(Status::OK(), request.ToString());
      case Method::kMerge:
        threads_.emplace_back([done, text = request.ToString()] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          done(Status::OK(), text);
        });
        return;
      case Method::kFree:
        kept_.push_back(std::move(done));
        return;
      case Method::kPutManifest:
        return done(Status::OK(), std::string(kLargeReplyBytes, 'x'));
      case Method::kListDatabases:
        return done(Status::OK(), std::string(kFrameBytesMax + 1, 'x'));
      default:
        return done(Status::NotFound("no such thing"), "ignored");
    }
  }

  void Disconnected(const RpcPeer& peer) override {
    const port::MutexLock lock(mutex_);
    live_.erase(peer.connection);
    ++disconnected_;
  }

  void AnswerKept(const std::string& reply) {
    std::vector<RpcDone> kept;
    {
      const port::MutexLock lock(mutex_);
      kept.swap(kept_);
    }
    for (const RpcDone& done : kept) done(Status::OK(), reply);
  }
  size_t kept() {
    const port::MutexLock lock(mutex_);
    return kept_.size();
  }
  int disconnected() {
    const port::MutexLock lock(mutex_);
    return disconnected_;
  }
  std::string last_name() {
    const port::MutexLock lock(mutex_);
    return last_name_;
  }

 private:
  port::Mutex mutex_;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  std::vector<RpcDone> kept_ GUARDED_BY(mutex_);
  std::set<uint64_t> live_ GUARDED_BY(mutex_);
  int disconnected_ GUARDED_BY(mutex_) = 0;
  std::string last_name_ GUARDED_BY(mutex_);
};

class RpcServerTest : public testing::Test {
 protected:
  static Deadline Soon() { return Deadline::In(std::chrono::seconds(20)); }

  RpcServerTest() {
    options_.secret = "secret";
    options_.node = NodeId{4};
    options_.contents = ContentsId{99};
    options_.boot = BootId{990};
    options_.regions = {{RegionId{0}, 4096, ""}};
  }

  void StartServer() {
    if (transport_.kind != RpcTransport::kTcp) {
      ASSERT_OK(NewVerbsTransportFactory(transport_.verbs, &options_.transports));
    }
    ASSERT_OK(RpcServer::Start(options_, &handler_, &server_));
    if (options_.port == 0) options_.port = server_->port();  // Kept by later ones.
  }

  Status Connect(std::unique_ptr<NodeRpcClient>* client, Deadline deadline = Soon()) {
    return NodeRpcClient::Connect({"127.0.0.1", options_.port}, "secret", "tester", deadline,
                                  &info_, client, transport_);
  }

  Socket RawConnection() {
    Socket socket;
    ConnectFailure failure{};
    EXPECT_OK(ConnectSocket("127.0.0.1", options_.port, Soon(), &socket, &failure));
    return socket;
  }
  // One that has passed the hello.
  ControlStream HelloedConnection() {
    ControlStream control;
    control.stream = TcpStream(FileDescriptor(RawConnection().Release()));
    ClientIdentity identity;
    identity.secret = "secret";
    NodeInfo info;
    FrameKeys keys;
    EXPECT_OK(ClientHello(control.stream, "here", identity, Soon(), &info, &keys));
    EXPECT_OK(control.seals.MakeForClient(keys));
    return control;
  }
  static Status SendSealed(ControlStream& control, std::string frame) {
    const Status sealed = control.seals.sent->Append(&frame);
    return sealed.ok() ? SendAll(control.stream, frame, Soon()) : sealed;
  }
  // Whether the server has ended this connection; waits for it.
  static bool EndsSoon(const Socket& socket) {
    char byte;
    return ReceiveAll(socket.get(), &byte, 1, Soon()).IsIOError();
  }
  static bool EndsSoon(ControlStream& control) {
    char byte;
    const Status status = ReceiveAll(control.stream, &byte, 1, Soon());
    return status.IsIOError();
  }
  void ExpectServes() {
    std::unique_ptr<NodeRpcClient> client;
    ASSERT_OK(Connect(&client));
    std::string reply;
    ASSERT_OK(client->Call(Method::kGrant, "still here", &reply, Soon()));
    EXPECT_EQ(reply, "still here");
  }

  RpcTransportOptions transport_;
  TestHandler handler_;  // Outlives the server.
  RpcServerOptions options_;
  NodeInfo info_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace dlsm
