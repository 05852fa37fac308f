// A list of updates that DB::Write() applies all at once; later ones of a key count. Const methods
// are thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  ~WriteBatch();

  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  void Clear();
  // Bytes that the batch takes: 12 and those of its updates.
  size_t ApproximateSize() const;
  // Adds the updates of `source` behind those of this batch.
  void Append(const WriteBatch& source);
  // Calls the handler for each update, in order. Corruption if the bytes are no batch.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // Unused (8 bytes) | number of updates (4) | update*. Put: 1 | key | value. Delete: 0 | key. Each
  // string has its length before it, as a varint32.
  std::string rep_;
};

}  // namespace leveldb
