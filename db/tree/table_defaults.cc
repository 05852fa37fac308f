#include "db/tree/table_defaults.h"

#include <chrono>

#include "util/bloom_filter.h"
#include "util/built_in_comparator.h"
#include "util/cache/share_cache.h"

namespace dlsm {
namespace {

// A miss costs a round trip in less than one of a hundred tables that it asks. Where an index has
// fingerprints (byte_table_index.h), they deny most of what the filter lets through.
int DefaultBloomBits(const Options& options) {
  const bool fingerprints = options.table_format == TableFormat::kByteAddressable &&
                            options.comparator == BytewiseComparator();
  return fingerprints ? 10 : 14;
}

std::shared_ptr<const FilterPolicy> FilterPolicyFor(const Options& options) {
  const FilterPolicy* const policy = options.filter_policy;
  if (policy == Options::kNoFilter) return nullptr;
  if (policy == nullptr) {
    // The built-in policy goes by bytes. Another comparator may find keys equal of which the bytes
    // differ.
    if (!IsBuiltIn(options.comparator)) return nullptr;
    return std::make_shared<BloomFilterPolicy>(DefaultBloomBits(options));
  }
  if (const BloomFilterPolicy* const bloom = AsBuiltIn(policy); bloom != nullptr) {
    return std::make_shared<BloomFilterPolicy>(bloom->bits_per_key());
  }
  return {std::shared_ptr<void>(), policy};  // Owns nothing.
}

std::shared_ptr<Cache> BlockCacheFor(const Options& options) {
  if (options.table_format != TableFormat::kBlockBased) return nullptr;
  if (options.block_cache != nullptr) return ShareCache(options.block_cache);
  return std::shared_ptr<Cache>(NewLRUCache(kOwnBlockCacheBytes));
}

}  // namespace

TableObjects TableObjects::For(const Options& options) {
  return {FilterPolicyFor(options), BlockCacheFor(options)};
}

TableStore::Config TableStoreConfigOf(const Options& options, const TableObjects& objects) {
  TableStore::Config config;
  config.table.format = options.table_format;
  config.table.comparator = options.comparator;
  config.table.filter_policy = objects.filter_policy.get();
  config.table.block_bytes = options.block_size;
  config.table.restart_interval = options.block_restart_interval;
  config.table.compression = options.compression;
  config.comparator = InternalKeyComparator(options.comparator);
  config.block_cache = objects.block_cache.get();
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  return config;
}

}  // namespace dlsm
