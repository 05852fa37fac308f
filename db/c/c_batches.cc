// Batches of the C interface.
#include "db/c/c_errors.h"
#include "db/c/c_handles.h"
#include "util/status_macros.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::Check;
using dlsm::c::CheckBytes;
using dlsm::c::DeleteHandle;
using dlsm::c::Fails;
using dlsm::c::Keeping;
using dlsm::c::NewHandle;
using dlsm::c::ToSlice;

extern "C" {

dlsm_writebatch_t* dlsm_writebatch_create(void) { return NewHandle<dlsm_writebatch_t>(); }
void dlsm_writebatch_destroy(dlsm_writebatch_t* batch) { DeleteHandle(batch); }
void dlsm_writebatch_clear(dlsm_writebatch_t* batch) {
  if (batch == nullptr) return;
  batch->batch.Clear();  // What is left has a place within every string.
  batch->failure = Status::OK();
  batch->failure.PermitUncheckedError();
}
void dlsm_writebatch_put(dlsm_writebatch_t* batch, const char* key, size_t keylen, const char* val,
                         size_t vallen) {
  if (batch == nullptr) return;
  Keeping(&batch->failure, [&] {
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    DLSM_RETURN_IF_ERROR(CheckBytes(val, vallen, "val"));
    batch->batch.Put(ToSlice(key, keylen), ToSlice(val, vallen));
    return Status::OK();
  });
}
void dlsm_writebatch_delete(dlsm_writebatch_t* batch, const char* key, size_t keylen) {
  if (batch == nullptr) return;
  Keeping(&batch->failure, [&] {
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    batch->batch.Delete(ToSlice(key, keylen));
    return Status::OK();
  });
}
void dlsm_writebatch_delete_range(dlsm_writebatch_t* batch, const char* begin, size_t beginlen,
                                  const char* end, size_t endlen) {
  if (batch == nullptr) return;
  Keeping(&batch->failure, [&] {
    DLSM_RETURN_IF_ERROR(CheckBytes(begin, beginlen, "begin"));
    DLSM_RETURN_IF_ERROR(CheckBytes(end, endlen, "end"));
    batch->batch.DeleteRange(ToSlice(begin, beginlen), ToSlice(end, endlen));
    return Status::OK();
  });
}
void dlsm_writebatch_set_save_point(dlsm_writebatch_t* batch) {
  if (batch == nullptr) return;
  Keeping(&batch->failure, [&] {
    batch->batch.SetSavePoint();
    return Status::OK();
  });
}
void dlsm_writebatch_rollback_to_save_point(dlsm_writebatch_t* batch, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(batch, "batch"));
    return batch->batch.RollbackToSavePoint();
  });
}
void dlsm_writebatch_pop_save_point(dlsm_writebatch_t* batch, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(batch, "batch"));
    return batch->batch.PopSavePoint();
  });
}
void dlsm_writebatch_append(dlsm_writebatch_t* destination, const dlsm_writebatch_t* source) {
  if (destination == nullptr) return;
  Keeping(&destination->failure, [&] {
    DLSM_RETURN_IF_ERROR(Check(source, "source"));
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
      if (put != nullptr) put(state, key.data(), key.size(), value.data(), value.size());
    }
    void Delete(const Slice& key) override {
      if (deleted != nullptr) deleted(state, key.data(), key.size());
    }

    void* state;
    void (*put)(void*, const char*, size_t, const char*, size_t);
    void (*deleted)(void*, const char*, size_t);
  };
  if (batch == nullptr) return;
  Caller caller;
  caller.state = state;
  caller.put = put;
  caller.deleted = deleted;
  // The signature has no place for the error; dlsm_write tells it.
  batch->batch.Iterate(&caller).PermitUncheckedError();
}

}  // extern "C"
