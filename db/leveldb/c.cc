// The C interface: databases, iterators and batches.
#include "leveldb/c.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "db/leveldb/c_handles.h"

using dlsm::compat::CopyByMalloc;
using dlsm::compat::SaveError;
using leveldb::Slice;
using leveldb::Status;

namespace dlsm::compat {

bool SaveError(char** errptr, const leveldb::Status& status) {
  if (status.ok()) return false;
  if (errptr == nullptr) return true;
  std::free(*errptr);
  *errptr = CopyByMalloc(status.ToString());
  return true;
}

char* CopyByMalloc(const leveldb::Slice& bytes) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

}  // namespace dlsm::compat

namespace {

// A handle that the caller gives back.
template <typename Handle>
void DeleteHandle(Handle* handle) {
  const std::unique_ptr<Handle> deleted(handle);
}

}  // namespace

extern "C" {

leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr) {
  leveldb::DB* opened = nullptr;
  if (SaveError(errptr, leveldb::DB::Open(options->options, name, &opened))) return nullptr;
  auto db = std::make_unique<leveldb_t>();
  db->objects = options->objects;
  db->db.reset(opened);
  return db.release();
}

void leveldb_close(leveldb_t* db) { DeleteHandle(db); }

void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                 size_t keylen, const char* val, size_t vallen, char** errptr) {
  SaveError(errptr, db->db->Put(options->options, Slice(key, keylen), Slice(val, vallen)));
}

void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                    size_t keylen, char** errptr) {
  SaveError(errptr, db->db->Delete(options->options, Slice(key, keylen)));
}

void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                   leveldb_writebatch_t* batch, char** errptr) {
  SaveError(errptr, db->db->Write(options->options, &batch->batch));
}

char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                  size_t keylen, size_t* vallen, char** errptr) {
  *vallen = 0;
  std::string value;
  const Status status = db->db->Get(options->options, Slice(key, keylen), &value);
  if (status.IsNotFound() || SaveError(errptr, status)) return nullptr;
  char* const copy = CopyByMalloc(value);
  if (copy == nullptr) {
    SaveError(errptr, Status::IOError("there is no memory to copy the value to"));
    return nullptr;
  }
  *vallen = value.size();
  return copy;
}

leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options) {
  auto iterator = std::make_unique<leveldb_iterator_t>();
  iterator->iterator.reset(db->db->NewIterator(options->options));
  return iterator.release();
}

const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db) {
  auto snapshot = std::make_unique<leveldb_snapshot_t>();
  snapshot->snapshot = db->db->GetSnapshot();
  return snapshot.release();
}

void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot) {
  if (snapshot == nullptr) return;
  db->db->ReleaseSnapshot(snapshot->snapshot);
  DeleteHandle(snapshot);
}

char* leveldb_property_value(leveldb_t* db, const char* propname) {
  std::string value;
  return db->db->GetProperty(propname, &value) ? CopyByMalloc(value) : nullptr;
}

void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len,
                               const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes) {
  std::vector<leveldb::Range> ranges;
  for (int i = 0; i < num_ranges; ++i) {
    ranges.emplace_back(Slice(range_start_key[i], range_start_key_len[i]),
                        Slice(range_limit_key[i], range_limit_key_len[i]));
  }
  db->db->GetApproximateSizes(ranges.data(), num_ranges, sizes);
}

void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                           const char* limit_key, size_t limit_key_len) {
  const Slice start(start_key, start_key_len);
  const Slice limit(limit_key, limit_key_len);
  db->db->CompactRange(start_key == nullptr ? nullptr : &start,
                       limit_key == nullptr ? nullptr : &limit);
}

void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr) {
  SaveError(errptr, leveldb::DestroyDB(name, options->options));
}

void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr) {
  SaveError(errptr, leveldb::RepairDB(name, options->options));
}

void leveldb_iter_destroy(leveldb_iterator_t* iterator) { DeleteHandle(iterator); }
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iterator) {
  return iterator->iterator->Valid() ? 1 : 0;
}
void leveldb_iter_seek_to_first(leveldb_iterator_t* iterator) { iterator->iterator->SeekToFirst(); }
void leveldb_iter_seek_to_last(leveldb_iterator_t* iterator) { iterator->iterator->SeekToLast(); }
void leveldb_iter_seek(leveldb_iterator_t* iterator, const char* k, size_t klen) {
  iterator->iterator->Seek(Slice(k, klen));
}
void leveldb_iter_next(leveldb_iterator_t* iterator) { iterator->iterator->Next(); }
void leveldb_iter_prev(leveldb_iterator_t* iterator) { iterator->iterator->Prev(); }
const char* leveldb_iter_key(const leveldb_iterator_t* iterator, size_t* klen) {
  const Slice key = iterator->iterator->key();
  *klen = key.size();
  return key.data();
}
const char* leveldb_iter_value(const leveldb_iterator_t* iterator, size_t* vlen) {
  const Slice value = iterator->iterator->value();
  *vlen = value.size();
  return value.data();
}
void leveldb_iter_get_error(const leveldb_iterator_t* iterator, char** errptr) {
  SaveError(errptr, iterator->iterator->status());
}

leveldb_writebatch_t* leveldb_writebatch_create(void) {
  return std::make_unique<leveldb_writebatch_t>().release();
}
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch) { DeleteHandle(batch); }
void leveldb_writebatch_clear(leveldb_writebatch_t* batch) { batch->batch.Clear(); }
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen,
                            const char* val, size_t vlen) {
  batch->batch.Put(Slice(key, klen), Slice(val, vlen));
}
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen) {
  batch->batch.Delete(Slice(key, klen));
}
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char*, size_t, const char*, size_t),
                                void (*deleted)(void*, const char*, size_t)) {
  struct Caller final : public leveldb::WriteBatch::Handler {
    void Put(const Slice& key, const Slice& value) override {
      put(state, key.data(), key.size(), value.data(), value.size());
    }
    void Delete(const Slice& key) override { deleted(state, key.data(), key.size()); }

    void* state;
    void (*put)(void*, const char*, size_t, const char*, size_t);
    void (*deleted)(void*, const char*, size_t);
  };
  Caller caller;
  caller.state = state;
  caller.put = put;
  caller.deleted = deleted;
  // The signature has no place for an error, and the batch was made here.
  static_cast<void>(batch->batch.Iterate(&caller));
}
void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                               const leveldb_writebatch_t* source) {
  destination->batch.Append(source->batch);
}

void leveldb_free(void* ptr) { std::free(ptr); }
int leveldb_major_version(void) { return leveldb::kMajorVersion; }
int leveldb_minor_version(void) { return leveldb::kMinorVersion; }

}  // extern "C"
