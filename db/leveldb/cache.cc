// leveldb::Cache: the built-in one, and those of programs.
#include "leveldb/cache.h"

#include <memory>

#include "db/leveldb/adapters.h"
#include "db/leveldb/same_class.h"
#include "db/leveldb/translate.h"

namespace leveldb {

Cache::~Cache() = default;

}  // namespace leveldb

namespace dlsm::compat {
namespace {

// A value of one interface as it lies in a cache of the other: their deleters take different types.
template <typename OwnSlice>
struct Entry {
  using Deleter = void (*)(const OwnSlice& key, void* value);

  void* value;
  Deleter deleter;
};

class BuiltIn final : public leveldb::Cache {
 public:
  explicit BuiltIn(size_t capacity) : own_(dlsm::NewLRUCache(capacity)) { Class().Is(this); }

  Handle* Insert(const leveldb::Slice& key, void* value, size_t charge,
                 void (*deleter)(const leveldb::Slice& key, void* value)) override {
    auto entry = std::make_unique<EntryHere>();
    entry->value = value;
    entry->deleter = deleter;
    return Mine(own_->Insert(ToDlsm(key), entry.release(), charge, &Delete));
  }
  Handle* Lookup(const leveldb::Slice& key) override { return Mine(own_->Lookup(ToDlsm(key))); }
  void Release(Handle* handle) override { own_->Release(Own(handle)); }
  void* Value(Handle* handle) override {
    return static_cast<EntryHere*>(own_->Value(Own(handle)))->value;
  }
  void Erase(const leveldb::Slice& key) override { own_->Erase(ToDlsm(key)); }
  uint64_t NewId() override { return own_->NewId(); }
  void Prune() override { own_->Prune(); }
  size_t TotalCharge() const override { return own_->TotalCharge(); }

  dlsm::Cache* own() { return own_.get(); }

  static SameClass& Class() {
    static constinit SameClass cache;
    return cache;
  }

 private:
  using EntryHere = Entry<leveldb::Slice>;

  static void Delete(const dlsm::Slice& key, void* value) {
    const std::unique_ptr<EntryHere> entry(static_cast<EntryHere*>(value));
    entry->deleter(ToLeveldb(key), entry->value);
  }
  static Handle* Mine(dlsm::Cache::Handle* handle) { return reinterpret_cast<Handle*>(handle); }
  static dlsm::Cache::Handle* Own(Handle* handle) {
    return reinterpret_cast<dlsm::Cache::Handle*>(handle);
  }

  const std::unique_ptr<dlsm::Cache> own_;
};

class OfProgramCache final : public dlsm::Cache {
 public:
  explicit OfProgramCache(leveldb::Cache& own) : own_(own) {}

  Handle* Insert(const dlsm::Slice& key, void* value, size_t charge,
                 void (*deleter)(const dlsm::Slice& key, void* value)) override {
    auto entry = std::make_unique<EntryHere>();
    entry->value = value;
    entry->deleter = deleter;
    return Mine(own_.Insert(ToLeveldb(key), entry.release(), charge, &Delete));
  }
  Handle* Lookup(const dlsm::Slice& key) override { return Mine(own_.Lookup(ToLeveldb(key))); }
  void Release(Handle* handle) override {
    if (handle != nullptr) own_.Release(Own(handle));
  }
  void* Value(Handle* handle) override {
    if (handle == nullptr) return nullptr;
    return static_cast<EntryHere*>(own_.Value(Own(handle)))->value;
  }
  void Erase(const dlsm::Slice& key) override { own_.Erase(ToLeveldb(key)); }
  uint64_t NewId() override { return own_.NewId(); }
  void Prune() override { own_.Prune(); }
  size_t TotalCharge() const override { return own_.TotalCharge(); }

 private:
  using EntryHere = Entry<dlsm::Slice>;

  static void Delete(const leveldb::Slice& key, void* value) {
    const std::unique_ptr<EntryHere> entry(static_cast<EntryHere*>(value));
    entry->deleter(ToDlsm(key), entry->value);
  }
  static Handle* Mine(leveldb::Cache::Handle* handle) { return reinterpret_cast<Handle*>(handle); }
  static leveldb::Cache::Handle* Own(Handle* handle) {
    return reinterpret_cast<leveldb::Cache::Handle*>(handle);
  }

  leveldb::Cache& own_;
};

}  // namespace

dlsm::Cache* AdaptCache(leveldb::Cache* cache, std::unique_ptr<dlsm::Cache>* adapter) {
  if (BuiltIn::Class().Has(cache)) return static_cast<BuiltIn*>(cache)->own();
  *adapter = std::make_unique<OfProgramCache>(*cache);
  return adapter->get();
}

}  // namespace dlsm::compat

namespace leveldb {

Cache* NewLRUCache(size_t capacity) {
  return std::make_unique<dlsm::compat::BuiltIn>(capacity).release();
}

}  // namespace leveldb
