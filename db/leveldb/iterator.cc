// leveldb::Iterator: its base with the clean-up functions, iterators without entries, and those of
// a database.
#include "leveldb/iterator.h"

#include <memory>
#include <utility>

#include "db/leveldb/iterators.h"
#include "db/leveldb/translate.h"

namespace leveldb {

Iterator::Iterator() : cleanup_head_{nullptr, nullptr, nullptr, nullptr} {}

Iterator::~Iterator() {
  if (cleanup_head_.IsEmpty()) return;
  cleanup_head_.Run();
  while (cleanup_head_.next != nullptr) {
    const std::unique_ptr<CleanupNode> node(cleanup_head_.next);
    node->Run();
    cleanup_head_.next = node->next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  if (function == nullptr) return;
  if (cleanup_head_.IsEmpty()) {
    cleanup_head_ = {function, arg1, arg2, nullptr};
    return;
  }
  auto node = std::make_unique<CleanupNode>();
  *node = {function, arg1, arg2, cleanup_head_.next};
  cleanup_head_.next = node.release();
}

}  // namespace leveldb

namespace dlsm::compat {
namespace {

class WithoutEntries final : public leveldb::Iterator {
 public:
  explicit WithoutEntries(leveldb::Status status) : status_(std::move(status)) {}

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const leveldb::Slice&) override {}
  void Next() override {}
  void Prev() override {}
  leveldb::Slice key() const override { return {}; }
  leveldb::Slice value() const override { return {}; }
  leveldb::Status status() const override { return status_; }

 private:
  const leveldb::Status status_;
};

class OfDatabase final : public leveldb::Iterator {
 public:
  explicit OfDatabase(std::unique_ptr<dlsm::Iterator> own) : own_(std::move(own)) {}

  bool Valid() const override { return own_->Valid(); }
  void SeekToFirst() override { own_->SeekToFirst(); }
  void SeekToLast() override { own_->SeekToLast(); }
  void Seek(const leveldb::Slice& target) override { own_->Seek(ToDlsm(target)); }
  void Next() override { own_->Next(); }
  void Prev() override { own_->Prev(); }
  leveldb::Slice key() const override { return ToLeveldb(own_->key()); }
  leveldb::Slice value() const override { return ToLeveldb(own_->value()); }
  leveldb::Status status() const override { return ToLeveldb(own_->status()); }

 private:
  const std::unique_ptr<dlsm::Iterator> own_;
};

}  // namespace

std::unique_ptr<leveldb::Iterator> WrapIterator(std::unique_ptr<dlsm::Iterator> iterator) {
  return std::make_unique<OfDatabase>(std::move(iterator));
}

}  // namespace dlsm::compat

namespace leveldb {

Iterator* NewEmptyIterator() { return NewErrorIterator(Status::OK()); }

Iterator* NewErrorIterator(const Status& status) {
  return std::make_unique<dlsm::compat::WithoutEntries>(status).release();
}

}  // namespace leveldb
