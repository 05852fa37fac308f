// An iterator over internal keys. Where it stands lies in plain memory, so that who knows that it
// has an InternalIterator pays one virtual call a step and none for a look.
#pragma once

#include <cassert>
#include <utility>

#include "dLSM/iterator.h"
#include "dLSM/status.h"

namespace dlsm {

class InternalIterator : public Iterator {
 public:
  ~InternalIterator() override { status_.PermitUncheckedError(); }  // It is there for who asks.

  bool Valid() const final { return entry_ != nullptr; }
  Slice key() const final {
    assert(entry_ != nullptr);
    return entry_->key;
  }
  Slice value() const final {
    assert(entry_ != nullptr);
    return entry_->value;
  }
  Status status() const override { return status_; }

  // Whether key() and value() point into the memory of the table or memtable, so that they stay as
  // long as that does and not only until the iterator moves.
  bool stable() const {
    assert(entry_ != nullptr);
    return entry_->stable;
  }

  // Not OK if what it stands at, or has stood at before the step to its end, lies in memory that
  // may be others' by now: then it is not looked at, and the iterator not moved before the next
  // seek. Says so once. Who has sought past its end has no place in it, and need not ask. See
  // QueuePairs::LostNodes().
  virtual Status CheckPlace() { return Status::OK(); }

  // The iterator whose Next() does all that this one's would do, until it is at its end: of one
  // over others, that of the only one left, null where several are. A step of it costs one virtual
  // call, however many iterators lie between. They all show its entry, which stays where it is.
  // Good until this one is moved; Valid() only.
  virtual InternalIterator* Sole() { return this; }
  // What Sole() returned has been moved to its end: goes on as Next() would have.
  virtual void SoleEnded() {}

 protected:
  struct Entry {
    Slice key;
    Slice value;
    Slice encoded;  // The whole record; empty where there are no records.
    bool stable = false;
  };

  const Entry* entry() const { return entry_; }
  // `entry` stays where it is; what it says is of the present. Null: not valid. One iterator over
  // others shows the entry of the one that it stands at, so that nothing is copied on its way up.
  void Show(const Entry* entry) { entry_ = entry; }
  void Show(const InternalIterator& other) { entry_ = other.entry_; }
  void Invalidate() { entry_ = nullptr; }
  void Fail(Status status) {
    entry_ = nullptr;
    status_ = std::move(status);
  }

  Status status_;

 private:
  const Entry* entry_ = nullptr;
};

}  // namespace dlsm
