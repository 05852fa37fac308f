#include "db/table_defaults.h"

#include <chrono>

namespace dlsm {

const FilterPolicy* FilterPolicyOf(const Options& options,
                                   std::unique_ptr<const FilterPolicy>* own) {
  // A miss costs a round trip in less than one of a hundred tables that it asks. Where an index has
  // fingerprints (byte_table_index.h), they deny most of what the filter lets through.
  const bool fingerprints = options.table_format == TableFormat::kByteAddressable &&
                            options.comparator == BytewiseComparator();
  const int bloom_bits = fingerprints ? 10 : 14;
  if (options.filter_policy == Options::kNoFilter) return nullptr;
  if (options.filter_policy != nullptr) return options.filter_policy;
  own->reset(NewBloomFilterPolicy(bloom_bits));
  return own->get();
}

std::unique_ptr<Cache> OwnBlockCacheFor(const Options& options) {
  if (options.block_cache != nullptr || options.table_format != TableFormat::kBlockBased) {
    return nullptr;
  }
  return std::unique_ptr<Cache>(NewLRUCache(kOwnBlockCacheBytes));
}

TableStore::Config TableStoreConfigOf(const Options& options, const FilterPolicy* filter_policy,
                                      Cache* block_cache) {
  TableStore::Config config;
  config.table.format = options.table_format;
  config.table.comparator = options.comparator;
  config.table.filter_policy = filter_policy;
  config.table.block_bytes = options.block_size;
  config.table.restart_interval = options.block_restart_interval;
  config.table.compression = options.compression;
  config.comparator = InternalKeyComparator(options.comparator);
  config.block_cache = block_cache;
  config.timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  return config;
}

}  // namespace dlsm
