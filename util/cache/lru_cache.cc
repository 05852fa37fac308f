// A hash table and a list of what is not in use, in 16 shards, each under a lock of its own.
//
// An entry is counted: one reference for the table, one for each handle. While only the table has
// one, the entry is in the list, and may be evicted. Whoever drops the last reference deletes the
// entry, after the lock is gone: deleters are the caller's code.
#include <array>
#include <atomic>
#include <cassert>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>
#include <utility>

#include "dLSM/cache.h"
#include "port/allocation_point.h"
#include "port/mutex.h"
#include "port/per_process.h"
#include "util/cache/share_cache.h"
#include "util/hash.h"

namespace dlsm {
namespace {

struct Links {
  Links* previous = this;
  Links* next = this;

  void Unlink() {
    previous->next = next;
    next->previous = previous;
    previous = next = this;
  }
  void LinkBefore(Links* other) {
    previous = other->previous;
    next = other;
    previous->next = this;
    next->previous = this;
  }
};

struct Entry final : Links, Cache::Handle {
  using Deleter = void (*)(const Slice& key, void* value);

  Entry(const Slice& from_key, void* from_value, size_t from_charge, Deleter from_deleter)
      : key(from_key.data(), from_key.size()),
        value(from_value),
        charge(from_charge),
        deleter(from_deleter) {}
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    if (deleter != nullptr) deleter(key, value);
  }

  const std::string key;
  void* const value;
  const size_t charge;
  const Deleter deleter;
  uint32_t references = 0;  // Under the shard's mutex.
};

// Entries without references, on their way out. Destroyed where no lock is held.
class Doomed {
 public:
  Doomed() = default;
  Doomed(const Doomed&) = delete;
  Doomed& operator=(const Doomed&) = delete;
  ~Doomed() {
    while (list_.next != &list_) {
      const std::unique_ptr<Entry> entry(static_cast<Entry*>(list_.next));
      entry->Unlink();
    }
  }
  void Add(Entry* entry) { entry->LinkBefore(&list_); }

 private:
  Links list_;
};

class Shard {
 public:
  void SetCapacity(size_t capacity) { capacity_ = capacity; }

  ~Shard() {
    Prune();
    assert(table_.empty() && "a handle is still in use");
  }

  // Where it throws, the entry goes, once the lock is gone.
  Entry* Insert(std::unique_ptr<Entry> entry) LOCKS_EXCLUDED(mutex_) {
    Doomed doomed;  // Outlives the lock.
    port::MutexLock lock(mutex_);
    if (capacity_ == 0) {  // Nothing is cached: the handle is the only reference.
      entry->references = 1;
      return entry.release();
    }
    RemoveLocked(entry->key, &doomed);
    port::AllocationPoint("cache entry");
    table_.emplace(Slice(entry->key), entry.get());
    Entry* const inserted = entry.release();
    inserted->references = 2;  // The handle's and the table's.
    charge_ += inserted->charge;
    EvictLocked(capacity_, &doomed);
    return inserted;
  }

  Entry* Lookup(const Slice& key) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    const auto found = table_.find(key);
    if (found == table_.end()) return nullptr;
    Entry* const entry = found->second;
    ++entry->references;
    entry->Unlink();
    return entry;
  }

  void Release(Entry* entry) LOCKS_EXCLUDED(mutex_) {
    Doomed doomed;
    port::MutexLock lock(mutex_);
    assert(entry->references > 0);
    --entry->references;
    if (entry->references == 0) {
      doomed.Add(entry);
    } else if (entry->references == 1 && IsInTableLocked(entry)) {
      entry->LinkBefore(&unused_);  // The list's end: used most recently.
      EvictLocked(capacity_, &doomed);
    }
  }

  void Erase(const Slice& key) LOCKS_EXCLUDED(mutex_) {
    Doomed doomed;
    port::MutexLock lock(mutex_);
    RemoveLocked(key, &doomed);
  }

  void Prune() LOCKS_EXCLUDED(mutex_) {
    Doomed doomed;
    port::MutexLock lock(mutex_);
    while (unused_.next != &unused_) {
      RemoveLocked(static_cast<Entry*>(unused_.next)->key, &doomed);
    }
  }

  size_t TotalCharge() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    return charge_;
  }

 private:
  struct KeyHash {
    size_t operator()(const Slice& key) const { return Hash64(key); }
  };

  bool IsInTableLocked(const Entry* entry) const EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = table_.find(entry->key);
    return found != table_.end() && found->second == entry;
  }

  void RemoveLocked(const Slice& key, Doomed* doomed) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = table_.find(key);
    if (found == table_.end()) return;
    Entry* const entry = found->second;
    table_.erase(found);
    charge_ -= entry->charge;
    entry->Unlink();
    if (--entry->references == 0) doomed->Add(entry);
  }

  void EvictLocked(size_t capacity, Doomed* doomed) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (charge_ > capacity && unused_.next != &unused_) {
      RemoveLocked(static_cast<Entry*>(unused_.next)->key, doomed);
    }
  }

  size_t capacity_ = 0;  // Constant after SetCapacity.

  mutable port::Mutex mutex_;
  std::unordered_map<Slice, Entry*, KeyHash> table_ GUARDED_BY(mutex_);  // Keys lie in the entries.
  Links unused_ GUARDED_BY(mutex_);  // In the table only; the longest unused first.
  size_t charge_ GUARDED_BY(mutex_) = 0;
};

// By the upper bits of hashes; the tables use the lower ones.
class Shards {
 public:
  explicit Shards(size_t capacity) {
    for (Shard& shard : all_)
      shard.SetCapacity(capacity / kCount + (capacity % kCount != 0 ? 1 : 0));
  }

  Shard& Of(const Slice& key) { return all_[Hash64(key) >> 60]; }
  std::span<Shard> all() { return all_; }

 private:
  static constexpr size_t kCount = 16;

  std::array<Shard, kCount> all_;
};

// All entries, for every LruCache that shares them. A child of the process that has filled it finds
// it empty.
class Entries {
 public:
  explicit Entries(size_t capacity) : capacity_(capacity) { Here(); }
  ~Entries() { shards_.Clear(); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  Shards& Here() { return shards_.Here(capacity_); }
  uint64_t NewId() { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  const size_t capacity_;
  port::PerProcess<Shards> shards_;
  std::atomic<uint64_t> last_id_{0};
};

class LruCache final : public Cache {
 public:
  explicit LruCache(std::shared_ptr<Entries> entries) : entries_(std::move(entries)) {}

  Handle* Insert(const Slice& key, void* value, size_t charge,
                 void (*deleter)(const Slice& key, void* value)) override {
    std::unique_ptr<Entry> entry = NewEntry(key, value, charge, deleter);
    return ShardOf(key).Insert(std::move(entry));
  }
  Handle* Lookup(const Slice& key) override { return ShardOf(key).Lookup(key); }
  void Release(Handle* handle) override {
    if (handle == nullptr) return;
    auto* entry = static_cast<Entry*>(handle);
    ShardOf(entry->key).Release(entry);
  }
  void* Value(Handle* handle) override {
    return handle == nullptr ? nullptr : static_cast<Entry*>(handle)->value;
  }
  void Erase(const Slice& key) override { ShardOf(key).Erase(key); }
  uint64_t NewId() override { return entries_->NewId(); }
  void Prune() override {
    for (Shard& shard : entries_->Here().all()) shard.Prune();
  }
  size_t TotalCharge() const override {
    size_t sum = 0;
    for (const Shard& shard : entries_->Here().all()) sum += shard.TotalCharge();
    return sum;
  }

 private:
  // Where there is no memory for it, the value is deleted all the same.
  static std::unique_ptr<Entry> NewEntry(const Slice& key, void* value, size_t charge,
                                         Entry::Deleter deleter) try {
    port::AllocationPoint("cache entry");
    return std::make_unique<Entry>(key, value, charge, deleter);
  } catch (const std::bad_alloc&) {
    if (deleter != nullptr) deleter(key, value);
    throw;
  }

  Shard& ShardOf(const Slice& key) { return entries_->Here().Of(key); }

  std::shared_ptr<Cache> Share() override { return std::make_shared<LruCache>(entries_); }

  const std::shared_ptr<Entries> entries_;
};

}  // namespace

Cache* NewLRUCache(size_t capacity) {
  return std::make_unique<LruCache>(std::make_shared<Entries>(capacity)).release();
}

std::shared_ptr<Cache> ShareCache(Cache* cache) {
  std::shared_ptr<Cache> shared = cache->Share();
  if (shared != nullptr) return shared;
  return {std::shared_ptr<void>(), cache};  // Owns nothing.
}

}  // namespace dlsm
