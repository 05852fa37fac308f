// The iterator of a table, or of a run of tables.
#pragma once

#include "table/internal_iterator.h"

namespace dlsm {

class TableIterator : public InternalIterator {
 public:
  // Brings what Seek(target) needs nearer, a step with each call: the third one posts its read. The
  // position is undefined until Seek(target), which must be the next move. Who seeks in several
  // tables takes each step in all of them before the next: so their misses and reads overlap.
  virtual void PrepareSeek(const Slice& target) { static_cast<void>(target); }

  // The whole record, its checksum verified if the read options ask for that; empty if the table's
  // format has no records. As stable() as key() and value().
  Slice encoded() const {
    assert(Valid());
    return entry()->encoded;
  }
};

}  // namespace dlsm
