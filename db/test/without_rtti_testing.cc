// script/tests.cmake compiles this file with -fno-rtti.
#include "db/test/without_rtti_testing.h"

#include <cstdint>
#include <string>

namespace dlsm {
namespace {

class OwnComparator final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "test.WithoutRtti"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

class OwnFilterPolicy final : public FilterPolicy {
 public:
  const char* Name() const override { return "test.FilterWithoutRtti"; }
  void CreateFilter(const Slice* /*keys*/, int /*n*/, std::string* filter) const override {
    filter->append("x");
  }
  bool KeyMayMatch(const Slice& /*key*/, const Slice& filter) const override {
    return filter == Slice("x");
  }
};

class OwnTransform final : public SliceTransform {
 public:
  const char* Name() const override { return "test.UpToSlash"; }
  Slice Transform(const Slice& key) const override {
    return Slice(key.data(), key.ToString().find('/') + 1);
  }
  bool InDomain(const Slice& key) const override {
    return key.ToString().find('/') != std::string::npos;
  }
};

class OwnCache final : public Cache {
 public:
  explicit OwnCache(size_t capacity) : cache_(NewLRUCache(capacity)) {}

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    return cache_->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const Slice& key) override { return cache_->Lookup(key); }
  void Release(Handle* handle) override { cache_->Release(handle); }
  void* Value(Handle* handle) override { return cache_->Value(handle); }
  void Erase(const Slice& key) override { cache_->Erase(key); }
  uint64_t NewId() override { return cache_->NewId(); }
  size_t TotalCharge() const override { return cache_->TotalCharge(); }

 private:
  const std::unique_ptr<Cache> cache_;
};

}  // namespace

std::unique_ptr<const Comparator> ComparatorWithoutRtti() {
  return std::make_unique<OwnComparator>();
}

std::unique_ptr<const FilterPolicy> FilterPolicyWithoutRtti() {
  return std::make_unique<OwnFilterPolicy>();
}

std::shared_ptr<const SliceTransform> UpToSlashWithoutRtti() {
  return std::make_shared<OwnTransform>();
}

std::unique_ptr<Cache> CacheWithoutRtti(size_t capacity) {
  return std::make_unique<OwnCache>(capacity);
}

}  // namespace dlsm
