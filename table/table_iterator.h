// The iterator of a table, or of a run of tables.
#pragma once

#include "table/internal_iterator.h"

namespace dlsm {

class TableIterator : public InternalIterator {
 public:
  // Posts the read that Seek(target) will need, and leaves the position undefined until that is
  // called. Who seeks in several tables prepares all of them first, so that their reads are in
  // flight together. Where there is nothing to gain it does nothing.
  virtual void PrepareSeek(const Slice& target) { static_cast<void>(target); }

  // The whole record, its checksum verified if the read options ask for that; empty if the table's
  // format has no records. As stable() as key() and value().
  Slice encoded() const {
    assert(Valid());
    return entry()->encoded;
  }
};

}  // namespace dlsm
