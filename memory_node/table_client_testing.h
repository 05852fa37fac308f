// For tests: a client of a memory node that writes tables there, and reads what merges made of
// them.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "memory_node/memory_node_testing.h"
#include "table/cached_blocks.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "table/table_sink.h"
#include "util/status_testing.h"

namespace dlsm {

using Contents = std::map<std::string, std::string>;

inline Contents Numbers(int begin, int end, int step, const std::string& value) {
  Contents contents;
  for (int i = begin; i < end; i += step) {
    contents[fmt::format("{:08}", i)] = value.empty() ? value : fmt::format("{}-{}", value, i);
  }
  return contents;
}

// The connection of one thread's queue pair.
class OneQueuePair final : public QueuePairs {
 public:
  explicit OneQueuePair(FabricConnection* fabric) : fabric_(fabric) {}
  Status ForThisThread(NodeId /*node*/, QueuePair** queue_pair) override {
    if (made_ == nullptr || made_->closed()) {
      const Status status = fabric_->NewQueuePair(TestDeadline(), &made_);
      if (!status.ok()) return status;
    }
    *queue_pair = made_.get();
    return Status::OK();
  }
  Status NewBuffer(NodeId /*node*/, size_t bytes, RegisteredBuffer* buffer) override {
    return fabric_->NewBuffer(bytes, buffer);
  }

 private:
  FabricConnection* const fabric_;
  std::unique_ptr<QueuePair> made_;
};

class TableClient {
 public:
  explicit TableClient(std::unique_ptr<NodeConnection> connection)
      : connection_(std::move(connection)),
        queue_pairs_(&connection_->fabric()),
        client_(&connection_->rpc()) {}

  NodeConnection& connection() { return *connection_; }
  TestClient& client() { return client_; }

  void Transfer(const RemoteSpan& remote, std::string* bytes, bool write) {
    RegisteredBuffer buffer;
    ASSERT_OK(connection_->fabric().NewBuffer(bytes->size(), &buffer));
    const LocalSpan local = buffer.span().Sub(0, bytes->size());
    QueuePair* pair = nullptr;
    ASSERT_OK(queue_pairs_.ForThisThread(remote.node, &pair));
    Ticket ticket{};
    if (write) {
      std::copy(bytes->begin(), bytes->end(), buffer.data());
      ASSERT_OK(pair->PostWrite(local, remote, Purpose::kFlush, &ticket));
    } else {
      ASSERT_OK(pair->PostRead(remote, local, Purpose::kRead, &ticket));
    }
    ASSERT_OK(pair->Wait(ticket, TestDeadline()));
    if (!write) bytes->assign(buffer.data(), bytes->size());
  }

  // A table with these entries, written to a grant of its own; an empty value is a deletion.
  TableMeta WriteTable(const Contents& contents, SequenceNumber sequence) {
    std::string image(size_t{4} << 20, '\0');
    MemorySink sink(image.data(), image.size());
    const auto builder = NewTableBuilder(TableOptions(), &sink);
    for (const auto& [key, value] : contents) {
      std::string internal_key;
      AppendInternalKey(&internal_key, key, sequence,
                        value.empty() ? ValueType::kDeletion : ValueType::kValue);
      EXPECT_OK(builder->Add(internal_key, value, /*same=*/false));
    }
    TableMeta meta;
    std::string resident;
    EXPECT_OK(builder->Finish(&meta, &resident));
    EXPECT_OK(sink.Finish());
    image.resize(meta.image.bytes);
    meta.image = client_.Grant(meta.image.bytes).Sub(0, meta.image.bytes);
    Transfer(meta.image, &image, /*write=*/true);
    return meta;
  }

  Contents ReadTable(const TableMeta& meta) {
    std::string resident(meta.resident_span().bytes, '\0');
    Transfer(meta.resident_span(), &resident, /*write=*/false);
    std::unique_ptr<TableReader> reader;
    Contents contents;
    const Status opened =
        TableReader::Open(TableOptions(), meta, resident, nullptr, CachedBlocks(), &reader);
    EXPECT_OK(opened);
    if (!opened.ok()) return contents;
    const auto iterator = reader->NewIterator(TableReadOptions(), &queue_pairs_);
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      contents[ExtractUserKey(iterator->key()).ToString()] = iterator->value().ToString();
    }
    EXPECT_OK(iterator->status());
    return contents;
  }

 private:
  const std::unique_ptr<NodeConnection> connection_;
  OneQueuePair queue_pairs_;
  TestClient client_;
};

}  // namespace dlsm
