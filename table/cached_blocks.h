// The blocks of one table in a cache that many tables share.
#pragma once

#include <cstdint>
#include <memory>

#include "dLSM/cache.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "table/block.h"
#include "table/table_reader.h"

namespace dlsm {

// Copies are of the same table. Thread-safe.
class CachedBlocks {
 public:
  // Nothing is kept.
  CachedBlocks() = default;
  // Of a table that has none there yet. `cache`, which may be null, outlives what is done here.
  explicit CachedBlocks(Cache* cache) : cache_(cache), id_(cache == nullptr ? 0 : cache->NewId()) {}

  // By the block's offset; null if absent.
  std::shared_ptr<const BlockPayload> Lookup(uint64_t offset) const;
  // Opens a block that is as `stored` says, and keeps it if `options` allow that. Only what is
  // right is kept: what was damaged on its way is not to be found again and again, and not by who
  // asks for verification.
  Status Open(uint64_t offset, const Slice& stored, const TableReadOptions& options,
              std::shared_ptr<const BlockPayload>* block) const;

 private:
  void Insert(uint64_t offset, std::shared_ptr<const BlockPayload> block) const;

  Cache* cache_ = nullptr;
  uint64_t id_ = 0;
};

}  // namespace dlsm
