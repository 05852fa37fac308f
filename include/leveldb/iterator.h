// A cursor over pairs of a key and a value, in the order of the keys. One thread at a time uses it,
// and it is deleted before the database that it comes from.
#pragma once

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

class LEVELDB_EXPORT Iterator {
 public:
  Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator();

  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first key at or behind `target`.
  virtual void Seek(const Slice& target) = 0;
  // Both require Valid(). They may follow each other in any order.
  virtual void Next() = 0;
  virtual void Prev() = 0;
  // Both require Valid(). The bytes stay as they are until the iterator moves.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;
  // The error that has ended the iteration; OK at the end of the data.
  virtual Status status() const = 0;

  // The destructor calls function(arg1, arg2).
  using CleanupFunction = void (*)(void* arg1, void* arg2);
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  // The first one lies in the iterator, the others on the heap.
  struct CleanupNode {
    bool IsEmpty() const { return function == nullptr; }
    void Run() { (*function)(arg1, arg2); }

    CleanupFunction function;
    void* arg1;
    void* arg2;
    CleanupNode* next;
  };
  CleanupNode cleanup_head_;
};

// They have no entries; status() is OK or `status`. The caller deletes them.
LEVELDB_EXPORT Iterator* NewEmptyIterator();
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb
