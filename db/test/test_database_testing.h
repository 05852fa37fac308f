// What tests of whole databases share: a memory node to run them on, and short ways to use them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/statistics.h"
#include "memory_node/node_server.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/status_testing.h"

namespace dlsm {

// A memory node with its server, in this process. Reached over shm, tcp or verbs as from another
// one.
class TestNode {
 public:
  // Why tests over this fabric cannot run on this machine; empty if they can.
  static std::string WhyNot(const std::string& fabric) {
    return fabric == "verbs" ? CheckVerbsDevice({}).message().ToString() : "";
  }

  struct Config {
    uint64_t bytes = uint64_t{256} << 20;
    std::chrono::nanoseconds lease = std::chrono::seconds(10);
    std::chrono::nanoseconds grace = std::chrono::seconds(2);
    FabricKind fabric = FabricKind::kShm;
    int merge_threads = 2;
    uint64_t merge_bytes_per_second = 0;
    uint32_t id = 7;
    std::function<DatabaseTableOptions::Clock::time_point()> clock;  // Empty: the usual one.
    std::function<bool()> refuse_extent;                             // See DatabaseTableOptions.
    std::shared_ptr<NodeConnector> connector;  // Its ways to other memory nodes.
    // Of files, see MemoryNodeOptions; empty: it has none.
    std::function<void(std::vector<RemoteSpan>, std::function<void(const Status&)>)> persist;
  };

  static Config Serving(const std::string& fabric) {
    Config config;
    if (fabric == "verbs") config.fabric = FabricKind::kVerbs;
    return config;
  }

  TestNode() : TestNode(Config()) {}
  explicit TestNode(const std::string& fabric) : TestNode(Serving(fabric)) {}
  explicit TestNode(const Config& config) {
    options_.bytes = config.bytes;
    options_.huge_pages = false;
    options_.fabric = config.fabric;
    options_.node.node = NodeId{config.id};
    options_.node.lease = config.lease;
    options_.node.grace = config.grace;
    options_.node.merge_threads = config.merge_threads;
    options_.node.merge_bytes_per_second = config.merge_bytes_per_second;
    options_.node.refuse_extent = config.refuse_extent;
    if (config.clock) options_.node.clock = config.clock;
    options_.node.node_connector = config.connector;
    options_.node.persist = config.persist;
    options_.node.has_files = config.persist != nullptr;
    Start();
  }

  NodeServer& server() { return *server_; }
  const std::string& address() const { return address_; }
  uint64_t used_bytes() { return server_->node().Statistics().used_bytes; }
  // As if the Server process had been killed.
  void Kill() { server_.reset(); }
  // At the same address, with other memory.
  void Restart() {
    Kill();
    Start();
  }

  // Makes the options those of a database on this node.
  Options With(Options options, const std::string& fabric) const {
    options.memory_nodes = address_;
    options.fabric = fabric;
    return options;
  }

 private:
  void Start() {
    EXPECT_OK(NodeServer::Start(options_, &server_));
    options_.port = server_->port();
    address_ = "127.0.0.1:" + std::to_string(options_.port);
  }

  NodeServerOptions options_;
  std::unique_ptr<NodeServer> server_;
  std::string address_;
};

// Several memory nodes for one handle, with numbers of their own.
class TestNodes {
 public:
  TestNodes(size_t count, const std::string& fabric)
      : TestNodes(std::vector<TestNode::Config>(count, TestNode::Serving(fabric)), fabric) {}
  TestNodes(const std::vector<TestNode::Config>& configs, std::string fabric)
      : fabric_(std::move(fabric)) {
    for (TestNode::Config config : configs) {
      config.id = static_cast<uint32_t>(nodes_.size()) + 1;
      nodes_.push_back(std::make_unique<TestNode>(config));
    }
  }

  TestNode& operator[](size_t i) { return *nodes_[i]; }
  size_t size() const { return nodes_.size(); }
  // Makes the options those of a database on the first `count` of them; 0: on all.
  Options With(Options options, size_t count = 0) const {
    options.fabric = fabric_;
    options.memory_nodes.clear();
    for (size_t i = 0; i < (count == 0 ? nodes_.size() : count); ++i) {
      options.memory_nodes += (i > 0 ? "," : "") + nodes_[i]->address();
    }
    return options;
  }

 private:
  const std::string fabric_;
  std::vector<std::unique_ptr<TestNode>> nodes_;
};

// Memtables and tables so small that a test of seconds sees hundreds of flushes and merges.
inline Options TinyOptions() {
  Options options;
  options.create_if_missing = true;
  options.embedded_memory_bytes = uint64_t{512} << 20;
  options.write_buffer_size = size_t{64} << 10;
  options.max_file_size = size_t{64} << 10;
  options.level0_file_num_compaction_trigger = 2;
  options.level0_stop_writes_trigger = 8;
  options.max_bytes_for_level_base = uint64_t{128} << 10;
  options.max_bytes_for_level_multiplier = 3;
  options.num_levels = 4;
  options.max_tables_per_guard = 4;
  options.operation_timeout_ms = 60000;
  // Tests of flushes count calls and bytes. Those of logs say which they want.
  options.log = LogLevel::kNone;
  return options;
}

inline std::unique_ptr<DB> OpenOrDie(const Options& options, const std::string& name) {
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, name, &db);
  EXPECT_OK(status);
  if (!status.ok()) std::abort();
  return db;
}

// A memory node for tests of all fabrics, with the options for it; null for "", the embedded one.
inline std::unique_ptr<TestNode> NodeServing(const std::string& fabric, Options* options) {
  if (fabric.empty()) return nullptr;
  auto node = std::make_unique<TestNode>(fabric);
  *options = node->With(*options, fabric);
  return node;
}

// As far as there is room for what merges write.
inline void CompactAsRoomAllows(DB* db) {
  const Status status = db->CompactRange(nullptr, nullptr);
  EXPECT_TRUE(status.ok() || status.IsBusy()) << status.ToString();
}

// The end of a test's database, unless it was never opened.
inline void CloseAndDestroy(std::unique_ptr<DB>* db, const Options& options,
                            const std::string& name) {
  if (*db == nullptr) return;
  EXPECT_OK((*db)->Close());
  db->reset();
  EXPECT_OK(DestroyDB(name, options));
}

inline std::string GetOr(DB* db, const Slice& key, const ReadOptions& options = ReadOptions()) {
  std::string value;
  const Status status = db->Get(options, key, &value);
  if (status.IsNotFound()) return "(none)";
  return status.ok() ? value : "(" + status.ToString() + ")";
}

inline uint64_t NumberProperty(DB* db, const std::string& name) {
  std::string value;
  EXPECT_TRUE(db->GetProperty(name, &value)) << name;
  return value.empty() ? 0 : std::stoull(value);
}

// The number behind `field` in a property of lines "field number".
inline uint64_t FieldOfProperty(DB* db, const std::string& name, const std::string& field) {
  std::string text;
  EXPECT_TRUE(db->GetProperty(name, &text)) << name;
  const size_t at = ("\n" + text).find("\n" + field + " ");
  EXPECT_NE(at, std::string::npos) << field << " in " << text;
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + field.size() + 1));
}

inline std::string NumberedKey(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof(text), "key%010llu", static_cast<unsigned long long>(number));
  return text;
}

// "value7......", with that many dots.
inline std::string NumberedValue(uint64_t number, size_t dots) {
  return "value" + std::to_string(number) + std::string(dots, '.');
}

}  // namespace dlsm
