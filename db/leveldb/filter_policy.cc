// leveldb::FilterPolicy: the built-in one, and those of programs.
#include "leveldb/filter_policy.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/leveldb/adapters.h"
#include "db/leveldb/same_class.h"
#include "db/leveldb/translate.h"
#include "util/coding.h"

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

}  // namespace leveldb

namespace dlsm::compat {
namespace {

class Bloom final : public leveldb::FilterPolicy {
 public:
  explicit Bloom(int bits_per_key)
      : bits_per_key_(bits_per_key < 1 ? 1 : bits_per_key),
        own_(dlsm::NewBloomFilterPolicy(bits_per_key_)) {
    Class().Is(this);
  }

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }
  void CreateFilter(const leveldb::Slice* keys, int n, std::string* dst) const override {
    std::vector<dlsm::Slice> own_keys;
    own_keys.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) own_keys.push_back(ToDlsm(keys[i]));
    // What the caller has in *dst before is no part of the filter.
    std::string filter;
    own_->CreateFilter(own_keys.data(), n, &filter);
    dst->append(filter);
  }
  bool KeyMayMatch(const leveldb::Slice& key, const leveldb::Slice& filter) const override {
    return own_->KeyMayMatch(ToDlsm(key), ToDlsm(filter));
  }

  int bits_per_key() const { return bits_per_key_; }

  static SameClass& Class() {
    static constinit SameClass bloom;
    return bloom;
  }

 private:
  const int bits_per_key_;
  const std::unique_ptr<const dlsm::FilterPolicy> own_;
};

class Any final : public dlsm::FilterPolicy {
 public:
  explicit Any(const leveldb::FilterPolicy* policy) : policy_(policy) {
    // A built-in one may go before the database.
    const int bits = policy == nullptr ? 0 : BitsOfBuiltIn(*policy);
    if (bits == 0) return;
    built_in_ = std::make_unique<Bloom>(bits);
    policy_ = built_in_.get();
  }

  const char* Name() const override { return kAnyFilterName; }
  void CreateFilter(const dlsm::Slice* keys, int n, std::string* filter) const override {
    dlsm::PutLengthPrefixed(filter, policy_ == nullptr ? dlsm::Slice() : policy_->Name());
    if (policy_ == nullptr) return;
    std::vector<leveldb::Slice> own_keys;
    own_keys.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) own_keys.push_back(ToLeveldb(keys[i]));
    std::string made;
    policy_->CreateFilter(own_keys.data(), n, &made);
    filter->append(made);
  }
  bool KeyMayMatch(const dlsm::Slice& key, const dlsm::Slice& filter) const override {
    dlsm::Slice rest = filter;
    dlsm::Slice name;
    if (policy_ == nullptr || !dlsm::GetLengthPrefixed(&rest, &name)) return true;
    if (name != dlsm::Slice(policy_->Name())) return true;
    return policy_->KeyMayMatch(ToLeveldb(key), ToLeveldb(rest));
  }

 private:
  const leveldb::FilterPolicy* policy_;
  std::unique_ptr<const Bloom> built_in_;
};

}  // namespace

int BitsOfBuiltIn(const leveldb::FilterPolicy& policy) {
  if (!Bloom::Class().Has(&policy)) return 0;
  return static_cast<const Bloom&>(policy).bits_per_key();
}

std::unique_ptr<const dlsm::FilterPolicy> AnyFilter(const leveldb::FilterPolicy* policy) {
  return std::make_unique<Any>(policy);
}

}  // namespace dlsm::compat

namespace leveldb {

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) {
  return std::make_unique<const dlsm::compat::Bloom>(bits_per_key).release();
}

}  // namespace leveldb
