// Memory nodes for tests: a server in this process that can be killed and restarted, and a client
// that speaks the messages.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/node_server.h"
#include "table/merge_messages.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_testing.h"

namespace dlsm {

inline Deadline TestDeadline() { return Deadline::In(std::chrono::seconds(30)); }

// On a port of its own, which it keeps when it is restarted.
class TestServer {
 public:
  static NodeServerOptions SmallOptions() {
    NodeServerOptions options;
    options.bytes = uint64_t{64} << 20;
    options.node.node = NodeId{1};
    options.node.merge_reserve_bytes = 0;
    return options;
  }

  explicit TestServer(NodeServerOptions options = SmallOptions()) : options_(std::move(options)) {
    Restart();
  }

  // Drops connections, merges and memory, without a word.
  void Kill() { server_.reset(); }
  // In another boot, with other contents: empty memory.
  void Restart() {
    options_.node.contents.reset();
    Start();
  }
  // In another boot, which says that it has the same contents.
  void RestartWithContents() {
    options_.node.contents = node().contents();
    Start();
  }

  NodeAddress address() const { return {options_.bind_address, options_.port}; }
  MemoryNode& node() { return server_->node(); }
  uint64_t used_bytes() { return node().Statistics().used_bytes; }

 private:
  void Start() {
    server_.reset();
    EXPECT_OK(NodeServer::Start(options_, &server_));
    if (server_ != nullptr) options_.port = server_->port();
  }

  NodeServerOptions options_;
  std::unique_ptr<NodeServer> server_;
};

// One handle of one database. It does not close its session when it is destroyed.
class TestClient {
 public:
  // `rpc` outlives this.
  explicit TestClient(RpcClient* rpc) : rpc_(rpc) {}

  Status Open(const std::string& name, bool create_if_missing = true,
              bool error_if_exists = false) {
    OpenDatabaseRequest request;
    request.name = name;
    request.create_if_missing = create_if_missing;
    request.error_if_exists = error_if_exists;
    return Call(Method::kOpenDatabase, request, &opened_);
  }
  Status Heartbeat() {
    HeartbeatReply reply;
    return Heartbeat(&reply);
  }
  Status Heartbeat(HeartbeatReply* reply) {
    HeartbeatRequest request;
    request.session = session();
    return Call(Method::kHeartbeat, request, reply);
  }
  // What has become of the answers to its merges.
  Status Tell(const MergeAnswers& answers) {
    HeartbeatRequest request;
    request.session = session();
    request.answers = answers;
    HeartbeatReply reply;
    return Call(Method::kHeartbeat, request, &reply);
  }
  Status SetMergeSchedule(const SetMergeScheduleRequest& request, SetMergeScheduleReply* reply) {
    return Call(Method::kSetMergeSchedule, request, reply);
  }
  Status Grant(uint64_t bytes, uint64_t bytes_min, RemoteSpan* extent) {
    GrantRequest request;
    request.session = session();
    request.bytes = bytes;
    request.bytes_min = bytes_min;
    GrantReply reply;
    const Status status = Call(Method::kGrant, request, &reply);
    *extent = reply.extent;
    return status;
  }
  RemoteSpan Grant(uint64_t bytes) {
    RemoteSpan extent;
    EXPECT_OK(Grant(bytes, bytes, &extent));
    return extent;
  }
  Status Free(std::vector<RemoteSpan> spans) {
    FreeRequest request;
    request.session = session();
    request.spans = std::move(spans);
    return Call(Method::kFree, request);
  }
  Status PutManifest(uint64_t version, const std::string& manifest, std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.session = session();
    request.version = version;
    request.manifest = manifest;
    request.live = std::move(live);
    return Call(Method::kPutManifest, request);
  }
  Status Merge(MergeRequest request, MergeReply* reply) {
    request.session = session();
    return Call(Method::kMerge, request, reply);
  }
  // A reader that follows the databases; one for each client.
  Status OpenReader(std::vector<std::string> names) {
    OpenReaderRequest request;
    request.databases = std::move(names);
    return Call(Method::kOpenReader, request, &reader_);
  }
  Status RenewReader(uint64_t oldest) {
    ReaderHeartbeatRequest request;
    request.reader = reader_.reader;
    request.oldest = oldest;
    ReaderHeartbeatReply reply;
    return Call(Method::kReaderHeartbeat, request, &reply);
  }
  Status CloseReader() {
    CloseReaderRequest request;
    request.reader = reader_.reader;
    return Call(Method::kCloseReader, request);
  }
  const OpenReaderReply& reader() const { return reader_; }

  Status Close() {
    CloseDatabaseRequest request;
    request.session = session();
    return Call(Method::kCloseDatabase, request);
  }
  Status Destroy(const std::string& name) {
    DestroyDatabaseRequest request;
    request.name = name;
    return Call(Method::kDestroyDatabase, request);
  }
  ListDatabasesReply List() {
    ListDatabasesReply reply;
    std::string bytes;
    EXPECT_OK(rpc_->Call(Method::kListDatabases, Slice(), &bytes, TestDeadline()));
    EXPECT_OK(reply.Decode(bytes));
    return reply;
  }
  NodeStatisticsReply Statistics() {
    NodeStatisticsReply reply;
    std::string bytes;
    EXPECT_OK(rpc_->Call(Method::kNodeStatistics, Slice(), &bytes, TestDeadline()));
    EXPECT_OK(reply.Decode(bytes));
    return reply;
  }

  SessionId session() const { return opened_.session; }
  const OpenDatabaseReply& opened() const { return opened_; }

 private:
  template <typename Request>
  Status Call(Method method, const Request& request) {
    std::string bytes;
    return rpc_->Call(method, request.Encode(), &bytes, TestDeadline());
  }
  template <typename Request, typename Reply>
  Status Call(Method method, const Request& request, Reply* reply) {
    std::string bytes;
    const Status status = rpc_->Call(method, request.Encode(), &bytes, TestDeadline());
    return status.ok() ? reply->Decode(bytes) : status;
  }

  RpcClient* const rpc_;
  OpenDatabaseReply opened_;
  OpenReaderReply reader_;
};

}  // namespace dlsm
