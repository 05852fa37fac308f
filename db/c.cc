#include "dLSM/c.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/c_handles.h"
#include "port/allocation_point.h"
#include "util/log.h"
#include "util/status_macros.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::DeleteHandle;
using dlsm::c::Guarded;
using dlsm::c::Keeping;
using dlsm::c::NewHandle;
using dlsm::c::ToSlice;

namespace {

// By malloc(), a 0 behind it; NULL when there is no memory.
char* Copy(const Slice& bytes) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// What is told of an error for whose message there is no memory: NULL would be success. It is not
// from malloc(), so only Free() may be given it.
char* ErrorWithoutMemory() {
  static char message[] =
      "the call has failed, and the process has no memory for what it has to say: raise its limit "
      "(ulimit -v), and try again";
  return message;
}

void Free(void* pointer) {
  if (pointer != ErrorWithoutMemory()) std::free(pointer);
}

// By malloc(), or ErrorWithoutMemory().
char* ErrorMessage(const Status& status) {
  char* message = nullptr;
  try {
    dlsm::port::AllocationPoint();
    message = Copy(status.ToString());
  } catch (const std::bad_alloc&) {
    // As if malloc() had failed.
  }
  return message == nullptr ? ErrorWithoutMemory() : message;
}

// True if `status` is an error, which *errptr then tells.
bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) return false;
  Free(*errptr);
  *errptr = ErrorMessage(status);
  return true;
}

// Makes the call that `function` is, of which *errptr tells the error. True if there is one.
template <typename Function>
bool Fails(char** errptr, Function function) noexcept {
  return SaveError(errptr, Guarded(std::move(function)));
}

// One answer of Get or MultiGet.
char* Answer(const Status& status, const std::string& value, size_t* bytes, char** errptr) {
  *bytes = 0;
  if (status.IsNotFound() || SaveError(errptr, status)) return nullptr;
  char* const copy = Copy(value);
  if (copy == nullptr) {
    SaveError(errptr, Status::IOError("there is no memory to copy the value to"));
    return nullptr;
  }
  *bytes = value.size();
  return copy;
}

// A bound as in ReadOptions, of the same key in *bytes.
const Slice* CopyBound(const Slice* bound, std::string* bytes, Slice* slice) {
  if (bound == nullptr) return nullptr;
  bytes->assign(bound->data(), bound->size());
  *slice = Slice(*bytes);
  return slice;
}

Status CompactRange(dlsm_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                    size_t limit_key_len) {
  const Slice start = ToSlice(start_key, start_key_len);
  const Slice limit = ToSlice(limit_key, limit_key_len);
  return db->db->CompactRange(start_key == nullptr ? nullptr : &start,
                              limit_key == nullptr ? nullptr : &limit);
}

// What `open` opens, or NULL.
template <typename Open>
dlsm_t* Opened(const dlsm_options_t* options, char** errptr, Open open) noexcept {
  std::unique_ptr<dlsm_t> result;
  const bool failed = Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(options->failure);
    result = std::make_unique<dlsm_t>();
    return open(&result->db);
  });
  return failed ? nullptr : result.release();
}

// A move for which there was no memory may have been made in part: the iterator is of no more use.
template <typename Function>
void Move(dlsm_iterator_t* iterator, Function move) noexcept {
  if (!iterator->failure.ok()) return;
  Keeping(&iterator->failure, [&] {
    move(iterator->iterator.get());
    return Status::OK();
  });
}

}  // namespace

extern "C" {

dlsm_t* dlsm_open(const dlsm_options_t* options, const char* name, char** errptr) {
  return Opened(options, errptr, [&](std::unique_ptr<dlsm::DB>* db) {
    return dlsm::DB::Open(options->options, name, db);
  });
}

dlsm_t* dlsm_open_follower(const dlsm_options_t* options, const char* name, char** errptr) {
  return Opened(options, errptr, [&](std::unique_ptr<dlsm::DB>* db) {
    return dlsm::DB::OpenFollower(options->options, name, db);
  });
}

void dlsm_try_catch_up(dlsm_t* db, char** errptr) {
  Fails(errptr, [&] { return db->db->TryCatchUp(); });
}

void dlsm_close(dlsm_t* db) { DeleteHandle(db); }

void dlsm_close_checked(dlsm_t* db, char** errptr) {
  const std::unique_ptr<dlsm_t> owned(db);
  if (db == nullptr) return;
  Fails(errptr, [&] { return db->db->Close(); });
}

void dlsm_destroy_db(const dlsm_options_t* options, const char* name, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(options->failure);
    return dlsm::DestroyDB(name, options->options);
  });
}

void dlsm_put(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
              const char* val, size_t vallen, char** errptr) {
  Fails(errptr,
        [&] { return db->db->Put(options->options, ToSlice(key, keylen), ToSlice(val, vallen)); });
}

void dlsm_delete(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
                 char** errptr) {
  Fails(errptr, [&] { return db->db->Delete(options->options, ToSlice(key, keylen)); });
}

void dlsm_write(dlsm_t* db, const dlsm_writeoptions_t* options, dlsm_writebatch_t* batch,
                char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(batch->failure);
    return db->db->Write(options->options, &batch->batch);
  });
}

char* dlsm_get(dlsm_t* db, const dlsm_readoptions_t* options, const char* key, size_t keylen,
               size_t* vallen, char** errptr) {
  std::string value;
  const Status status =
      Guarded([&] { return db->db->Get(options->options, ToSlice(key, keylen), &value); });
  return Answer(status, value, vallen, errptr);
}

void dlsm_multi_get(dlsm_t* db, const dlsm_readoptions_t* options, size_t num_keys,
                    const char* const* keys_list, const size_t* keys_list_sizes, char** values_list,
                    size_t* values_list_sizes, char** errs) {
  std::vector<std::string> values;
  std::vector<Status> statuses;
  const Status whole = Guarded([&] {
    std::vector<Slice> keys;
    keys.reserve(num_keys);
    for (size_t i = 0; i < num_keys; ++i) {
      keys.push_back(ToSlice(keys_list[i], keys_list_sizes[i]));
    }
    statuses = db->db->MultiGet(options->options, keys, &values);
    return Status::OK();
  });
  whole.PermitUncheckedError();  // There may be no key to tell it of.
  for (size_t i = 0; i < num_keys; ++i) {
    errs[i] = nullptr;
    values_list[i] = whole.ok() ? Answer(statuses[i], values[i], &values_list_sizes[i], &errs[i])
                                : Answer(whole, std::string(), &values_list_sizes[i], &errs[i]);
  }
}

dlsm_iterator_t* dlsm_create_iterator(dlsm_t* db, const dlsm_readoptions_t* options) {
  return NewHandle<dlsm_iterator_t>([&](dlsm_iterator_t* result) {
    dlsm::ReadOptions own = options->options;
    Slice lower, upper;  // The iterator keeps what they are, not where they lie.
    own.iterate_lower_bound = CopyBound(own.iterate_lower_bound, &result->lower_bytes, &lower);
    own.iterate_upper_bound = CopyBound(own.iterate_upper_bound, &result->upper_bytes, &upper);
    result->failure = options->failure;
    result->failure.PermitUncheckedError();
    if (result->failure.ok()) result->iterator.reset(db->db->NewIterator(own));
  });
}

const dlsm_snapshot_t* dlsm_create_snapshot(dlsm_t* db) {
  return NewHandle<dlsm_snapshot_t>(
      [&](dlsm_snapshot_t* result) { result->snapshot = db->db->GetSnapshot(); });
}

void dlsm_release_snapshot(dlsm_t* db, const dlsm_snapshot_t* snapshot) {
  if (snapshot == nullptr) return;
  db->db->ReleaseSnapshot(snapshot->snapshot);
  DeleteHandle(snapshot);
}

void dlsm_set_options(dlsm_t* db, int count, const char* const names[], const char* const values[],
                      char** errptr) {
  Fails(errptr, [&] {
    std::unordered_map<std::string, std::string> options;
    for (int i = 0; i < count; ++i) options[names[i]] = values[i];
    return db->db->SetOptions(options);
  });
}

char* dlsm_property_value(dlsm_t* db, const char* propname) {
  char* copy = nullptr;
  const Status status = Guarded([&] {
    std::string value;
    if (db->db->GetProperty(propname, &value)) copy = Copy(value);
    return Status::OK();
  });
  return status.ok() ? copy : nullptr;
}

int dlsm_property_int(dlsm_t* db, const char* propname, uint64_t* out_val) {
  bool is_number = false;
  const Status status = Guarded([&] {
    is_number = db->db->GetIntProperty(propname, out_val);
    return Status::OK();
  });
  return status.ok() && is_number ? 0 : -1;
}

void dlsm_approximate_sizes(dlsm_t* db, int num_ranges, const char* const* range_start_key,
                            const size_t* range_start_key_len, const char* const* range_limit_key,
                            const size_t* range_limit_key_len, uint64_t* sizes) {
  const Status status = Guarded([&] {
    std::vector<dlsm::Range> ranges;
    ranges.reserve(static_cast<size_t>(std::max(num_ranges, 0)));
    for (int i = 0; i < num_ranges; ++i) {
      ranges.emplace_back(ToSlice(range_start_key[i], range_start_key_len[i]),
                          ToSlice(range_limit_key[i], range_limit_key_len[i]));
    }
    db->db->GetApproximateSizes(ranges.data(), num_ranges, sizes);
    return Status::OK();
  });
  if (!status.ok()) std::fill_n(sizes, std::max(num_ranges, 0), uint64_t{0});
}

void dlsm_compact_range(dlsm_t* db, const char* start_key, size_t start_key_len,
                        const char* limit_key, size_t limit_key_len) {
  const Status status =
      Guarded([&] { return CompactRange(db, start_key, start_key_len, limit_key, limit_key_len); });
  if (status.ok()) return;
  dlsm::IfMemoryPermits(
      [&] { dlsm::Log().Warn("CompactRange ended early: {}", status.ToString()); });
}

void dlsm_compact_range_checked(dlsm_t* db, const char* start_key, size_t start_key_len,
                                const char* limit_key, size_t limit_key_len, char** errptr) {
  Fails(errptr,
        [&] { return CompactRange(db, start_key, start_key_len, limit_key, limit_key_len); });
}

void dlsm_flush(dlsm_t* db, char** errptr) {
  Fails(errptr, [&] { return db->db->Flush({}); });
}

void dlsm_wait_for_background_work(dlsm_t* db, char** errptr) {
  Fails(errptr, [&] { return db->db->WaitForBackgroundWork(); });
}

void dlsm_iter_destroy(dlsm_iterator_t* iterator) { DeleteHandle(iterator); }
uint8_t dlsm_iter_valid(const dlsm_iterator_t* iterator) {
  return iterator->failure.ok() && iterator->iterator->Valid();
}
void dlsm_iter_seek_to_first(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) { moved->SeekToFirst(); });
}
void dlsm_iter_seek_to_last(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) { moved->SeekToLast(); });
}
void dlsm_iter_seek(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  Move(iterator, [&](dlsm::Iterator* moved) { moved->Seek(ToSlice(key, keylen)); });
}
void dlsm_iter_seek_for_prev(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  Move(iterator, [&](dlsm::Iterator* moved) { moved->SeekForPrev(ToSlice(key, keylen)); });
}
void dlsm_iter_next(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) { moved->Next(); });
}
void dlsm_iter_prev(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) { moved->Prev(); });
}
const char* dlsm_iter_key(const dlsm_iterator_t* iterator, size_t* keylen) {
  const Slice key = iterator->iterator->key();
  *keylen = key.size();
  return key.data();
}
const char* dlsm_iter_value(const dlsm_iterator_t* iterator, size_t* vallen) {
  const Slice value = iterator->iterator->value();
  *vallen = value.size();
  return value.data();
}
void dlsm_iter_get_error(const dlsm_iterator_t* iterator, char** errptr) {
  SaveError(errptr, iterator->failure.ok() ? iterator->iterator->status() : iterator->failure);
}

dlsm_writebatch_t* dlsm_writebatch_create(void) { return NewHandle<dlsm_writebatch_t>(); }
void dlsm_writebatch_destroy(dlsm_writebatch_t* batch) { DeleteHandle(batch); }
void dlsm_writebatch_clear(dlsm_writebatch_t* batch) {
  batch->batch.Clear();  // What is left has a place within every string.
  batch->failure = Status::OK();
  batch->failure.PermitUncheckedError();
}
void dlsm_writebatch_put(dlsm_writebatch_t* batch, const char* key, size_t keylen, const char* val,
                         size_t vallen) {
  Keeping(&batch->failure, [&] {
    batch->batch.Put(ToSlice(key, keylen), ToSlice(val, vallen));
    return Status::OK();
  });
}
void dlsm_writebatch_delete(dlsm_writebatch_t* batch, const char* key, size_t keylen) {
  Keeping(&batch->failure, [&] {
    batch->batch.Delete(ToSlice(key, keylen));
    return Status::OK();
  });
}
void dlsm_writebatch_append(dlsm_writebatch_t* destination, const dlsm_writebatch_t* source) {
  Keeping(&destination->failure, [&] {
    DLSM_RETURN_IF_ERROR(source->failure);
    destination->batch.Append(source->batch);
    return Status::OK();
  });
}

void dlsm_writebatch_iterate(const dlsm_writebatch_t* batch, void* state,
                             void (*put)(void*, const char*, size_t, const char*, size_t),
                             void (*deleted)(void*, const char*, size_t)) {
  struct Caller final : public dlsm::WriteBatch::Handler {
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
  // The signature has no place for the error; dlsm_write tells it.
  batch->batch.Iterate(&caller).PermitUncheckedError();
}

void dlsm_free(void* pointer) { Free(pointer); }

int dlsm_major_version(void) { return dlsm::kMajorVersion; }
int dlsm_minor_version(void) { return dlsm::kMinorVersion; }

}  // extern "C"
