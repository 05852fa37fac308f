#include "db/table_defaults.h"

#include <chrono>

namespace dlsm {

const FilterPolicy* FilterPolicyOf(const Options& options,
                                   std::unique_ptr<const FilterPolicy>* own) {
  // What one in a hundred filters says of a missing key in vain, the index's fingerprints mostly
  // take back. More bits cost more memory than they save misses.
  constexpr int kBloomBits = 10;
  if (options.filter_policy == Options::kNoFilter) return nullptr;
  if (options.filter_policy != nullptr) return options.filter_policy;
  own->reset(NewBloomFilterPolicy(kBloomBits));
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
