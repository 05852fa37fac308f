// Builds and reads tables for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/cached_blocks.h"
#include "table/internal_key.h"
#include "table/memory_queue_pairs_testing.h"
#include "table/remote_sink.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "util/status_testing.h"

namespace dlsm {

// Internal key and value.
using TestRecord = std::pair<std::string, std::string>;
using TestRecords = std::vector<TestRecord>;

inline std::string MakeInternalKey(const Slice& user_key, SequenceNumber sequence,
                                   ValueType type = ValueType::kValue) {
  std::string key;
  AppendInternalKey(&key, user_key, sequence, type);
  return key;
}

inline void SortRecords(const Comparator* comparator, TestRecords* records) {
  const InternalKeyComparator order(comparator);
  std::sort(records->begin(), records->end(), [&order](const TestRecord& a, const TestRecord& b) {
    return order.Compare(a.first, b.first) < 0;
  });
}

struct TestTable {
  TableMeta meta;
  std::string resident;
  std::unique_ptr<TableReader> reader;
};

inline Status OpenTestTable(const TableOptions& options, Cache* cache, TestTable* table) {
  return TableReader::Open(options, table->meta, table->resident, nullptr, CachedBlocks(cache),
                           &table->reader);
}

// Checks on the way that the builder keeps its bounds.
inline void BuildTestTable(const TableOptions& options, const TestRecords& records,
                           TestMemory* memory, QueuePairs* queue_pairs, TestTable* table,
                           Cache* cache = nullptr) {
  const InternalKeyComparator comparator(options.comparator);
  const std::unique_ptr<TableBuilder> empty = NewTableBuilder(options, nullptr);
  uint64_t capacity = empty->ImageBytesBound();
  for (const auto& [key, value] : records) {
    capacity += empty->RecordBytesBound(key.size(), value.size());
  }
  const RemoteSpan image = memory->Allocate(capacity);
  std::unique_ptr<TableSink> sink;
  ASSERT_OK(RemoteSink::Open(image, queue_pairs, Purpose::kFlush, std::chrono::seconds(10), &sink));
  const std::unique_ptr<TableBuilder> builder = NewTableBuilder(options, sink.get());
  const std::string* last = nullptr;
  for (const auto& [key, value] : records) {
    const uint64_t bound =
        builder->ImageBytesBound() + builder->RecordBytesBound(key.size(), value.size());
    const bool same = last != nullptr &&
                      comparator.CompareUserKeys(ExtractUserKey(*last), ExtractUserKey(key)) == 0;
    ASSERT_OK(builder->Add(key, value, same));
    last = &key;
    ASSERT_LE(builder->ImageBytesBound(), bound);
  }
  const uint64_t bound = builder->ImageBytesBound();
  ASSERT_OK(builder->Finish(&table->meta, &table->resident));
  ASSERT_LE(table->meta.image.bytes, bound);
  ASSERT_EQ(table->meta.entries, records.size());
  const uint64_t bytes = table->meta.image.bytes;
  table->meta.image = image.Sub(0, bytes);
  ASSERT_OK(OpenTestTable(options, cache, table));
}

// A point lookup as a database does it. `value` is set if the key was found.
inline Status LookUp(const TableReader& reader, const Slice& user_key, SequenceNumber sequence,
                     QueuePairs* queue_pairs, LookupState* state, std::string* value,
                     bool verify_checksums = true) {
  const LookupKey key(user_key, sequence);
  *state = LookupState::kAbsent;
  TableProbe probe;
  if (!reader.Find(key, /*filtered=*/false, &probe)) return Status::OK();
  std::string fetched(probe.cached == nullptr ? probe.span.bytes : 0, '\0');
  if (probe.cached == nullptr) {
    QueuePair* queue_pair = nullptr;
    Status status = queue_pairs->ForThisThread(probe.span.node, &queue_pair);
    if (!status.ok()) return status;
    Ticket ticket{};
    const LocalSpan to{fetched.data(), fetched.size(), 0};
    status = queue_pair->PostRead(probe.span, to, Purpose::kRead, &ticket);
    if (status.ok()) status = queue_pair->Wait(ticket, Deadline::In(std::chrono::seconds(10)));
    if (!status.ok()) return status;
  }
  TableReadOptions options;
  options.verify_checksums = verify_checksums;
  LookupResult result;
  const Status status = reader.Decode(key, probe, fetched, options, &result);
  if (!status.ok()) return status;
  *state = result.state;
  if (result.state == LookupState::kFound) *value = result.value.ToString();
  return Status::OK();
}

}  // namespace dlsm
