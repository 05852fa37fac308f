// Secondary indexes: records that are found by something else than their keys.
//
// An index has a function that takes index keys out of a record, any number of them. Its entries
// lie in the database of the records, under a prefix, so that one write changes both or neither.
// They are kept in one of two ways (Luo and Carey, "On performance stability in LSM-based storage
// systems", VLDB 2019, section 7):
//
//   eager  A write reads the record that it replaces, and deletes the entries that are no longer
//          right in the same batch. Writes cost a point read; entries are always right.
//   lazy   A write only adds entries. A query looks at the record behind each entry, leaves out the
//          entries that the record no longer has, and deletes them. Writes cost no read; queries
//          read records that they do not return.
//
// Invariants, of an index that has been built, as of any moment (thus of any snapshot):
//   1. Each index key of each record has its entry.
//   2. Of an eager index there are no other entries.
//   3. A query returns exactly the records that have the index key, whatever the way.
//
// They hold as long as all writes of records go through one IndexedDB: writes that go to the
// database itself are not indexed, and two objects for one database do not know each other's locks.
// doc/secondary-index.md tells more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

class WriteBatch;

enum class IndexUpkeep : unsigned char { kEager = 0, kLazy = 1 };

// Appends the index keys of a record to *index_keys. A key that is there twice counts once. Called
// by many threads at once; depends on nothing but key and value, for as long as the index lives.
using IndexExtractor =
    std::function<void(const Slice& key, const Slice& value, std::vector<std::string>* index_keys)>;

struct IndexDefinition {
  std::string name;  // 1 to 255 bytes.
  IndexExtractor extract;
  IndexUpkeep upkeep = IndexUpkeep::kEager;
};

struct IndexedDBOptions {
  // What the keys of index entries begin with. Keys of records do not. It stays the same as long as
  // there is an index. In a database with shards it decides where the entries are.
  std::string prefix = std::string(
      "\xff"
      "dlsm.index\0",
      12);
  // Writes of one record wait for each other. Records share so many locks by their keys' hashes; 1
  // to 65536.
  size_t locks = 1024;
};

struct IndexQueryOptions {
  // As of this snapshot of the database; null: as of the call.
  const Snapshot* snapshot = nullptr;
  bool verify_checksums = false;
  // Whether value() of the results is wanted. An eager index then reads no records at all.
  bool values = true;
  // Lazy: deletes the entries that were found to be no longer right.
  bool clean_up = true;
};

// Index keys from `begin` on and before `end`; null: from the first one, to the last one.
struct IndexRange {
  const Slice* begin = nullptr;
  const Slice* end = nullptr;
};

// Results of a query: by index key, then by the record's key. A record with two index keys in the
// range is there twice. One thread at a time; deleted before the IndexedDB.
class IndexIterator {
 public:
  IndexIterator() = default;
  IndexIterator(const IndexIterator&) = delete;
  IndexIterator& operator=(const IndexIterator&) = delete;
  virtual ~IndexIterator() = default;

  // It is at the first result when it is made.
  virtual bool Valid() const = 0;
  // These require Valid(). The bytes stay until the iterator moves.
  virtual void Next() = 0;
  virtual Slice index_key() const = 0;
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;  // Empty without IndexQueryOptions::values.
  // Why the iterator is not Valid(), if not for the end of the results.
  virtual Status status() const = 0;
};

// Since the IndexedDB was opened, of all its indexes.
struct IndexCounters {
  uint64_t records_written = 0;  // Puts and deletes of records.
  uint64_t records_read = 0;     // By writes, for eager indexes.
  uint64_t entries_written = 0;  // Of indexes.
  uint64_t entries_deleted = 0;  // By writes, for eager indexes.
  uint64_t queries = 0;
  uint64_t candidates = 0;        // Entries that queries came upon.
  uint64_t stale_candidates = 0;  // Of these, the ones that the record no longer had.
  uint64_t entries_cleaned = 0;   // By queries and Clean(), for lazy indexes.
  uint64_t cleanups_failed = 0;   // The entries stay, which is no harm.
};

// What Check() has seen.
struct IndexReport {
  uint64_t records = 0;
  uint64_t entries = 0;
  uint64_t missing = 0;  // Index keys of records that have no entry.
  uint64_t stale = 0;    // Entries that no record has; of a lazy index these are no error.
  std::string example;   // Of what is wrong, for people.
};

// A database with its indexes. Thread-safe.
class IndexedDB {
 public:
  // `db` outlives the object, has the comparator BytewiseComparator(), and may be a follower, which
  // answers queries only. An index is ready at once in a database without records. Elsewhere it is
  // kept from now on, and Build() has it take in what is there.
  // InvalidArgument if a definition cannot be; if the database has an index that is not among
  // `indexes`, for its entries would become wrong; or if an index that is to be eager was lazy.
  static Status Open(DB* db, std::vector<IndexDefinition> indexes, const IndexedDBOptions& options,
                     std::unique_ptr<IndexedDB>* indexed);
  // Deletes the index and all that it has. It is in no open IndexedDB. OK if there is none.
  static Status Drop(DB* db, const std::string& index, const IndexedDBOptions& options);

  IndexedDB() = default;
  IndexedDB(const IndexedDB&) = delete;
  IndexedDB& operator=(const IndexedDB&) = delete;
  virtual ~IndexedDB() = default;

  // As those of DB, with the entries of all indexes in the same batch. A key that begins with the
  // prefix is an InvalidArgument. A batch that deletes a range is NotSupported, because the index
  // keys of its records are not known.
  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  virtual Status Write(const WriteOptions& options, const WriteBatch& updates) = 0;
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // Never null. The status of the iterator is InvalidArgument if there is no such index, or it has
  // not been built.
  virtual std::unique_ptr<IndexIterator> Query(const IndexQueryOptions& options,
                                               const std::string& index,
                                               const IndexRange& range) = 0;
  // The records with this index key alone.
  virtual std::unique_ptr<IndexIterator> Lookup(const IndexQueryOptions& options,
                                                const std::string& index,
                                                const Slice& index_key) = 0;

  // Adds the entries of all records that are there, while others go on writing. Then the index is
  // ready. One that was interrupted is begun anew. OK at once for an index that is ready.
  virtual Status Build(const std::string& index) = 0;
  // Compares the index with the records, as of one moment. Corruption if an invariant is broken;
  // *report, which may be null, is filled in then, too.
  virtual Status Check(const std::string& index, IndexReport* report) = 0;
  // Deletes all entries of a lazy index that are no longer right, while others go on writing.
  // *cleaned, which may be null, is how many entries were deleted meanwhile.
  virtual Status Clean(const std::string& index, uint64_t* cleaned) = 0;

  virtual IndexCounters counters() const = 0;
};

}  // namespace dlsm
