// A database behind LevelDB's interface.
#pragma once

#include <memory>
#include <new>
#include <set>
#include <string>

#include "dLSM/db.h"
#include "db/leveldb/info_log.h"
#include "db/leveldb/own_options.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"
#include "port/mutex.h"
#include "port/process_mark.h"

namespace dlsm::compat {

// Thread-safe. In a child of the process that opened it each call is an error, or does nothing, as
// those of dlsm::DB; and what is deleted there stays as it is until the child ends.
class Database final : public leveldb::DB {
 public:
  // What belongs to an open database. Members go in the opposite order.
  struct Parts {
    std::string path;
    bool in_memory = false;  // It ends with this process: there is nothing to wait for.
    std::unique_ptr<leveldb::FileLock> lock;  // Of the directory; else null.
    InfoLog log;
    std::unique_ptr<OwnOptions> options;
    std::unique_ptr<dlsm::DB> db;
  };

  explicit Database(Parts parts);
  ~Database() override;
  static void operator delete(Database* database, std::destroying_delete_t) {
    port::DestroyHere(database, database->opened_by_);
  }
  static void operator delete(void* memory) { ::operator delete(memory); }

  leveldb::Status Put(const leveldb::WriteOptions& options, const leveldb::Slice& key,
                      const leveldb::Slice& value) override;
  leveldb::Status Delete(const leveldb::WriteOptions& options, const leveldb::Slice& key) override;
  leveldb::Status Write(const leveldb::WriteOptions& options,
                        leveldb::WriteBatch* updates) override;
  leveldb::Status Get(const leveldb::ReadOptions& options, const leveldb::Slice& key,
                      std::string* value) override;
  leveldb::Iterator* NewIterator(const leveldb::ReadOptions& options) override;
  const leveldb::Snapshot* GetSnapshot() override LOCKS_EXCLUDED(mutex_);
  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override LOCKS_EXCLUDED(mutex_);
  bool GetProperty(const leveldb::Slice& property, std::string* value) override;
  void GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) override;
  void CompactRange(const leveldb::Slice* begin, const leveldb::Slice* end) override;

 private:
  class OwnSnapshot;

  // Of a range that no table has a part of. Programs that have just written more than a memtable
  // expect a size, and its flush may not be done yet.
  uint64_t BytesInMemtables(const dlsm::Range& range);

  static dlsm::ReadOptions ToDlsm(const leveldb::ReadOptions& options);
  dlsm::WriteOptions ToDlsm(const leveldb::WriteOptions& options) const;

  const port::ProcessMark opened_by_;
  Parts parts_;

  // Those that are not released. LevelDB's programs may delete a database before them.
  port::Mutex mutex_;
  std::set<const OwnSnapshot*> snapshots_ GUARDED_BY(mutex_);
};

// Opens the database that is at `place`, with the words of LevelDB for what is expected to fail.
// `accept_log_loss` gives up what lies behind a damage of the log.
leveldb::Status OpenDatabase(const leveldb::Options& options, const Place& place,
                             bool accept_log_loss, std::unique_ptr<Database>* database);

}  // namespace dlsm::compat
