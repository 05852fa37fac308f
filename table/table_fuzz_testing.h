// Any bytes as the image of a table, read in every way. Nothing may crash, hang, or leave the
// bytes.
//
//   input:   | data bytes: 2 | index bytes: 2 | entries: 2 | data | index | filter |
//
// The checksums of index and filter are made right first, so that what lies behind them is reached.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "table/cached_blocks.h"
#include "table/memory_queue_pairs_testing.h"
#include "table/table_reader.h"
#include "util/bloom_filter.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {

inline void MendChecksum(char* bytes, size_t size) {
  if (size < 4) return;
  EncodeFixed32(bytes + size - 4, Crc32c(bytes, size - 4));
}

inline void WalkTable(const TableReader& reader, QueuePairs* queue_pairs) {
  TableReadOptions options;
  options.verify_checksums = false;
  options.prefetch_bytes = 16;
  const auto iterator = reader.NewIterator(options, queue_pairs);
  // Backward the index decides, and it may send the reader back and forth.
  const uint64_t steps_max = 2 * reader.meta().data_bytes;
  uint64_t steps = 0;
  for (iterator->SeekToFirst(); iterator->Valid() && steps < steps_max; iterator->Next()) ++steps;
  steps = 0;
  for (iterator->SeekToLast(); iterator->Valid() && steps < steps_max; iterator->Prev()) ++steps;
  std::string target = "m";
  PutFixed64(&target, PackTrailer(7, ValueType::kValue));
  iterator->Seek(target);
  if (iterator->Valid()) iterator->Prev();
  (void)reader.ApproximateOffsetOf(target);
}

inline void ProbeTable(const TableReader& reader, const Slice& user_key, TestMemory* memory) {
  for (const SequenceNumber sequence : {SequenceNumber{0}, SequenceNumber{9}, kSequenceNumberMax}) {
    const LookupKey key(user_key, sequence);
    for (const bool by_steps : {false, true}) {
      TableProbe probe;
      if (by_steps) {
        reader.Approach(key, &probe);
        reader.ApproachFurther(key, &probe);
        // Near the record, and within the table.
        assert(probe.span.bytes == 0 || memory->At(probe.span) != nullptr);
      }
      if (!reader.Find(key, /*filtered=*/false, &probe)) continue;
      const char* const bytes = memory->At(probe.span);
      assert(bytes != nullptr);  // A span outside the table's image.
      const std::string fetched(bytes, probe.span.bytes);
      TableReadOptions options;
      options.verify_checksums = false;
      LookupResult result;
      reader.Decode(key, probe, fetched, options, &result).PermitUncheckedError();
    }
  }
}

inline void FuzzTable(TableFormat format, const uint8_t* data, size_t size) {
  if (size < 6) return;
  std::string image(reinterpret_cast<const char*>(data) + 6, size - 6);
  const auto field = [data](size_t i) { return static_cast<uint64_t>(data[i] | data[i + 1] << 8); };
  TableMeta meta;
  meta.format = format;
  meta.data_bytes = field(0) % (image.size() + 1);
  meta.index_bytes = field(2) % (image.size() - meta.data_bytes + 1);
  meta.filter_bytes = image.size() - meta.data_bytes - meta.index_bytes;
  meta.entries = field(4);
  meta.smallest = std::string(8, '\0');
  meta.largest = std::string(8, '\0');
  MendChecksum(image.data() + meta.data_bytes, meta.index_bytes);
  MendChecksum(image.data() + meta.data_bytes + meta.index_bytes, meta.filter_bytes);

  TestMemory memory;
  meta.image = memory.Allocate(image.size());
  if (!image.empty()) std::memcpy(memory.At(meta.image), image.data(), image.size());
  const BloomFilterPolicy bloom(10);
  TableOptions options;
  options.format = format;
  options.filter_policy = &bloom;
  std::unique_ptr<TableReader> reader;
  const Slice resident(image.data() + meta.data_bytes, meta.index_bytes + meta.filter_bytes);
  if (!TableReader::Open(options, meta, resident, nullptr, CachedBlocks(), &reader).ok()) return;
  for (const bool direct : {true, false}) {
    MemoryQueuePairs queue_pairs(&memory, direct);
    WalkTable(*reader, &queue_pairs);
  }
  for (const char* key : {"", "a", "m", "zzzzzzzzzzzzzzzz"}) ProbeTable(*reader, key, &memory);
}

}  // namespace dlsm
