// The iterator of a table, or of a run of tables, over internal keys. It keeps its position in
// plain members, so that a merge that knows it has a TableIterator pays one virtual call a step.
#pragma once

#include <cassert>

#include "dLSM/iterator.h"

namespace dlsm {

class TableIterator : public Iterator {
 public:
  ~TableIterator() override { status_.PermitUncheckedError(); }  // It is there for who asks.

  bool Valid() const final { return valid_; }
  Slice key() const final {
    assert(valid_);
    return key_;
  }
  Slice value() const final {
    assert(valid_);
    return value_;
  }
  Status status() const override { return status_; }

  // Posts the read that Seek(target) will need, and leaves the position undefined until that is
  // called. Who seeks in several tables prepares all of them first, so that their reads are in
  // flight together. Where there is nothing to gain it does nothing.
  virtual void PrepareSeek(const Slice& target) { static_cast<void>(target); }

  // The whole record, its checksum verified if the read options ask for that; empty if the table's
  // format has no records.
  Slice encoded() const {
    assert(valid_);
    return encoded_;
  }
  // Whether key(), value() and encoded() point into the table's own memory, so that they stay as
  // long as the table does and not only until the iterator moves.
  bool stable() const { return stable_; }

 protected:
  void Invalidate() { valid_ = false; }
  void Fail(Status status) {
    valid_ = false;
    status_ = std::move(status);
  }

  bool valid_ = false;
  bool stable_ = false;
  Slice key_;
  Slice value_;
  Slice encoded_;
  Status status_;
};

}  // namespace dlsm
