// The databases of a memory node that nothing runs around, a clock that the test sets, and short
// ways to call them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/database_table.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {

class DatabaseTableTest : public testing::Test {
 protected:
  static constexpr uint64_t kCapacity = uint64_t{1} << 20;
  static constexpr uint64_t kUnit = 4096;
  static constexpr uint64_t kHeader = kDatabaseHeaderBytes;

  DatabaseTableTest() : table_(Options(0)) {}
  ~DatabaseTableTest() override { EXPECT_OK(table_.CheckInvariants()); }

  DatabaseTableOptions Options(uint64_t reserve) {
    DatabaseTableOptions options;
    options.node = NodeId{1};
    options.memory = &memory_;
    options.capacity_bytes = kCapacity;
    options.merge_reserve_bytes = reserve;
    options.clock = [this] { return now_; };
    return options;
  }

  static RpcPeer Peer(uint64_t connection) {
    return RpcPeer{connection, "client " + std::to_string(connection)};
  }

  Status Open(const std::string& name, uint64_t connection, OpenDatabaseReply* reply) {
    OpenDatabaseRequest request;
    request.name = name;
    request.create_if_missing = true;
    return table_.Open(Peer(connection), request, reply);
  }
  SessionId OpenOk(const std::string& name, uint64_t connection = 1) {
    OpenDatabaseReply reply;
    EXPECT_OK(Open(name, connection, &reply));
    return reply.session;
  }
  Status Grant(SessionId session, uint64_t bytes, uint64_t bytes_min, RemoteSpan* span,
               uint64_t connection = 1) {
    GrantRequest request;
    request.session = session;
    request.bytes = bytes;
    request.bytes_min = bytes_min;
    GrantReply reply;
    const Status status = table_.Grant(Peer(connection), request, &reply);
    *span = reply.extent;
    return status;
  }
  RemoteSpan GrantOk(SessionId session, uint64_t bytes) {
    RemoteSpan span;
    EXPECT_OK(Grant(session, bytes, bytes, &span));
    return span;
  }
  Status Free(SessionId session, std::vector<RemoteSpan> spans) {
    FreeRequest request;
    request.session = session;
    request.spans = std::move(spans);
    return table_.Free(Peer(1), request);
  }
  Status Put(SessionId session, uint64_t version, std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.session = session;
    request.version = version;
    request.manifest = "manifest " + std::to_string(version);
    request.live = std::move(live);
    return table_.PutManifest(Peer(1), request);
  }
  Status Close(SessionId session) {
    CloseDatabaseRequest request;
    request.session = session;
    return table_.Close(Peer(1), request);
  }
  Status Beat(SessionId session, uint64_t connection = 1, const MergeAnswers& answers = {},
              uint64_t publications_from = 0) {
    HeartbeatRequest request;
    request.session = session;
    request.answers = answers;
    request.publications_from = publications_from;
    return table_.Heartbeat(Peer(connection), request);
  }
  Status Destroy(const std::string& name) {
    DestroyDatabaseRequest request;
    request.name = name;
    return table_.Destroy(request);
  }
  std::unique_ptr<MergeHold> Merge(SessionId session, std::vector<RemoteSpan> inputs) {
    std::unique_ptr<MergeHold> hold;
    EXPECT_OK(table_.BeginMerge(Peer(1), session, {}, inputs, &hold));
    return hold;
  }
  // Besides the headers of databases.
  uint64_t used() {
    NodeStatisticsReply reply;
    table_.Describe(&reply);
    return reply.used_bytes - reply.databases * kHeader;
  }

  DatabaseTableOptions::Clock::time_point now_{};
  const std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(kCapacity);
  OwnMemory memory_{NodeId{1}, RegionId{}, bytes_.get(), kCapacity};
  DatabaseTable table_;
};

}  // namespace dlsm
