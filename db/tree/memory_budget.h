// What Options::memory_budget leaves for the indexes and filters of tables:
//
//   | memtables | value cache | block cache | buffers of transfers | indexes and filters |
//    <---------------------------- Options::memory_budget ---------------------------->
//
// Memtables, as many as there may be, and value cache count in full, whether they are there or not;
// block cache and buffers as they are just now.
// When indexes and filters take more than what is left, those of tables that were not read lately
// are dropped (db/background/shed_metadata.h) and fetched again when such a table is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dLSM/cache.h"
#include "dLSM/options.h"
#include "dLSM/status.h"

namespace dlsm {

// Thread-safe. Shared with the tables, for iterators may keep some beyond the end of the database.
class MemoryBudget {
 public:
  // Null if the options set none; they have been checked. `block_cache`, which may be null, is
  // looked at only by calls of metadata_max() and excess().
  static std::shared_ptr<MemoryBudget> For(const Options& options, const Cache* block_cache);
  // InvalidArgument if nothing would be left for indexes and filters. What is taken off has been
  // checked.
  static Status Check(const Options& options);

  MemoryBudget(uint64_t bytes, uint64_t fixed_bytes, const Cache* block_cache)
      : bytes_(bytes), fixed_bytes_(fixed_bytes), block_cache_(block_cache) {}

  // Of an index and filter that have been fetched or made, and are gone again.
  void Charge(uint64_t bytes) { metadata_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void Release(uint64_t bytes) { metadata_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Some are on their way out: gone as soon as nobody reads them any more.
  void NoteLeaving(uint64_t bytes) { leaving_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void NoteLeft(uint64_t bytes) { leaving_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t bytes() const { return bytes_; }
  uint64_t metadata_bytes() const { return metadata_bytes_.load(std::memory_order_relaxed); }
  uint64_t buffer_bytes() const { return buffer_bytes_->load(std::memory_order_relaxed); }
  // Counts them. It outlives the buffers, some of which may outlive everything else.
  const std::shared_ptr<std::atomic<uint64_t>>& buffer_counter() const { return buffer_bytes_; }

  // What indexes and filters may take just now.
  uint64_t metadata_max() const;
  // How much too much they take, without what is leaving.
  uint64_t excess() const;
  bool HasRoomFor(uint64_t bytes) const { return StayingBytes() + bytes <= metadata_max(); }

 private:
  uint64_t StayingBytes() const;

  const uint64_t bytes_;
  const uint64_t fixed_bytes_;  // Memtables and value cache.
  const Cache* const block_cache_;
  std::atomic<uint64_t> metadata_bytes_{0};
  std::atomic<uint64_t> leaving_bytes_{0};
  const std::shared_ptr<std::atomic<uint64_t>> buffer_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace dlsm
