// A list of updates that Write() applies as one. Later updates of one key win. Const methods are
// thread-safe.
//
// It holds fewer than 2^32 updates, with keys and values of less than 4 GiB. Who has given it more
// is told by Write() and Iterate(): InvalidArgument, and Write() applies none of it. A call for
// which the process has no memory throws std::bad_alloc, and adds nothing. What is moved is empty
// then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

class WriteBatch {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
    // As WriteBatch::DeleteRange(). A handler that does not know of it has Iterate() end there with
    // InvalidArgument: it returns false.
    virtual bool DeleteRange(const Slice& begin, const Slice& end) {
      static_cast<void>(begin);
      static_cast<void>(end);
      return false;
    }
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  WriteBatch(WriteBatch&& other) noexcept;
  WriteBatch& operator=(WriteBatch&& other) noexcept;
  ~WriteBatch() = default;

  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  // Deletes the keys in [begin, end), as of the updates before it in the batch. It is one update,
  // however many keys there are; without any, or with `begin` equal to `end`, it deletes nothing.
  // With `end` before `begin` the batch is an InvalidArgument of Write().
  void DeleteRange(const Slice& begin, const Slice& end);
  void Clear();
  // Bytes of memory that the updates take.
  size_t ApproximateSize() const;
  void Append(const WriteBatch& source);

  // Save points, as RocksDB has them: marks to which the batch can be taken back. They are a stack.
  // Clear() and what is moved forget them, and Append() takes none over.
  void SetSavePoint();
  // Takes out what was added since the last save point, which goes. NotFound if there is none.
  Status RollbackToSavePoint();
  // Forgets the last save point, and keeps what was added since. NotFound if there is none.
  Status PopSavePoint();

  // Calls the handler for each update in order, up to one that was too much. Corruption if the
  // bytes are damaged.
  Status Iterate(Handler* handler) const;
  // The number of updates.
  uint32_t Count() const;

 private:
  friend class WriteBatchReader;
  // count (4 bytes) | update*; update = type (1 byte) | key | value unless a deletion, the end of a
  // range that is deleted; strings are prefixed with their length as varint32.
  std::string rep_;

  struct SavePoint {
    size_t bytes;    // Of rep_.
    uint32_t count;  // Of updates.
  };
  std::vector<SavePoint> save_points_;
};

}  // namespace dlsm
