// Writes of records, with the entries of all indexes in the same batch.
//
//   1. Take the locks of all records that the write is about.
//   2. If any index is eager, read the records as they are.
//   3. For each record and index, compare the index keys before and after: an eager index gets the
//      difference, a lazy one all index keys of the new record.
//   4. Write records and entries as one batch, and release the locks.
//
// A lazy index needs the locks, too: while a stale entry is deleted nobody may make it right again.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "dLSM/write_batch.h"
#include "db/index/index_keys.h"
#include "db/index/indexed_db.h"
#include "util/escape.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

// What a write leaves of each record that it is about: the last update of a key counts. Keys and
// values point into what the caller has.
class IndexedDBImpl::Updates final : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override { last_[key.ToStringView()] = value; }
  void Delete(const Slice& key) override { last_[key.ToStringView()] = std::nullopt; }
  bool DeleteRange(const Slice& begin, const Slice& end) override {
    deletes_ranges_ |= begin != end;
    return true;
  }

  bool deletes_ranges() const { return deletes_ranges_; }
  const std::map<std::string_view, std::optional<Slice>>& records() const { return last_; }

 private:
  std::map<std::string_view, std::optional<Slice>> last_;
  bool deletes_ranges_ = false;
};

Status IndexedDBImpl::CheckKey(const Slice& key) const {
  if (!key.starts_with(options_.prefix)) return Status::OK();
  std::string shown;
  AppendEscaped(&shown, options_.prefix);
  return Status::InvalidArgument(
      fmt::format("a record's key begins with '{}', as entries of indexes do", shown),
      "choose another key, or another IndexedDBOptions::prefix");
}

Status IndexedDBImpl::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  return WithinMemory([&] {
    Updates updates;
    updates.Put(key, value);
    return Apply(options, updates);
  });
}

Status IndexedDBImpl::Delete(const WriteOptions& options, const Slice& key) {
  return WithinMemory([&] {
    Updates updates;
    updates.Delete(key);
    return Apply(options, updates);
  });
}

Status IndexedDBImpl::Write(const WriteOptions& options, const WriteBatch& batch) {
  return WithinMemory([&] {
    Updates updates;
    DLSM_RETURN_IF_ERROR(batch.Iterate(&updates));
    if (updates.deletes_ranges()) {
      return Status::NotSupported("a batch for indexed records deletes a range",
                                  "delete the records one by one");
    }
    return Apply(options, updates);
  });
}

Status IndexedDBImpl::Get(const ReadOptions& options, const Slice& key, std::string* value) {
  DLSM_RETURN_IF_ERROR(CheckKey(key));
  return db_.Get(options, key, value);
}

Status IndexedDBImpl::ReadRecord(const Slice& key, std::string* value, bool* present) {
  const Status status = db_.Get(ReadOptions(), key, value);
  *present = status.ok();
  return status.IsNotFound() ? Status::OK() : status;
}

void IndexedDBImpl::AddEntries(const OpenIndex& index, const Slice& key, const std::string* before,
                               const Slice* after, WriteBatch* batch) {
  std::vector<std::string> old_keys;
  std::vector<std::string> new_keys;
  if (before != nullptr && index.eager()) old_keys = index.KeysOf(key, *before);
  if (after != nullptr) new_keys = index.KeysOf(key, *after);
  uint64_t written = 0;
  for (const std::string& index_key : new_keys) {
    // An old key has its entry if the index is ready; else Build() adds it.
    if (std::binary_search(old_keys.begin(), old_keys.end(), index_key)) continue;
    batch->Put(IndexEntryKey(index.entries, index_key, key), Slice());
    ++written;
  }
  uint64_t deleted = 0;
  for (const std::string& index_key : old_keys) {
    if (std::binary_search(new_keys.begin(), new_keys.end(), index_key)) continue;
    batch->Delete(IndexEntryKey(index.entries, index_key, key));
    ++deleted;
  }
  counts_.entries_written.fetch_add(written, std::memory_order_relaxed);
  counts_.entries_deleted.fetch_add(deleted, std::memory_order_relaxed);
}

Status IndexedDBImpl::Apply(const WriteOptions& options, const Updates& updates) {
  std::vector<Slice> keys;
  for (const auto& [key, value] : updates.records()) {
    DLSM_RETURN_IF_ERROR(CheckKey(key));
    keys.emplace_back(key);
  }
  const HeldRecords held(locks_, keys);
  WriteBatch batch;
  std::string before;
  for (const auto& [key, value] : updates.records()) {
    bool was_present = false;
    if (any_eager_) {
      DLSM_RETURN_IF_ERROR(ReadRecord(key, &before, &was_present));
      counts_.records_read.fetch_add(1, std::memory_order_relaxed);
    }
    for (const auto& index : indexes_) {
      AddEntries(*index, key, was_present ? &before : nullptr, value ? &*value : nullptr, &batch);
    }
    if (value) {
      batch.Put(key, *value);
    } else {
      batch.Delete(key);
    }
  }
  counts_.records_written.fetch_add(keys.size(), std::memory_order_relaxed);
  return db_.Write(options, &batch);
}

// The record may have got the index key back since the query saw that it had not. So it is looked
// at once more, with nobody writing it.
Status IndexedDBImpl::DeleteStale(const OpenIndex& index, std::span<const Stale> stale) {
  std::vector<Slice> keys;
  for (const Stale& entry : stale) keys.emplace_back(entry.key);
  const HeldRecords held(locks_, keys);
  WriteBatch batch;
  std::string value;
  for (const Stale& entry : stale) {
    bool present = false;
    DLSM_RETURN_IF_ERROR(ReadRecord(entry.key, &value, &present));
    if (present && index.Has(entry.key, value, entry.index_key)) continue;
    batch.Delete(IndexEntryKey(index.entries, entry.index_key, entry.key));
  }
  if (batch.Count() == 0) return Status::OK();
  DLSM_RETURN_IF_ERROR(db_.Write(WriteOptions(), &batch));
  counts_.entries_cleaned.fetch_add(batch.Count(), std::memory_order_relaxed);
  return Status::OK();
}

}  // namespace dlsm
