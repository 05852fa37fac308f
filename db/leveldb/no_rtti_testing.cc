#include "db/leveldb/no_rtti_testing.h"

#include <strings.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "leveldb/slice.h"

namespace dlsm::compat {
namespace {

class CaseBlind final : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    return strcasecmp(a.ToString().c_str(), b.ToString().c_str());
  }
  const char* Name() const override { return "case blind"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

class Fake final : public leveldb::FilterPolicy {
 public:
  explicit Fake(const std::atomic<bool>* matches) : matches_(*matches) {}
  const char* Name() const override { return "fake"; }
  void CreateFilter(const leveldb::Slice*, int, std::string* dst) const override {
    dst->append("fake");
  }
  bool KeyMayMatch(const leveldb::Slice&, const leveldb::Slice& filter) const override {
    if (filter != leveldb::Slice("fake")) std::abort();
    return matches_;
  }

 private:
  const std::atomic<bool>& matches_;
};

class Counting final : public leveldb::Cache {
 public:
  Counting(size_t capacity, std::atomic<int>* insertions)
      : own_(leveldb::NewLRUCache(capacity)), insertions_(*insertions) {}
  Handle* Insert(const leveldb::Slice& key, void* value, size_t charge,
                 void (*deleter)(const leveldb::Slice& key, void* value)) override {
    ++insertions_;
    return own_->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const leveldb::Slice& key) override { return own_->Lookup(key); }
  void Release(Handle* handle) override { own_->Release(handle); }
  void* Value(Handle* handle) override { return own_->Value(handle); }
  void Erase(const leveldb::Slice& key) override { own_->Erase(key); }
  uint64_t NewId() override { return own_->NewId(); }
  size_t TotalCharge() const override { return own_->TotalCharge(); }

 private:
  const std::unique_ptr<leveldb::Cache> own_;
  std::atomic<int>& insertions_;
};

}  // namespace

std::unique_ptr<const leveldb::Comparator> CaseBlindComparator() {
  return std::make_unique<CaseBlind>();
}

std::unique_ptr<const leveldb::FilterPolicy> FakeFilterPolicy(const std::atomic<bool>* matches) {
  return std::make_unique<Fake>(matches);
}

std::unique_ptr<leveldb::Cache> CountingCache(size_t capacity, std::atomic<int>* insertions) {
  return std::make_unique<Counting>(capacity, insertions);
}

}  // namespace dlsm::compat
