// A cursor over key/value pairs in key order. One thread at a time may use an Iterator; it must be
// deleted before the database it came from.
#pragma once

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

class Iterator {
 public:
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator();

  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first key at or after `target`.
  virtual void Seek(const Slice& target) = 0;
  // To the last key at or before `target`. (As in RocksDB.)
  virtual void SeekForPrev(const Slice& target);
  // Both require Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Require Valid(). The bytes stay as they are until the iterator moves.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;

  // Why the iterator is not Valid(), if not for the end of the data.
  virtual Status status() const = 0;

  // Calls function(arg1, arg2) when the iterator is destroyed; not in a child of the process that
  // made it. Null: nothing.
  using CleanupFunction = void (*)(void* arg1, void* arg2);
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  struct Cleanup {
    CleanupFunction function;
    void* arg1;
    void* arg2;
    Cleanup* next;
  };
  Cleanup* cleanups_ = nullptr;
};

// Iterators that are never Valid(), with the status OK or `status`; the caller deletes them.
Iterator* NewEmptyIterator();
Iterator* NewErrorIterator(const Status& status);

}  // namespace dlsm
