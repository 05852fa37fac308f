// The records of one table in the cache that all tables of a handle share. Goes with the table.
#pragma once

#include <memory>
#include <utility>

#include "dLSM/slice.h"
#include "table/record.h"
#include "util/cache/value_cache.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// Thread-safe.
class CachedRecords {
 public:
  explicit CachedRecords(std::shared_ptr<ValueCache> cache)
      : cache_(std::move(cache)), table_(cache_->NewTable()) {}
  // No read can ask for them any more: a view that has the table has this.
  ~CachedRecords() { cache_->NoteDead(table_); }
  CachedRecords(const CachedRecords&) = delete;
  CachedRecords& operator=(const CachedRecords&) = delete;

  // *bytes is what a transfer of `span`, of the table, would bring; the calling thread's until it
  // looks up again in any table.
  bool Lookup(const RemoteSpan& span, Slice* bytes) const {
    return cache_->Lookup({table_, span.offset, span.bytes}, bytes);
  }
  // Only whole records go in: what is damaged on its way here is not to be found again and again.
  // `verified`: its checksum has been looked at.
  ValueCache::Change Insert(const RemoteSpan& span, const Slice& bytes, bool verified) const {
    Record record;
    const char* const end = bytes.data() + bytes.size();
    if (!verified && !(ParseRecord(bytes.data(), end, &record) && VerifyRecord(record))) return {};
    return cache_->Insert({table_, span.offset, span.bytes}, bytes);
  }

 private:
  const std::shared_ptr<ValueCache> cache_;
  const uint64_t table_;
};

}  // namespace dlsm
