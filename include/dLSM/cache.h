// A cache of blocks for block-based tables, shared by any number of databases. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dLSM/slice.h"

namespace dlsm {

class Cache {
 public:
  struct Handle {};

  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Deletes what is left; no handle may be in use.
  virtual ~Cache() = default;

  // The result is to be given to Release(). `charge` counts against the capacity. The value is the
  // cache's from here on: where there is no memory for it, this throws std::bad_alloc, and the
  // value is deleted.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;
  // nullptr if absent, otherwise to be given to Release().
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  // The entry is gone for Lookup() at once, and deleted with its last handle.
  virtual void Erase(const Slice& key) = 0;
  // For users of one cache to keep their keys apart.
  virtual uint64_t NewId() = 0;
  // Removes all that is not in use.
  virtual void Prune() {}
  virtual size_t TotalCharge() const = 0;
};

// Evicts what was used least recently; a child that fork() makes finds it empty. Of blocks
// `capacity` is in bytes, for their charge is. The caller deletes it after every database that uses
// it is closed.
Cache* NewLRUCache(size_t capacity);

}  // namespace dlsm
