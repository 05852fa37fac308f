// A cache of blocks for block-based tables, shared by any number of databases. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dLSM/slice.h"

namespace dlsm {

class Cache {
 public:
  struct Handle {};

  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Deletes what is left, once no database uses the cache any more; no handle may be in use.
  virtual ~Cache() = default;

  // The result is to be given to Release(). `charge` counts against the capacity. The value is the
  // cache's from here on: where there is no memory for it, this throws std::bad_alloc, and the
  // value is deleted.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;
  // nullptr if absent, otherwise to be given to Release().
  virtual Handle* Lookup(const Slice& key) = 0;
  // Of null: nothing.
  virtual void Release(Handle* handle) = 0;
  // Of null: null.
  virtual void* Value(Handle* handle) = 0;
  // The entry is gone for Lookup() at once, and deleted with its last handle.
  virtual void Erase(const Slice& key) = 0;
  // For users of one cache to keep their keys apart.
  virtual uint64_t NewId() = 0;
  // Removes all that is not in use.
  virtual void Prune() {}
  virtual size_t TotalCharge() const = 0;

 private:
  friend std::shared_ptr<Cache> ShareCache(Cache* cache);
  // Another object for the same entries, which stay until both are gone. Of NewLRUCache() alone:
  // null says that who uses this cache relies on the caller to keep it.
  virtual std::shared_ptr<Cache> Share() { return nullptr; }
};

// Evicts what was used least recently; a child that fork() makes finds it empty. Of blocks
// `capacity` is in bytes, for their charge is. The caller deletes it, at any time after the last
// Open() that is given it: the entries stay until the databases that use them are gone, too.
Cache* NewLRUCache(size_t capacity);

}  // namespace dlsm
