#include "db/leveldb/own_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "db/leveldb/adapters.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

}  // namespace leveldb

namespace dlsm::compat {

OwnOptions::OwnOptions(const leveldb::Options& given) : given_filter_(given.filter_policy) {
  options_.create_if_missing = given.create_if_missing;
  options_.error_if_exists = given.error_if_exists;
  options_.paranoid_checks = given.paranoid_checks;
  options_.write_buffer_size =
      std::clamp(given.write_buffer_size, size_t{64} << 10, size_t{1} << 30);
  options_.max_file_size = std::clamp(given.max_file_size, size_t{1} << 20, size_t{1} << 30);
  // LevelDB has one thread in the background. A program may have hundreds of databases open.
  options_.max_background_flushes = 1;
  options_.max_background_compactions = 1;
  options_.max_subcompactions = 1;
  SetComparator(given.comparator);
  SetFormat(given);
  SetFilter(Filter::kWanted);
}

void OwnOptions::SetComparator(const leveldb::Comparator* given) {
  if (given == nullptr) return;
  comparator_ = AdaptComparator(*given);
  if (comparator_ != nullptr) options_.comparator = comparator_.get();
}

void OwnOptions::SetFormat(const leveldb::Options& given) {
  options_.block_size = std::clamp(given.block_size, size_t{1} << 10, size_t{4} << 20);
  options_.block_restart_interval = std::clamp(given.block_restart_interval, 1, 1000000);
  if (given.compression == leveldb::kNoCompression) return;
  options_.table_format = dlsm::TableFormat::kBlockBased;
  options_.compression = dlsm::kSnappyCompression;
  if (given.block_cache != nullptr) {
    options_.block_cache = AdaptCache(given.block_cache, &cache_);
  }
  if (given.compression != leveldb::kSnappyCompression) {
    warning_ = fmt::format("compression {} is not there; blocks are compressed by snappy",
                           static_cast<int>(given.compression));
  }
}

void OwnOptions::SetFilter(Filter filter) {
  const int bits = given_filter_ == nullptr ? 0 : BitsOfBuiltIn(*given_filter_);
  if (filter == Filter::kWanted) {
    filter = given_filter_ != nullptr && bits == 0 ? Filter::kAny : Filter::kBuiltIn;
    // Of an order of the program's own nobody but the program knows whether filters may go by
    // bytes.
    if (given_filter_ == nullptr && comparator_ != nullptr) filter = Filter::kNone;
  }
  constexpr int kDefaultBits = 10;
  options_.filter_policy = nullptr;
  // dLSM's own default fits the format of tables.
  if (filter == Filter::kBuiltIn && given_filter_ == nullptr && comparator_ == nullptr) return;
  switch (filter) {
    case Filter::kAny:
      filter_ = AnyFilter(given_filter_);
      break;
    case Filter::kNone:
      options_.filter_policy = dlsm::Options::kNoFilter;
      return;
    default:
      filter_.reset(dlsm::NewBloomFilterPolicy(bits == 0 ? kDefaultBits : bits));
      break;
  }
  options_.filter_policy = filter_.get();
}

}  // namespace dlsm::compat
