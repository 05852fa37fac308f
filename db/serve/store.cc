#include "db/serve/store.h"

#include <string>
#include <utility>
#include <vector>

#include "dLSM/write_batch.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm::serve {
namespace {

const char* const kNextCollection = "s/next collection";
// So many numbers are recorded as used at once.
constexpr CollectionId kRecordedAtOnce = 1 << 16;
// Collections with more elements are deleted as a range: a range is kept in memory until merges
// have applied it, which is too much for a few elements.
constexpr size_t kFewElements = 256;

}  // namespace

Status Store::Open() {
  std::string value;
  has_log_ = db_->GetProperty("dlsm.log", &value) && !value.empty();
  is_on_disk_ = has_log_ && value.find("level disk") != std::string::npos;
  const Status got = db_->Get(ReadOptions(), kNextCollection, &value);
  if (got.IsNotFound()) return Status::OK();
  DLSM_RETURN_IF_ERROR(got);
  if (value.size() != sizeof(CollectionId)) {
    return Status::Corruption("the database is not one that dlsm_serve has made",
                              "give another one with --database");
  }
  const port::MutexLock lock(mutex_);
  next_ = recorded_ = DecodeFixed64(value.data());
  has_collections_ = true;
  return Status::OK();
}

Status Store::NewCollection(CollectionId* id) {
  const port::MutexLock lock(mutex_);
  if (next_ == recorded_) {
    std::string value;
    PutFixed64(&value, recorded_ + kRecordedAtOnce);
    DLSM_RETURN_IF_ERROR(db_->Put(WriteOptions(), kNextCollection, value));
    recorded_ += kRecordedAtOnce;
    has_collections_ = true;
  }
  *id = next_++;
  return Status::OK();
}

Status Store::DeleteExpired(int64_t now, size_t most, uint64_t* deleted, bool* more) {
  *deleted = 0;
  *more = false;
  if (!has_collections()) return Status::OK();
  const std::unique_ptr<Iterator> due(db_->NewIterator(ReadOptions()));
  size_t count = 0;
  for (due->Seek("x"); due->Valid() && count < most; due->Next(), ++count) {
    ExpiryTime expiry = 0;
    Slice head_key;
    if (!ParseExpiryKey(due->key(), &expiry, &head_key) || expiry > now) return due->status();
    DLSM_RETURN_IF_ERROR(DeleteIfExpired(due->key(), expiry, head_key, deleted));
  }
  *more = count == most;
  return due->status();
}

// The head may have been written over, or expire at another time by now.
Status Store::DeleteIfExpired(const Slice& expiry_key, ExpiryTime expiry, const Slice& head_key,
                              uint64_t* deleted) {
  HeldLocks locks(&locks_);
  const std::string key = head_key.ToString();
  static_cast<void>(locks.Take({&key, 1}));  // It has none, so it gets this one.
  WriteBatch batch;
  batch.Delete(expiry_key);
  std::string value;
  const Status got = db_->Get(ReadOptions(), head_key, &value);
  if (!got.ok() && !got.IsNotFound()) return got;
  const std::optional<Head> head = got.ok() ? DecodeHead(value) : std::nullopt;
  const bool expires = head.has_value() && head->type != Type::kString && head->expiry == expiry;
  if (expires) {
    batch.Delete(head_key);
    batch.Put(GarbageKey(head->collection), Slice());
  }
  DLSM_RETURN_IF_ERROR(db_->Write(WriteOptions(), &batch));
  *deleted += expires ? 1 : 0;
  return Status::OK();
}

Status Store::CollectGarbage(size_t most, bool* more) {
  *more = false;
  if (!has_collections()) return Status::OK();
  const std::unique_ptr<Iterator> garbage(db_->NewIterator(ReadOptions()));
  garbage->Seek(GarbageKey(0));
  WriteBatch batch;
  size_t count = 0;
  while (garbage->Valid() && count < most) {
    const std::optional<CollectionId> collection = CollectionOfGarbage(garbage->key());
    if (!collection.has_value()) break;
    const std::string end = ElementKeyEnd(*collection);
    const std::string begin = ElementKey(*collection, Slice());
    const std::unique_ptr<Iterator> elements(db_->NewIterator(ReadOptions()));
    std::vector<std::string> few;
    for (elements->Seek(begin);
         elements->Valid() && elements->key().compare(end) < 0 && few.size() <= kFewElements;
         elements->Next()) {
      few.push_back(elements->key().ToString());
    }
    DLSM_RETURN_IF_ERROR(elements->status());
    if (few.size() > kFewElements) {
      batch.DeleteRange(begin, end);
    } else {
      for (const std::string& element : few) batch.Delete(element);
    }
    count += few.size() + 1;
    batch.Delete(garbage->key());
    garbage->Next();
  }
  DLSM_RETURN_IF_ERROR(garbage->status());
  *more = count >= most;
  return batch.Count() > 0 ? db_->Write(WriteOptions(), &batch) : Status::OK();
}

}  // namespace dlsm::serve
