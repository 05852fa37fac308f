// Objects of a LevelDB program that is compiled without run-time type information (-fno-rtti).
#pragma once

#include <atomic>
#include <memory>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"

namespace dlsm::compat {

// Takes small and capital letters for equal.
std::unique_ptr<const leveldb::Comparator> CaseBlindComparator();

// Its filters are "fake"; it aborts where it is given others. They match if *matches.
std::unique_ptr<const leveldb::FilterPolicy> FakeFilterPolicy(const std::atomic<bool>* matches);

// Passes all on to a cache from NewLRUCache(), and counts insertions.
std::unique_ptr<leveldb::Cache> CountingCache(size_t capacity, std::atomic<int>* insertions);

}  // namespace dlsm::compat
