// What walks over whole indexes: Build(), Check(), Clean() and Drop().
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "db/index/index_keys.h"
#include "db/index/indexed_db.h"
#include "util/escape.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

// Records whose locks are held together. (ThreadSanitizer knows 64 locks of a thread.)
constexpr size_t kBuildPart = 32;

class HeldSnapshot {
 public:
  explicit HeldSnapshot(DB* db) : db_(*db), snapshot_(db->GetSnapshot()) {}
  HeldSnapshot(const HeldSnapshot&) = delete;
  HeldSnapshot& operator=(const HeldSnapshot&) = delete;
  ~HeldSnapshot() { db_.ReleaseSnapshot(snapshot_); }
  const Snapshot* get() const { return snapshot_; }

 private:
  DB& db_;
  const Snapshot* const snapshot_;
};

// For long walks.
ReadOptions WalkAt(const Snapshot* snapshot) {
  ReadOptions read;
  read.fill_cache = false;
  read.snapshot = snapshot;
  return read;
}

void Blame(const Slice& index_key, const Slice& key, const char* what, IndexReport* report) {
  if (!report->example.empty()) return;
  std::string shown_index_key;
  std::string shown_key;
  AppendEscaped(&shown_index_key, index_key);
  AppendEscaped(&shown_key, key);
  report->example =
      fmt::format("index key '{}' of record '{}': {}", shown_index_key, shown_key, what);
}

}  // namespace

template <typename Visit>
Status IndexedDBImpl::ForEachRecord(const Snapshot* snapshot, const Visit& visit) {
  const std::unique_ptr<Iterator> it(db_.NewIterator(WalkAt(snapshot)));
  const std::string behind = KeyBehind(options_.prefix);
  it->SeekToFirst();
  while (it->Valid()) {
    if (!it->key().starts_with(options_.prefix)) {
      DLSM_RETURN_IF_ERROR(visit(it->key(), it->value()));
      it->Next();
    } else if (behind.empty()) {
      break;
    } else {
      it->Seek(behind);
    }
  }
  return it->status();
}

// Records that are written after the snapshot have their entries: any write since Open() has added
// them. Of the others the present value counts, read under the record's lock.
Status IndexedDBImpl::Build(const std::string& name) {
  return WithinMemory([&] {
    OpenIndex* const index = Find(name);
    if (index == nullptr) {
      return Status::InvalidArgument(fmt::format("there is no index {}", name),
                                     "name it in IndexedDB::Open");
    }
    if (index->ready.load(std::memory_order_acquire)) return Status::OK();
    const HeldSnapshot snapshot(&db_);
    std::vector<std::string> keys;
    DLSM_RETURN_IF_ERROR(ForEachRecord(snapshot.get(), [&](const Slice& key, const Slice&) {
      keys.push_back(key.ToString());
      if (keys.size() < kBuildPart) return Status::OK();
      const Status status = BuildPart(*index, keys);
      keys.clear();
      return status;
    }));
    DLSM_RETURN_IF_ERROR(BuildPart(*index, keys));
    DLSM_RETURN_IF_ERROR(WriteState(*index, /*ready=*/true));
    index->ready.store(true, std::memory_order_release);
    return Status::OK();
  });
}

Status IndexedDBImpl::BuildPart(const OpenIndex& index, const std::vector<std::string>& keys) {
  const std::vector<Slice> slices(keys.begin(), keys.end());
  const HeldRecords held(locks_, slices);
  std::vector<std::string> values;
  const std::vector<Status> statuses = db_.MultiGet(ReadOptions(), slices, &values);
  WriteBatch batch;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    DLSM_RETURN_IF_ERROR(statuses[i]);
    const Slice value(values[i]);
    AddEntries(index, slices[i], nullptr, &value, &batch);
  }
  return batch.Count() == 0 ? Status::OK() : db_.Write(WriteOptions(), &batch);
}

Status IndexedDBImpl::CheckEntries(const OpenIndex& index, const Snapshot* snapshot,
                                   IndexReport* report) {
  const std::unique_ptr<Iterator> it(db_.NewIterator(WalkAt(snapshot)));
  const ReadOptions read = WalkAt(snapshot);
  std::string index_key;
  std::string value;
  for (it->Seek(index.entries); it->Valid() && it->key().starts_with(index.entries); it->Next()) {
    ++report->entries;
    Slice key;
    if (!DecodeIndexEntry(index.entries, it->key(), &index_key, &key)) {
      return Status::Corruption(
          fmt::format("an entry of index {} is damaged", index.definition.name),
          "delete the index with IndexedDB::Drop, and build it");
    }
    const Status status = db_.Get(read, key, &value);
    if (!status.ok() && !status.IsNotFound()) return status;
    if (status.ok() && index.Has(key, value, index_key)) continue;
    ++report->stale;
    if (index.eager())
      Blame(index_key, key, "the entry is there, and the record has it not", report);
  }
  return it->status();
}

Status IndexedDBImpl::CheckRecords(const OpenIndex& index, const Snapshot* snapshot,
                                   IndexReport* report) {
  const ReadOptions read = WalkAt(snapshot);
  std::string unused;
  return ForEachRecord(snapshot, [&](const Slice& key, const Slice& value) {
    ++report->records;
    for (const std::string& index_key : index.KeysOf(key, value)) {
      const Status status = db_.Get(read, IndexEntryKey(index.entries, index_key, key), &unused);
      if (status.ok()) continue;
      if (!status.IsNotFound()) return status;
      ++report->missing;
      Blame(index_key, key, "the record has it, and there is no entry", report);
    }
    return Status::OK();
  });
}

Status IndexedDBImpl::Check(const std::string& name, IndexReport* report) {
  return WithinMemory([&] {
    OpenIndex* index = nullptr;
    DLSM_RETURN_IF_ERROR(FindReady(name, &index));
    const HeldSnapshot snapshot(&db_);
    IndexReport seen;
    Status status = CheckEntries(*index, snapshot.get(), &seen);
    if (status.ok()) status = CheckRecords(*index, snapshot.get(), &seen);
    if (status.ok() && (seen.missing > 0 || (index->eager() && seen.stale > 0))) {
      status = Status::Corruption(
          fmt::format("index {}: {} entries are missing and {} wrong; {}", name, seen.missing,
                      seen.stale, seen.example),
          "write records through the IndexedDB only; delete the index with IndexedDB::Drop, and "
          "build it");
    }
    if (report != nullptr) *report = std::move(seen);
    return status;
  });
}

// A query over all of the index deletes what is stale on the way.
Status IndexedDBImpl::Clean(const std::string& name, uint64_t* cleaned) {
  return WithinMemory([&] {
    const uint64_t before = counts_.entries_cleaned.load(std::memory_order_relaxed);
    const uint64_t failed = counts_.cleanups_failed.load(std::memory_order_relaxed);
    IndexQueryOptions options;
    options.values = false;
    std::unique_ptr<IndexIterator> it = Query(options, name, IndexRange());
    while (it->Valid()) it->Next();
    DLSM_RETURN_IF_ERROR(it->status());
    it.reset();
    if (cleaned != nullptr)
      *cleaned = counts_.entries_cleaned.load(std::memory_order_relaxed) - before;
    if (counts_.cleanups_failed.load(std::memory_order_relaxed) == failed) return Status::OK();
    return Status::IOError(fmt::format("index {}: not all stale entries could be deleted", name),
                           "call it again when the database takes writes");
  });
}

Status IndexedDB::Drop(DB* db, const std::string& index, const IndexedDBOptions& options) {
  if (db == nullptr) return Status::InvalidArgument("IndexedDB::Drop: db is null");
  return WithinMemory([&] {
    const std::string entries = IndexEntriesPrefix(options.prefix, index);
    WriteBatch batch;
    batch.DeleteRange(entries, KeyBehind(entries));
    batch.Delete(IndexStateKey(options.prefix, index));
    return db->Write(WriteOptions(), &batch);
  });
}

}  // namespace dlsm
