// Databases in the C interface.
#include "dLSM/c.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/sorted_source.h"
#include "db/c/c_errors.h"
#include "db/c/c_handles.h"
#include "util/log.h"
#include "util/status_macros.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::Check;
using dlsm::c::CheckBytes;
using dlsm::c::Copy;
using dlsm::c::DeleteHandle;
using dlsm::c::Fails;
using dlsm::c::Free;
using dlsm::c::Guarded;
using dlsm::c::SaveError;
using dlsm::c::TakeObjects;
using dlsm::c::ToSlice;

namespace {

// One answer of Get or MultiGet. A value without its length is good for those that have no 0.
char* Answer(const Status& status, const std::string& value, size_t* bytes, char** errptr) {
  if (bytes != nullptr) *bytes = 0;
  if (status.IsNotFound() || SaveError(errptr, status)) return nullptr;
  char* const copy = Copy(value);
  if (copy == nullptr) {
    SaveError(errptr, Status::IOError("there is no memory to copy the value to"));
    return nullptr;
  }
  if (bytes != nullptr) *bytes = value.size();
  return copy;
}

Status CompactRange(dlsm_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                    size_t limit_key_len) {
  DLSM_RETURN_IF_ERROR(Check(db, "db"));
  const Slice start = ToSlice(start_key, start_key_len);
  const Slice limit = ToSlice(limit_key, limit_key_len);
  return db->db->CompactRange(start_key == nullptr ? nullptr : &start,
                              limit_key == nullptr ? nullptr : &limit);
}

Status CheckOptions(const dlsm_options_t* options, const char* name) {
  DLSM_RETURN_IF_ERROR(Check(options, "options"));
  DLSM_RETURN_IF_ERROR(Check(name, "name"));
  return options->failure;
}

Status CheckWrite(const dlsm_t* db, const dlsm_writeoptions_t* options) {
  DLSM_RETURN_IF_ERROR(Check(db, "db"));
  return Check(options, "options");
}

Status CheckRead(const dlsm_t* db, const dlsm_readoptions_t* options) {
  DLSM_RETURN_IF_ERROR(Check(db, "db"));
  return Check(options, "options");
}

// The entries that an application's function gives.
class FunctionSource final : public dlsm::SortedSource {
 public:
  using Function = uint8_t (*)(void* state, const char** key, size_t* key_bytes, const char** value,
                               size_t* value_bytes);

  FunctionSource(void* state, Function next) : state_(state), next_(next) {}

  bool Next(Slice* key, Slice* value) override {
    const char* key_data = nullptr;
    const char* value_data = nullptr;
    size_t key_bytes = 0;
    size_t value_bytes = 0;
    if (next_(state_, &key_data, &key_bytes, &value_data, &value_bytes) == 0) return false;
    status_ = CheckBytes(key_data, key_bytes, "key");
    if (status_.ok()) status_ = CheckBytes(value_data, value_bytes, "val");
    if (!status_.ok()) return false;
    *key = ToSlice(key_data, key_bytes);
    *value = ToSlice(value_data, value_bytes);
    return true;
  }
  Status status() const override { return status_; }

 private:
  void* const state_;
  const Function next_;
  Status status_;
};

// What `open` opens, or NULL.
template <typename Open>
dlsm_t* Opened(const dlsm_options_t* options, const char* name, char** errptr, Open open) noexcept {
  std::unique_ptr<dlsm_t> result;
  const bool failed = Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckOptions(options, name));
    result = std::make_unique<dlsm_t>();
    DLSM_RETURN_IF_ERROR(TakeObjects(*options, &result->objects));
    return open(&result->db);
  });
  return failed ? nullptr : result.release();
}

// The keys of a MultiGet.
Status TakeKeys(size_t num_keys, const char* const* keys, const size_t* sizes,
                std::vector<Slice>* taken) {
  if (num_keys == 0) return Status::OK();
  DLSM_RETURN_IF_ERROR(Check(keys, "keys_list"));
  DLSM_RETURN_IF_ERROR(Check(sizes, "keys_list_sizes"));
  taken->reserve(num_keys);
  for (size_t i = 0; i < num_keys; ++i) {
    DLSM_RETURN_IF_ERROR(CheckBytes(keys[i], sizes[i], "a key"));
    taken->push_back(ToSlice(keys[i], sizes[i]));
  }
  return Status::OK();
}

// Those of dlsm_approximate_sizes(); all have `count` entries.
Status TakeRanges(int count, const char* const* starts, const size_t* starts_len,
                  const char* const* limits, const size_t* limits_len,
                  std::vector<dlsm::Range>* taken) {
  DLSM_RETURN_IF_ERROR(Check(starts, "range_start_key"));
  DLSM_RETURN_IF_ERROR(Check(starts_len, "range_start_key_len"));
  DLSM_RETURN_IF_ERROR(Check(limits, "range_limit_key"));
  DLSM_RETURN_IF_ERROR(Check(limits_len, "range_limit_key_len"));
  taken->reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    DLSM_RETURN_IF_ERROR(CheckBytes(starts[i], starts_len[i], "a key"));
    DLSM_RETURN_IF_ERROR(CheckBytes(limits[i], limits_len[i], "a key"));
    taken->emplace_back(ToSlice(starts[i], starts_len[i]), ToSlice(limits[i], limits_len[i]));
  }
  return Status::OK();
}

}  // namespace

extern "C" {

dlsm_t* dlsm_open(const dlsm_options_t* options, const char* name, char** errptr) {
  return Opened(options, name, errptr, [&](std::unique_ptr<dlsm::DB>* db) {
    return dlsm::DB::Open(options->options, name, db);
  });
}

dlsm_t* dlsm_open_follower(const dlsm_options_t* options, const char* name, char** errptr) {
  return Opened(options, name, errptr, [&](std::unique_ptr<dlsm::DB>* db) {
    return dlsm::DB::OpenFollower(options->options, name, db);
  });
}

dlsm_t* dlsm_open_for_read_only(const dlsm_options_t* options, const char* name, char** errptr) {
  return Opened(options, name, errptr, [&](std::unique_ptr<dlsm::DB>* db) {
    return dlsm::DB::OpenForReadOnly(options->options, name, db);
  });
}

void dlsm_try_catch_up(dlsm_t* db, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    return db->db->TryCatchUp();
  });
}

void dlsm_close(dlsm_t* db) { DeleteHandle(db); }

void dlsm_close_checked(dlsm_t* db, char** errptr) {
  const std::unique_ptr<dlsm_t> owned(db);
  if (db == nullptr) return;
  Fails(errptr, [&] { return db->db->Close(); });
}

void dlsm_destroy_db(const dlsm_options_t* options, const char* name, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckOptions(options, name));
    // It needs none of the objects, which may have been destroyed before.
    dlsm::Options own = options->options;
    if (own.comparator != nullptr) own.comparator = dlsm::BytewiseComparator();
    own.filter_policy = nullptr;
    own.block_cache = nullptr;
    return dlsm::DestroyDB(name, own);
  });
}

void dlsm_put(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
              const char* val, size_t vallen, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckWrite(db, options));
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    DLSM_RETURN_IF_ERROR(CheckBytes(val, vallen, "val"));
    return db->db->Put(options->options, ToSlice(key, keylen), ToSlice(val, vallen));
  });
}

void dlsm_delete(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
                 char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckWrite(db, options));
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    return db->db->Delete(options->options, ToSlice(key, keylen));
  });
}

void dlsm_delete_range(dlsm_t* db, const dlsm_writeoptions_t* options, const char* begin,
                       size_t beginlen, const char* end, size_t endlen, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckWrite(db, options));
    DLSM_RETURN_IF_ERROR(CheckBytes(begin, beginlen, "begin"));
    DLSM_RETURN_IF_ERROR(CheckBytes(end, endlen, "end"));
    return db->db->DeleteRange(options->options, ToSlice(begin, beginlen), ToSlice(end, endlen));
  });
}

uint64_t dlsm_ingest_sorted(dlsm_t* db, void* state,
                            uint8_t (*next)(void* state, const char** key, size_t* keylen,
                                            const char** val, size_t* vallen),
                            char** errptr) {
  uint64_t entries = 0;
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    if (next == nullptr) return Status::InvalidArgument("next is NULL");
    FunctionSource source(state, next);
    return db->db->IngestSorted(&source, &entries);
  });
  return entries;
}

void dlsm_write(dlsm_t* db, const dlsm_writeoptions_t* options, dlsm_writebatch_t* batch,
                char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(CheckWrite(db, options));
    DLSM_RETURN_IF_ERROR(Check(batch, "batch"));
    DLSM_RETURN_IF_ERROR(batch->failure);
    return db->db->Write(options->options, &batch->batch);
  });
}

char* dlsm_get(dlsm_t* db, const dlsm_readoptions_t* options, const char* key, size_t keylen,
               size_t* vallen, char** errptr) {
  std::string value;
  const Status status = Guarded([&] {
    DLSM_RETURN_IF_ERROR(CheckRead(db, options));
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    return db->db->Get(options->options, ToSlice(key, keylen), &value);
  });
  return Answer(status, value, vallen, errptr);
}

void dlsm_multi_get(dlsm_t* db, const dlsm_readoptions_t* options, size_t num_keys,
                    const char* const* keys_list, const size_t* keys_list_sizes, char** values_list,
                    size_t* values_list_sizes, char** errs) {
  std::vector<std::string> values;
  std::vector<Status> statuses;
  const Status whole = Guarded([&] {
    DLSM_RETURN_IF_ERROR(CheckRead(db, options));
    std::vector<Slice> keys;
    DLSM_RETURN_IF_ERROR(TakeKeys(num_keys, keys_list, keys_list_sizes, &keys));
    if (num_keys > 0) DLSM_RETURN_IF_ERROR(Check(values_list, "values_list"));
    statuses = db->db->MultiGet(options->options, keys, &values);
    return Status::OK();
  });
  whole.PermitUncheckedError();  // There may be no key to tell it of.
  for (size_t i = 0; i < num_keys; ++i) {
    char** const error = errs == nullptr ? nullptr : &errs[i];
    size_t* const bytes = values_list_sizes == nullptr ? nullptr : &values_list_sizes[i];
    if (error != nullptr) *error = nullptr;
    char* const answer = whole.ok() ? Answer(statuses[i], values[i], bytes, error)
                                    : Answer(whole, std::string(), bytes, error);
    if (values_list != nullptr) values_list[i] = answer;
  }
}

void dlsm_set_options(dlsm_t* db, int count, const char* const names[], const char* const values[],
                      char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    std::unordered_map<std::string, std::string> options;
    for (int i = 0; i < count; ++i) {
      DLSM_RETURN_IF_ERROR(Check(names, "names"));
      DLSM_RETURN_IF_ERROR(Check(names[i], "a name"));
      DLSM_RETURN_IF_ERROR(Check(values, "values"));
      DLSM_RETURN_IF_ERROR(Check(values[i], "a value"));
      options[names[i]] = values[i];
    }
    return db->db->SetOptions(options);
  });
}

char* dlsm_property_value(dlsm_t* db, const char* propname) {
  if (db == nullptr || propname == nullptr) return nullptr;
  char* copy = nullptr;
  const Status status = Guarded([&] {
    std::string value;
    if (db->db->GetProperty(propname, &value)) copy = Copy(value);
    return Status::OK();
  });
  return status.ok() ? copy : nullptr;
}

int dlsm_property_int(dlsm_t* db, const char* propname, uint64_t* out_val) {
  if (db == nullptr || propname == nullptr || out_val == nullptr) return -1;
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
  if (num_ranges <= 0 || sizes == nullptr) return;
  const Status status = Guarded([&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    std::vector<dlsm::Range> ranges;
    DLSM_RETURN_IF_ERROR(TakeRanges(num_ranges, range_start_key, range_start_key_len,
                                    range_limit_key, range_limit_key_len, &ranges));
    db->db->GetApproximateSizes(ranges.data(), num_ranges, sizes);
    return Status::OK();
  });
  if (!status.ok()) std::fill_n(sizes, num_ranges, uint64_t{0});
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
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    return db->db->Flush({});
  });
}

void dlsm_flush_log(dlsm_t* db, unsigned char sync, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    return db->db->FlushLog(sync != 0);
  });
}

void dlsm_wait_durable(dlsm_t* db, uint64_t sequence, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    return db->db->WaitDurable(sequence);
  });
}

uint64_t dlsm_latest_sequence(dlsm_t* db) { return db == nullptr ? 0 : db->db->LatestSequence(); }

uint64_t dlsm_durable_sequence(dlsm_t* db) { return db == nullptr ? 0 : db->db->DurableSequence(); }

void dlsm_wait_for_background_work(dlsm_t* db, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    return db->db->WaitForBackgroundWork();
  });
}

void dlsm_free(void* pointer) { Free(pointer); }

int dlsm_major_version(void) { return dlsm::kMajorVersion; }
int dlsm_minor_version(void) { return dlsm::kMinorVersion; }
int dlsm_patch_version(void) { return dlsm::kPatchVersion; }
const char* dlsm_version(void) { return dlsm::VersionString(); }

}  // extern "C"
