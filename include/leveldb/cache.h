// A cache, which maps keys to values and evicts some of them when they take too much room.
// Thread-safe. Databases keep blocks of tables there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// Evicts what was not used for longest. The charges of entries count against `capacity`.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Deletes all entries.
  virtual ~Cache();

  // An entry that is in use.
  struct Handle {};

  // The caller gives the result to Release(). deleter(key, value) is called when the entry is gone.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;
  // Null if there is no such entry. The caller gives the result to Release().
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  // Lookup() does not find the entry any more. It is deleted when nobody uses it.
  virtual void Erase(const Slice& key) = 0;
  // A number of its own for each caller that shares the cache.
  virtual uint64_t NewId() = 0;
  // Deletes all entries that are not in use.
  virtual void Prune() {}
  // The sum of all entries' charges.
  virtual size_t TotalCharge() const = 0;

 private:
  // Unused. Programs that were compiled for LevelDB 1.23 have room for it in their own caches.
  struct Rep;
  Rep* rep_;
};

}  // namespace leveldb
