#include "benchmarks/bench_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "util/hash.h"

namespace dlsm::bench {
namespace {

constexpr const char* kName = "bench";
// What differs between two values of a record.
constexpr size_t kValueStart = 32;

std::string BigEndian(uint64_t number) {
  std::string bytes(sizeof(number), '\0');
  for (size_t i = bytes.size(); i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

}  // namespace

std::string BenchIndexKey(const Slice& key, const Slice& value) {
  const Slice start(value.data(), std::min(value.size(), kValueStart));
  return BigEndian(SplitMix64(Hash64(key) ^ SplitMix64(Hash64(start))));
}

Status OpenBenchIndex(DB* db, size_t upkeep, std::unique_ptr<IndexedDB>* indexed) {
  const IndexUpkeep kind = upkeep == 1 ? IndexUpkeep::kEager : IndexUpkeep::kLazy;
  const IndexExtractor extract = [](const Slice& key, const Slice& value,
                                    std::vector<std::string>* index_keys) {
    index_keys->push_back(BenchIndexKey(key, value));
  };
  Status status = IndexedDB::Open(db, {{kName, extract, kind}}, {}, indexed);
  return status.ok() ? (*indexed)->Build(kName) : status;
}

const Slice& EndOfRecords() {
  static const std::string kPrefix = IndexedDBOptions().prefix;
  static const Slice kEnd(kPrefix);
  return kEnd;
}

IndexKeyRange RandomIndexRange(Random& random, uint64_t records, uint64_t num) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const uint64_t width = records >= num ? kMost : kMost / num * records;
  const uint64_t begin = width == kMost ? 0 : random.Uniform(kMost - width);
  return {BigEndian(begin), BigEndian(begin + width)};
}

Status QueryBenchIndex(IndexedDB& indexed, const Slice& begin, const Slice& end,
                       std::vector<std::string>* values) {
  values->clear();
  const std::unique_ptr<IndexIterator> it = indexed.Query({}, kName, {&begin, &end});
  for (; it->Valid(); it->Next()) values->push_back(it->value().ToString());
  return it->status();
}

std::string DescribeBenchIndex(const IndexedDB& indexed) {
  const IndexCounters counters = indexed.counters();
  return fmt::format(
      "\nsecondary index: records written {}, records read by writes {}, entries written {}, "
      "entries deleted {}, queries {}, candidates {}, stale {}, cleaned {}\n",
      counters.records_written, counters.records_read, counters.entries_written,
      counters.entries_deleted, counters.queries, counters.candidates, counters.stale_candidates,
      counters.entries_cleaned);
}

}  // namespace dlsm::bench
