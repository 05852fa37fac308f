#include "db/tree/memory_budget.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "db/memtable/memtable.h"
#include "db/tree/table_defaults.h"

namespace dlsm {
namespace {

// With less, each read would fetch the index of its table, however small the tables are.
constexpr uint64_t kMetadataBytesMin = uint64_t{64} << 10;

// Of memtables and value cache. All three have bounds, with which this fits into 64 bits.
uint64_t FixedBytes(const Options& options) {
  assert(options.write_buffer_size <= Memtable::kBytesMax);
  const uint64_t memtables = static_cast<uint64_t>(options.write_buffer_size) *
                             static_cast<uint64_t>(options.max_write_buffer_number);
  return memtables + options.value_cache_size;
}

}  // namespace

std::shared_ptr<MemoryBudget> MemoryBudget::For(const Options& options, const Cache* block_cache) {
  if (options.memory_budget == 0) return nullptr;
  return std::make_shared<MemoryBudget>(options.memory_budget, FixedBytes(options), block_cache);
}

Status MemoryBudget::Check(const Options& options) {
  if (options.memory_budget == 0) return Status::OK();
  const bool own_cache =
      options.block_cache == nullptr && options.table_format == TableFormat::kBlockBased;
  const uint64_t taken = FixedBytes(options) + (own_cache ? kOwnBlockCacheBytes : 0);
  if (options.memory_budget >= taken + kMetadataBytesMin) return Status::OK();
  return Status::InvalidArgument(
      "Options::memory_budget is too small",
      "memtables and caches take up to " + std::to_string(taken) + " bytes of it, and at least " +
          std::to_string(kMetadataBytesMin) +
          " must be left for indexes and filters: raise it, or lower write_buffer_size, "
          "max_write_buffer_number or value_cache_size");
}

uint64_t MemoryBudget::metadata_max() const {
  const uint64_t cached = block_cache_ == nullptr ? 0 : block_cache_->TotalCharge();
  const uint64_t others = fixed_bytes_ + cached + buffer_bytes();
  return std::max(bytes_ - std::min(bytes_, others), kMetadataBytesMin);
}

// The two counters are read one after the other: a table may leave in between.
uint64_t MemoryBudget::StayingBytes() const {
  const uint64_t leaving = leaving_bytes_.load(std::memory_order_relaxed);
  const uint64_t all = metadata_bytes();
  return all - std::min(all, leaving);
}

uint64_t MemoryBudget::excess() const {
  const uint64_t staying = StayingBytes();
  return staying - std::min(staying, metadata_max());
}

}  // namespace dlsm
