// What options of the C interface point to: comparators, filter policies and caches, which may be
// the caller's own, and prefix extractors.
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "db/c/c_handles.h"

using dlsm::Slice;
using dlsm::c::DeleteHandle;
using dlsm::c::NewHandle;

namespace {

class CComparator final : public dlsm::Comparator {
 public:
  using Destructor = void (*)(void*);
  using CompareFunction = int (*)(void*, const char*, size_t, const char*, size_t);
  using NameFunction = const char* (*)(void*);

  CComparator(void* state, Destructor destructor, CompareFunction compare, NameFunction name)
      : state_(state), destructor_(destructor), compare_(compare), name_(name) {}
  CComparator(const CComparator&) = delete;
  CComparator& operator=(const CComparator&) = delete;
  ~CComparator() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  int Compare(const Slice& a, const Slice& b) const override {
    return compare_(state_, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return name_(state_); }
  // C comparators cannot shorten keys.
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  void* const state_;
  const Destructor destructor_;
  const CompareFunction compare_;
  const NameFunction name_;
};

class CFilterPolicy final : public dlsm::FilterPolicy {
 public:
  using Destructor = void (*)(void*);
  using CreateFunction = char* (*)(void*, const char* const*, const size_t*, int, size_t*);
  using MatchFunction = uint8_t (*)(void*, const char*, size_t, const char*, size_t);
  using NameFunction = const char* (*)(void*);

  CFilterPolicy(void* state, Destructor destructor, CreateFunction create, MatchFunction match,
                NameFunction name)
      : state_(state), destructor_(destructor), create_(create), match_(match), name_(name) {}
  CFilterPolicy(const CFilterPolicy&) = delete;
  CFilterPolicy& operator=(const CFilterPolicy&) = delete;
  ~CFilterPolicy() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  const char* Name() const override { return name_(state_); }

  void CreateFilter(const Slice* keys, int n, std::string* filter) const override {
    std::vector<const char*> data;
    std::vector<size_t> sizes;
    for (const Slice* key = keys; key != keys + n; ++key) {
      data.push_back(key->data());
      sizes.push_back(key->size());
    }
    size_t bytes = 0;
    const std::unique_ptr<char, Free> made(create_(state_, data.data(), sizes.data(), n, &bytes));
    if (made == nullptr && bytes > 0) throw std::bad_alloc();  // As malloc() says it.
    if (bytes > 0) filter->append(made.get(), bytes);
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return match_(state_, key.data(), key.size(), filter.data(), filter.size()) != 0;
  }

 private:
  struct Free {
    void operator()(char* pointer) const { std::free(pointer); }
  };

  void* const state_;
  const Destructor destructor_;
  const CreateFunction create_;
  const MatchFunction match_;
  const NameFunction name_;
};

}  // namespace

extern "C" {

dlsm_comparator_t* dlsm_comparator_create(void* state, void (*destructor)(void*),
                                          int (*compare)(void*, const char*, size_t, const char*,
                                                         size_t),
                                          const char* (*name)(void*)) {
  if (compare == nullptr || name == nullptr) return nullptr;
  return NewHandle<dlsm_comparator_t>([&](dlsm_comparator_t* result) {
    result->comparator = std::make_shared<CComparator>(state, destructor, compare, name);
  });
}
void dlsm_comparator_destroy(dlsm_comparator_t* comparator) { DeleteHandle(comparator); }

dlsm_filterpolicy_t* dlsm_filterpolicy_create(void* state, void (*destructor)(void*),
                                              char* (*create_filter)(void*, const char* const*,
                                                                     const size_t*, int, size_t*),
                                              uint8_t (*key_may_match)(void*, const char*, size_t,
                                                                       const char*, size_t),
                                              const char* (*name)(void*)) {
  if (create_filter == nullptr || key_may_match == nullptr || name == nullptr) return nullptr;
  return NewHandle<dlsm_filterpolicy_t>([&](dlsm_filterpolicy_t* result) {
    result->policy =
        std::make_shared<CFilterPolicy>(state, destructor, create_filter, key_may_match, name);
  });
}
dlsm_filterpolicy_t* dlsm_filterpolicy_create_bloom(int bits_per_key) {
  return NewHandle<dlsm_filterpolicy_t>([&](dlsm_filterpolicy_t* result) {
    result->policy.reset(dlsm::NewBloomFilterPolicy(bits_per_key));
  });
}
void dlsm_filterpolicy_destroy(dlsm_filterpolicy_t* policy) { DeleteHandle(policy); }

dlsm_cache_t* dlsm_cache_create_lru(size_t capacity) {
  return NewHandle<dlsm_cache_t>(
      [&](dlsm_cache_t* result) { result->cache.reset(dlsm::NewLRUCache(capacity)); });
}
void dlsm_cache_destroy(dlsm_cache_t* cache) { DeleteHandle(cache); }

dlsm_slicetransform_t* dlsm_slicetransform_create_fixed_prefix(size_t bytes) {
  return NewHandle<dlsm_slicetransform_t>([&](dlsm_slicetransform_t* result) {
    result->transform.reset(dlsm::NewFixedPrefixTransform(bytes));
  });
}
dlsm_slicetransform_t* dlsm_slicetransform_create_capped_prefix(size_t bytes) {
  return NewHandle<dlsm_slicetransform_t>([&](dlsm_slicetransform_t* result) {
    result->transform.reset(dlsm::NewCappedPrefixTransform(bytes));
  });
}
void dlsm_slicetransform_destroy(dlsm_slicetransform_t* transform) { DeleteHandle(transform); }

}  // extern "C"
