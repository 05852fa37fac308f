// A stream of entries in ascending order of keys, for DB::IngestSorted().
#pragma once

#include "dLSM/iterator.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// Used by one thread.
class SortedSource {
 public:
  virtual ~SortedSource() = default;

  // Moves to the next entry, at first to the first one. Returns false at the end, and when the
  // source has failed. What the slices point to stays until the next call.
  virtual bool Next(Slice* key, Slice* value) = 0;
  // After Next() has returned false: the error with which the source has failed, or OK.
  virtual Status status() const { return Status::OK(); }
};

// All that an iterator has, of another database for instance.
class IteratorSource final : public SortedSource {
 public:
  // The iterator outlives the source.
  explicit IteratorSource(Iterator* iterator) : iterator_(iterator) {}

  bool Next(Slice* key, Slice* value) override {
    if (begun_) {
      iterator_->Next();
    } else {
      iterator_->SeekToFirst();
      begun_ = true;
    }
    if (!iterator_->Valid()) return false;
    *key = iterator_->key();
    *value = iterator_->value();
    return true;
  }
  Status status() const override { return iterator_->status(); }

 private:
  Iterator* const iterator_;
  bool begun_ = false;
};

}  // namespace dlsm
