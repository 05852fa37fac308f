// The secondary index that db_bench measures, and its queries.
//
// A record's index key is a hash of its key and of the start of its value, as eight bytes that sort
// like the number. So index keys are spread evenly, each update moves a record to another one, and
// a range of a certain width has a certain number of records on average.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/secondary_index.h"
#include "util/random.h"

namespace dlsm::bench {

// In the order of --secondary_index: none, eager, lazy.
inline constexpr size_t kNoIndex = 0;

std::string BenchIndexKey(const Slice& key, const Slice& value);

// Opens the index, and has it take in what is there.
Status OpenBenchIndex(DB* db, size_t upkeep, std::unique_ptr<IndexedDB>* indexed);

// The keys of records end here.
const Slice& EndOfRecords();

// Index keys in [begin, end), which have `records` of `num` records on average.
struct IndexKeyRange {
  std::string begin;
  std::string end;
};
IndexKeyRange RandomIndexRange(Random& random, uint64_t records, uint64_t num);

// The values of all records with index keys in [begin, end).
Status QueryBenchIndex(IndexedDB& indexed, const Slice& begin, const Slice& end,
                       std::vector<std::string>* values);

std::string DescribeBenchIndex(const IndexedDB& indexed);

}  // namespace dlsm::bench
