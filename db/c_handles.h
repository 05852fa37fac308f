// What the handles of the C interface are, and what all of its functions share.
#pragma once

#include <memory>
#include <string>

#include "dLSM/c.h"
#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/write_batch.h"

// The names are the C interface's.
// NOLINTBEGIN(readability-identifier-naming)

struct dlsm_t {
  std::unique_ptr<dlsm::DB> db;
};
struct dlsm_cache_t {
  std::unique_ptr<dlsm::Cache> cache;
};
struct dlsm_iterator_t {
  // Its own, whatever becomes of the options. They go after the iterator.
  std::string lower_bytes;
  std::string upper_bytes;
  std::unique_ptr<dlsm::Iterator> iterator;
};
struct dlsm_options_t {
  dlsm::Options options;
};
struct dlsm_readoptions_t {
  dlsm::ReadOptions options;
  std::string lower_bytes;
  std::string upper_bytes;
  dlsm::Slice lower;
  dlsm::Slice upper;
};
struct dlsm_snapshot_t {
  const dlsm::Snapshot* snapshot;
};
struct dlsm_writebatch_t {
  dlsm::WriteBatch batch;
};
struct dlsm_writeoptions_t {
  dlsm::WriteOptions options;
};

struct dlsm_comparator_t final : public dlsm::Comparator {
  ~dlsm_comparator_t() override { destructor(state); }
  int Compare(const dlsm::Slice& a, const dlsm::Slice& b) const override {
    return compare(state, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return name(state); }
  // C comparators cannot shorten keys.
  void FindShortestSeparator(std::string*, const dlsm::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

  void* state;
  void (*destructor)(void*);
  int (*compare)(void*, const char*, size_t, const char*, size_t);
  const char* (*name)(void*);
};

struct dlsm_filterpolicy_t {
  std::unique_ptr<const dlsm::FilterPolicy> policy;
};

// NOLINTEND(readability-identifier-naming)

namespace dlsm::c {

// C has no zero-length objects to point at.
inline Slice ToSlice(const char* data, size_t bytes) {
  return bytes == 0 ? Slice() : Slice(data, bytes);
}

template <typename T>
T* NewHandle() {
  return std::make_unique<T>().release();
}

// Takes back what NewHandle() gave.
template <typename T>
void DeleteHandle(T* object) {
  const std::unique_ptr<T> owned(object);
}

}  // namespace dlsm::c
