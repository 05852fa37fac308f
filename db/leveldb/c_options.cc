// The C interface: options, and the objects that they name.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/c_handles.h"
#include "leveldb/c.h"

using leveldb::Slice;

namespace {

// The destructor of a program's state; null if it wants none.
using StateDeleter = void (*)(void*);

class ComparatorInC final : public leveldb::Comparator {
 public:
  using CompareFunction = int (*)(void*, const char*, size_t, const char*, size_t);
  using NameFunction = const char* (*)(void*);

  ComparatorInC(void* state, StateDeleter deleter, CompareFunction compare, NameFunction name)
      : state_(state), deleter_(deleter), compare_(compare), name_(name) {}
  ~ComparatorInC() override {
    if (deleter_ != nullptr) deleter_(state_);
  }

  int Compare(const Slice& a, const Slice& b) const override {
    return compare_(state_, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return name_(state_); }
  // The C interface has no functions for these.
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  void* const state_;
  const StateDeleter deleter_;
  const CompareFunction compare_;
  const NameFunction name_;
};

class FilterPolicyInC final : public leveldb::FilterPolicy {
 public:
  using CreateFunction = char* (*)(void*, const char* const*, const size_t*, int, size_t*);
  using MatchFunction = uint8_t (*)(void*, const char*, size_t, const char*, size_t);
  using NameFunction = const char* (*)(void*);

  FilterPolicyInC(void* state, StateDeleter deleter, CreateFunction create, MatchFunction match,
                  NameFunction name)
      : state_(state), deleter_(deleter), create_(create), match_(match), name_(name) {}
  ~FilterPolicyInC() override {
    if (deleter_ != nullptr) deleter_(state_);
  }

  const char* Name() const override { return name_(state_); }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    std::vector<const char*> pointers;
    std::vector<size_t> sizes;
    for (int i = 0; i < n; ++i) {
      pointers.push_back(keys[i].data());
      sizes.push_back(keys[i].size());
    }
    size_t bytes = 0;
    char* const filter = create_(state_, pointers.data(), sizes.data(), n, &bytes);
    if (filter != nullptr) dst->append(filter, bytes);
    std::free(filter);
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return match_(state_, key.data(), key.size(), filter.data(), filter.size()) != 0;
  }

 private:
  void* const state_;
  const StateDeleter deleter_;
  const CreateFunction create_;
  const MatchFunction match_;
  const NameFunction name_;
};

}  // namespace

extern "C" {

leveldb_options_t* leveldb_options_create(void) {
  return std::make_unique<leveldb_options_t>().release();
}
void leveldb_options_destroy(leveldb_options_t* options) {
  const std::unique_ptr<leveldb_options_t> deleted(options);
}
void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator) {
  options->objects.comparator = comparator == nullptr ? nullptr : comparator->comparator;
  options->options.comparator =
      comparator == nullptr ? leveldb::BytewiseComparator() : comparator->comparator.get();
}
void leveldb_options_set_filter_policy(leveldb_options_t* options, leveldb_filterpolicy_t* policy) {
  options->objects.filter_policy = policy == nullptr ? nullptr : policy->filter_policy;
  options->options.filter_policy = options->objects.filter_policy.get();
}
void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t value) {
  options->options.create_if_missing = value != 0;
}
void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t value) {
  options->options.error_if_exists = value != 0;
}
void leveldb_options_set_paranoid_checks(leveldb_options_t* options, uint8_t value) {
  options->options.paranoid_checks = value != 0;
}
void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env) {
  options->options.env = env == nullptr ? nullptr : env->env;
}
void leveldb_options_set_info_log(leveldb_options_t* options, leveldb_logger_t* logger) {
  options->options.info_log = logger == nullptr ? nullptr : logger->logger;
}
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes) {
  options->options.write_buffer_size = bytes;
}
void leveldb_options_set_max_open_files(leveldb_options_t* options, int files) {
  options->options.max_open_files = files;
}
void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache) {
  options->objects.cache = cache == nullptr ? nullptr : cache->cache;
  options->options.block_cache = options->objects.cache.get();
}
void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes) {
  options->options.block_size = bytes;
}
void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int entries) {
  options->options.block_restart_interval = entries;
}
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes) {
  options->options.max_file_size = bytes;
}
void leveldb_options_set_compression(leveldb_options_t* options, int compression) {
  options->options.compression = static_cast<leveldb::CompressionType>(compression);
}

leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                int (*compare)(void*, const char*, size_t,
                                                               const char*, size_t),
                                                const char* (*name)(void*)) {
  auto comparator = std::make_unique<leveldb_comparator_t>();
  comparator->comparator = std::make_shared<ComparatorInC>(state, destructor, compare, name);
  return comparator.release();
}
void leveldb_comparator_destroy(leveldb_comparator_t* comparator) {
  const std::unique_ptr<leveldb_comparator_t> deleted(comparator);
}

leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const*, const size_t*, int, size_t*),
    uint8_t (*key_may_match)(void*, const char*, size_t, const char*, size_t),
    const char* (*name)(void*)) {
  auto policy = std::make_unique<leveldb_filterpolicy_t>();
  policy->filter_policy =
      std::make_shared<FilterPolicyInC>(state, destructor, create_filter, key_may_match, name);
  return policy.release();
}
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key) {
  auto policy = std::make_unique<leveldb_filterpolicy_t>();
  policy->filter_policy.reset(leveldb::NewBloomFilterPolicy(bits_per_key));
  return policy.release();
}
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy) {
  const std::unique_ptr<leveldb_filterpolicy_t> deleted(policy);
}

leveldb_readoptions_t* leveldb_readoptions_create(void) {
  return std::make_unique<leveldb_readoptions_t>().release();
}
void leveldb_readoptions_destroy(leveldb_readoptions_t* options) {
  const std::unique_ptr<leveldb_readoptions_t> deleted(options);
}
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, uint8_t value) {
  options->options.verify_checksums = value != 0;
}
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, uint8_t value) {
  options->options.fill_cache = value != 0;
}
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
                                      const leveldb_snapshot_t* snapshot) {
  options->options.snapshot = snapshot == nullptr ? nullptr : snapshot->snapshot;
}

leveldb_writeoptions_t* leveldb_writeoptions_create(void) {
  return std::make_unique<leveldb_writeoptions_t>().release();
}
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options) {
  const std::unique_ptr<leveldb_writeoptions_t> deleted(options);
}
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t value) {
  options->options.sync = value != 0;
}

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity) {
  auto cache = std::make_unique<leveldb_cache_t>();
  cache->cache.reset(leveldb::NewLRUCache(capacity));
  return cache.release();
}
void leveldb_cache_destroy(leveldb_cache_t* cache) {
  const std::unique_ptr<leveldb_cache_t> deleted(cache);
}

leveldb_env_t* leveldb_create_default_env(void) {
  auto env = std::make_unique<leveldb_env_t>();
  env->env = leveldb::Env::Default();
  return env.release();
}
void leveldb_env_destroy(leveldb_env_t* env) { const std::unique_ptr<leveldb_env_t> deleted(env); }
char* leveldb_env_get_test_directory(leveldb_env_t* env) {
  std::string path;
  return env->env->GetTestDirectory(&path).ok() ? dlsm::compat::CopyByMalloc(path) : nullptr;
}

}  // extern "C"
