#include "db/table_defaults.h"

namespace dlsm {

const FilterPolicy* FilterPolicyOf(const Options& options,
                                   std::unique_ptr<const FilterPolicy>* own) {
  // A miss then costs a round trip in less than one of a hundred tables that it asks, several of
  // which overlap.
  constexpr int kBloomBits = 14;
  if (options.filter_policy == Options::kNoFilter) return nullptr;
  if (options.filter_policy != nullptr) return options.filter_policy;
  own->reset(NewBloomFilterPolicy(kBloomBits));
  return own->get();
}

std::unique_ptr<Cache> OwnBlockCacheFor(const Options& options) {
  constexpr size_t kBytes = size_t{8} << 20;
  if (options.block_cache != nullptr || options.table_format != TableFormat::kBlockBased) {
    return nullptr;
  }
  return std::unique_ptr<Cache>(NewLRUCache(kBytes));
}

}  // namespace dlsm
