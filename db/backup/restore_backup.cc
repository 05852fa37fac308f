#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

#include "dLSM/backup.h"
#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "db/backup/backup_reader.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

// A batch: large enough that its fixed cost does not matter, small beside a memtable.
constexpr size_t kBatchBytesMax = size_t{1} << 20;
constexpr uint32_t kBatchEntriesMax = 4000;

Status OpenReader(const std::string& path, std::unique_ptr<BackupReader>* reader) {
  std::unique_ptr<BackupBytes> bytes;
  DLSM_RETURN_IF_ERROR(OpenBackupBytes(path, &bytes));
  return BackupReader::Open(path, std::move(bytes), reader);
}

Status CheckIt(const std::string& path, BackupInfo* info) {
  std::unique_ptr<BackupReader> reader;
  DLSM_RETURN_IF_ERROR(OpenReader(path, &reader));
  Slice key;
  Slice value;
  for (bool end = false; !end;) DLSM_RETURN_IF_ERROR(reader->Next(&key, &value, &end));
  if (info != nullptr) *info = reader->info();
  return Status::OK();
}

Status CheckComparator(const std::string& path, const BackupInfo& info,
                       const std::string& comparator) {
  if (info.comparator == comparator) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("backup {}: its keys are in the order of comparator {}, and the database has {}",
                  path, info.comparator, comparator),
      "open the database with the comparator of the backup");
}

// Writes entries that are in the order of keys, none of which the database has. All that a restore
// writes goes through here.
Status WriteSorted(DB* db, WriteBatch* entries) {
  DLSM_RETURN_IF_ERROR(db->Write(WriteOptions(), entries));
  entries->Clear();
  return Status::OK();
}

// A range has no end that is behind all keys, so the last key goes by itself.
Status DeleteEverything(DB* db, Iterator* it) {
  it->SeekToFirst();
  const std::string first = it->key().ToString();
  it->SeekToLast();
  DLSM_RETURN_IF_ERROR(it->status());
  const std::string last = it->key().ToString();
  WriteBatch all;
  all.DeleteRange(first, last);
  all.Delete(last);
  return db->Write(WriteOptions(), &all);
}

Status MakeEmpty(const std::string& path, DB* db, bool overwrite) {
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  it->SeekToFirst();
  if (!it->Valid()) return it->status();
  if (overwrite) return DeleteEverything(db, it.get());
  return Status::InvalidArgument(
      fmt::format("backup {}: the database is not empty", path),
      "restore into a new one, or say that it may be overwritten (RestoreOptions::overwrite, "
      "dlsm_tool --overwrite)");
}

Status WriteEntries(DB* db, BackupReader* reader) {
  WriteBatch batch;
  Slice key;
  Slice value;
  while (true) {
    bool end = false;
    DLSM_RETURN_IF_ERROR(reader->Next(&key, &value, &end));
    if (end) break;
    batch.Put(key, value);
    if (batch.Count() < kBatchEntriesMax && batch.ApproximateSize() < kBatchBytesMax) continue;
    DLSM_RETURN_IF_ERROR(WriteSorted(db, &batch));
  }
  if (batch.Count() > 0) DLSM_RETURN_IF_ERROR(WriteSorted(db, &batch));
  return db->Flush(FlushOptions());
}

Status RestoreIt(const std::string& path, DB* db, const RestoreOptions& restore, BackupInfo* info) {
  if (db == nullptr) return Status::InvalidArgument("RestoreBackup: db is null");
  if (restore.check_first) DLSM_RETURN_IF_ERROR(CheckIt(path, nullptr));
  std::unique_ptr<BackupReader> reader;
  DLSM_RETURN_IF_ERROR(OpenReader(path, &reader));
  std::string comparator;
  if (db->GetProperty("dlsm.comparator", &comparator)) {
    DLSM_RETURN_IF_ERROR(CheckComparator(path, reader->info(), comparator));
  }
  DLSM_RETURN_IF_ERROR(MakeEmpty(path, db, restore.overwrite));
  if (const Status status = WriteEntries(db, reader.get()); !status.ok()) {
    return Status::FromCode(
        status.code(),
        fmt::format("{}; the database holds a part of the backup: restore again, with overwrite",
                    status.message().ToStringView()));
  }
  if (info != nullptr) *info = reader->info();
  return Status::OK();
}

// Options for the database that the backup is restored into, which may have to be made.
Options OptionsToMake(const Options& options, const BackupInfo& info) {
  Options made = options;
  made.create_if_missing = true;
  const bool divided = options.shards != 1 || !options.shard_boundaries.empty() ||
                       !options.compute_boundaries.empty();
  if (!divided && !info.shard_boundaries.empty()) {
    made.shards = static_cast<int>(info.shard_boundaries.size()) + 1;
    made.shard_boundaries = info.shard_boundaries;
  }
  return made;
}

Status OpenForRestore(const Options& options, const std::string& name, const BackupInfo& info,
                      std::unique_ptr<DB>* db) {
  Options existing = options;
  existing.create_if_missing = false;
  // Of an existing database the shards are what they are, so those of the backup are for a new one.
  const Status status = DB::Open(existing, name, db);
  if (!status.IsInvalidArgument()) return status;
  return DB::Open(OptionsToMake(options, info), name, db);
}

Status RestoreInto(const std::string& path, const Options& options, const std::string& name,
                   const RestoreOptions& restore, BackupInfo* info) {
  if (options.comparator == nullptr) return Status::InvalidArgument("comparator is null");
  BackupInfo read;
  if (restore.check_first) {
    DLSM_RETURN_IF_ERROR(CheckIt(path, &read));
  } else {
    std::unique_ptr<BackupReader> reader;
    DLSM_RETURN_IF_ERROR(OpenReader(path, &reader));
    read = reader->info();
  }
  DLSM_RETURN_IF_ERROR(CheckComparator(path, read, options.comparator->Name()));
  std::unique_ptr<DB> db;
  DLSM_RETURN_IF_ERROR(OpenForRestore(options, name, read, &db));
  RestoreOptions rest = restore;
  rest.check_first = false;
  Status status = RestoreIt(path, db.get(), rest, info);
  KeepFirstError(db->Close(), &status);
  return status;
}

}  // namespace

Status CheckBackup(const std::string& path, BackupInfo* info) {
  return WithinMemory([&] { return CheckIt(path, info); });
}

Status RestoreBackup(const std::string& path, DB* db, const RestoreOptions& restore,
                     BackupInfo* info) {
  return WithinMemory([&] { return RestoreIt(path, db, restore, info); });
}

Status RestoreBackup(const std::string& path, const Options& options, const std::string& name,
                     const RestoreOptions& restore, BackupInfo* info) {
  return WithinMemory([&] { return RestoreInto(path, options, name, restore, info); });
}

}  // namespace dlsm
