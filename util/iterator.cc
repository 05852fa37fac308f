#include "dLSM/iterator.h"

#include <cassert>
#include <memory>

namespace dlsm {

Iterator::~Iterator() {
  while (cleanups_ != nullptr) {
    const std::unique_ptr<Cleanup> cleanup(cleanups_);
    cleanups_ = cleanup->next;
    cleanup->function(cleanup->arg1, cleanup->arg2);
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  if (function == nullptr) return;
  cleanups_ = std::make_unique<Cleanup>(Cleanup{function, arg1, arg2, cleanups_}).release();
}

void Iterator::SeekForPrev(const Slice& target) {
  Seek(target);
  if (Valid()) {
    if (key() != target) Prev();
  } else if (status().ok()) {  // All keys are before the target; an error must not be walked over.
    SeekToLast();
  }
}

namespace {

class EmptyIterator final : public Iterator {
 public:
  explicit EmptyIterator(const Status& status) : status_(status) {
    status_.PermitUncheckedError();  // It is there for who asks.
  }

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void SeekForPrev(const Slice&) override {}
  void Next() override { assert(false); }
  void Prev() override { assert(false); }
  Slice key() const override {
    assert(false);
    return Slice();
  }
  Slice value() const override {
    assert(false);
    return Slice();
  }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

Iterator* NewEmptyIterator() { return NewErrorIterator(Status::OK()); }

Iterator* NewErrorIterator(const Status& status) {
  return std::make_unique<EmptyIterator>(status).release();
}

}  // namespace dlsm
