// Databases whose manifest somebody has changed at the memory node.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/nodes/memory_node_link.h"
#include "db/nodes/memory_node_session.h"
#include "db/nodes/placed_manifest_store.h"
#include "db/nodes/remote_memory.h"
#include "db/nodes/shard_map.h"
#include "db/test/fake_table_testing.h"
#include "db/test/test_database_testing.h"
#include "db/tree/manifest.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"

namespace dlsm {
namespace {

// Manifests of a hostile memory node. Fails if one of them crashes the process, makes it allocate
// without bound, or opens a database whose reads leave the region.
class HostileManifestTest : public testing::Test {
 protected:
  Options NodeOptions(const std::string& fabric = "shm") {
    return node_.With(TinyOptions(), fabric);
  }
  Status TryOpen(const Options& options) {
    std::unique_ptr<DB> db;
    return DB::Open(options, "db", &db);
  }
  std::unique_ptr<NodeConnection> Connect() {
    std::unique_ptr<NodeConnection> connection;
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    EXPECT_OK(ConnectNode({"127.0.0.1", node_.server().port()}, options,
                          Deadline::In(std::chrono::seconds(10)), &connection));
    return connection;
  }
  // Replaces the database's manifest; returns the one before.
  std::string Exchange(const std::string& manifest, const std::vector<RemoteSpan>& live = {}) {
    const auto connection = Connect();
    const Deadline deadline = Deadline::In(std::chrono::seconds(10));
    OpenDatabaseRequest open;
    open.name = "db";
    std::string reply;
    EXPECT_OK(connection->rpc().Call(Method::kOpenDatabase, open.Encode(), &reply, deadline));
    OpenDatabaseReply opened;
    EXPECT_OK(opened.Decode(reply));
    if (!manifest.empty()) {
      PutManifestRequest put;
      put.session = opened.session;
      put.version = opened.manifest_version + 1;
      put.manifest = manifest;
      put.live = live;
      EXPECT_OK(connection->rpc().Call(Method::kPutManifest, put.Encode(), &reply, deadline));
    }
    CloseDatabaseRequest close;
    close.session = opened.session;
    EXPECT_OK(connection->rpc().Call(Method::kCloseDatabase, close.Encode(), &reply, deadline));
    return opened.manifest;
  }

  TestNode node_;
};

TEST_F(HostileManifestTest, IsRefused) {
  {
    const auto db = OpenOrDie(NodeOptions(), "db");
    for (uint64_t i = 0; i < 200; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
    ASSERT_OK(db->Close());
  }
  const std::string honest = Exchange("");
  const std::vector<std::function<void(TableMeta*)>> lies = {
      [](TableMeta* meta) { meta->image.offset = uint64_t{1} << 40; },
      [](TableMeta* meta) {
        meta->image.bytes += uint64_t{1} << 50;
        meta->filter_bytes += uint64_t{1} << 50;
      },
      [](TableMeta* meta) {
        meta->image.bytes += uint64_t{1} << 50;
        meta->data_bytes += uint64_t{1} << 50;
      },
      [](TableMeta* meta) {
        meta->index_bytes += meta->filter_bytes;
        meta->filter_bytes = 0;
      },
      [](TableMeta* meta) { meta->image.region = RegionId{99}; },
      [](TableMeta* meta) { meta->image.node = NodeId{99}; },
      [](TableMeta* meta) { meta->image.offset += 64; },
      [](TableMeta* meta) { meta->entries *= 1000; },
      [](TableMeta* meta) { meta->sequence_max = kSequenceNumberMax - 1; },
      [](TableMeta* meta) { std::swap(meta->smallest, meta->largest); },
      [](TableMeta* meta) { meta->format = TableFormat::kBlockBased; },
  };
  for (size_t lie = 0; lie < lies.size(); ++lie) {
    Manifest manifest;
    std::vector<Level> levels;
    // A fake reader keeps the meta that the lie has changed.
    ASSERT_OK(ManifestCodec::Decode(
        honest,
        [&](const TableMeta& meta, TableRef* table) {
          TableMeta told = meta;
          lies[lie](&told);
          *table = std::make_shared<const Table>(std::make_unique<FakeTableReader>(told), nullptr);
          return Status::OK();
        },
        &manifest, &levels));
    (void)Exchange(ManifestCodec::Encode(manifest, levels));
    for (const char* fabric : {"shm", "tcp"}) {
      Options options = NodeOptions(fabric);
      options.operation_timeout_ms = 2000;
      const Status status = TryOpen(options);
      EXPECT_FALSE(status.ok()) << "lie " << lie << " over " << fabric;
    }
  }
  (void)Exchange("not a manifest");
  EXPECT_TRUE(TryOpen(NodeOptions()).IsCorruption());
}

// Fails if merging tables that hold other keys or versions than the manifest says makes tables that
// lie over others, or in front of newer ones: wherever it is done.
TEST_F(HostileManifestTest, MergesStayWithinWhatItSays) {
  Options options = NodeOptions();
  options.level0_file_num_compaction_trigger = 100;
  options.level0_stop_writes_trigger = 200;
  {
    const auto db = OpenOrDie(options, "db");
    for (const char* value : {"old", "new"}) {
      for (uint64_t i = 0; i < 10; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    ASSERT_OK(db->Close());
  }
  const std::string honest = Exchange("");
  const std::vector<std::function<void(TableMeta*)>> lies = {
      [](TableMeta* meta) { meta->sequence_max = meta->sequence_min; },
      [](TableMeta* meta) { meta->largest = meta->smallest; },
      [](TableMeta* meta) { meta->smallest = meta->largest; },
  };
  for (size_t lie = 0; lie < lies.size(); ++lie) {
    std::vector<RemoteSpan> live;
    Manifest manifest;
    std::vector<Level> levels;
    ASSERT_OK(ManifestCodec::Decode(
        honest,
        [&](const TableMeta& meta, TableRef* table) {
          live.push_back(AllocatedSpan(meta.image));
          TableMeta told = meta;
          lies[lie](&told);
          *table = std::make_shared<const Table>(std::make_unique<FakeTableReader>(told), nullptr);
          return Status::OK();
        },
        &manifest, &levels));
    (void)Exchange(ManifestCodec::Encode(manifest, levels), live);
    for (const auto place : {CompactionPlace::kComputeNode, CompactionPlace::kMemoryNode}) {
      SCOPED_TRACE(testing::Message() << "lie " << lie << ", place " << static_cast<int>(place));
      options.compaction_place = place;
      const auto db = OpenOrDie(options, "db");
      ASSERT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 2u);
      EXPECT_FALSE(db->CompactRange(nullptr, nullptr).ok());
      EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 2u);
      db->Close().PermitUncheckedError();
    }
  }
}

// Fails if a sequence number loses its upper half somewhere between memtable, table and manifest.
TEST_F(HostileManifestTest, SequenceNumbersGoOnBeyond32Bits) {
  constexpr SequenceNumber kStart = (uint64_t{1} << 32) - 1000;
  {
    const auto db = OpenOrDie(NodeOptions(), "db");
    ASSERT_OK(db->Put(WriteOptions(), "first", "of all"));
    ASSERT_OK(db->Close());
  }
  std::vector<RemoteSpan> live;
  Manifest manifest;
  std::vector<Level> levels;
  ASSERT_OK(ManifestCodec::Decode(
      Exchange(""),
      [&live](const TableMeta& meta, TableRef* table) {
        live.push_back(AllocatedSpan(meta.image));
        *table = std::make_shared<const Table>(std::make_unique<FakeTableReader>(meta), nullptr);
        return Status::OK();
      },
      &manifest, &levels));
  manifest.last_sequence = kStart;
  (void)Exchange(ManifestCodec::Encode(manifest, levels), live);
  auto db = OpenOrDie(NodeOptions(), "db");
  const Snapshot* before = nullptr;
  for (uint64_t i = 0; i < 4000; ++i) {
    if (i == 500) before = db->GetSnapshot();
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i % 100), std::to_string(i)));
    if (i % 700 == 0) {
      ASSERT_OK(db->Flush(FlushOptions()));
    }
  }
  ReadOptions at_snapshot;
  at_snapshot.snapshot = before;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t key = 0; key < 100; ++key) {
      EXPECT_EQ(GetOr(db.get(), NumberedKey(key)), std::to_string(3900 + key));
      if (round == 0) {
        EXPECT_EQ(GetOr(db.get(), NumberedKey(key), at_snapshot), std::to_string(400 + key));
      }
    }
    EXPECT_EQ(GetOr(db.get(), "first"), "of all");
    if (round == 1) break;
    db->ReleaseSnapshot(before);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->Close());
    db = OpenOrDie(NodeOptions(), "db");
  }
  ASSERT_OK(db->Close());
}

// What a memory node's list names beyond the manifest is given back. Fails if that may be memory of
// another memory node, or of a table that the manifest names: it would be taken for given back, and
// no manifest that names it would be taken any more; or memory that there is not, at the end of the
// numbers: no memory node takes a message that names it, and so nothing would be given back at all.
TEST(HostileListTest, NamesMemoryOfItsOwnNodeAlone) {
  TestNodes nodes(2, "tcp");
  Options options = nodes.With(TinyOptions());
  options.placement = TablePlacement::kRoundRobin;
  options.level0_file_num_compaction_trigger = 100;  // No merges: tables stay on both.
  options.level0_stop_writes_trigger = 200;
  options.idle_size_amplification_percent = 0;
  const std::string value(1000, 'v');
  {
    const auto db = OpenOrDie(options, "db");
    for (int flush = 0; flush < 2; ++flush) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(1), value));
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    ASSERT_OK(db->Close());
  }
  std::vector<RemoteSpan> live;
  const auto add_to_list = [&](const std::vector<RemoteSpan>& more) {
    std::unique_ptr<NodeConnection> connection;
    ASSERT_OK(ConnectToMemoryNode(options, nodes[1].address(), &connection));
    std::unique_ptr<MemoryNodeSession> session;
    ASSERT_OK(
        MemoryNodeSession::Open(options, ShardTablesName("db", 0), &connection->rpc(), &session));
    LiveList list;
    ASSERT_OK(list.Decode(session->manifest()));
    if (live.empty()) live = list.spans;
    list.spans = live;
    list.spans.insert(list.spans.end(), more.begin(), more.end());
    ASSERT_OK(session->Put(list.Encode(), live));
    ASSERT_OK(session->Close());
  };
  add_to_list({});
  ASSERT_FALSE(live.empty());
  const std::vector<std::function<void(RemoteSpan*)>> lies = {
      [](RemoteSpan* span) { span->node = NodeId{1}; },  // The home.
      [](RemoteSpan* span) { span->region = RegionId{99}; },
      [](RemoteSpan* span) { span->offset += kRemoteAlignment; },
      [](RemoteSpan* span) {
        span->offset += kRemoteAlignment;
        span->bytes = UINT64_MAX;
      },
  };
  for (size_t lie = 0; lie < lies.size(); ++lie) {
    SCOPED_TRACE(testing::Message() << "lie " << lie);
    RemoteSpan span = live.front();
    lies[lie](&span);
    add_to_list({span});
    std::unique_ptr<DB> db;
    const Status refused = DB::Open(options, "db", &db);
    EXPECT_TRUE(refused.IsCorruption()) << refused.ToString();
    EXPECT_NE(refused.ToString().find(nodes[1].address()), std::string::npos) << refused.ToString();
  }
  add_to_list({});
  const auto db = OpenOrDie(options, "db");
  EXPECT_EQ(GetOr(db.get(), NumberedKey(1)), value);
  EXPECT_OK(db->Close());
}

}  // namespace
}  // namespace dlsm
