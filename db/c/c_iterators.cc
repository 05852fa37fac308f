// Iterators and snapshots of the C interface.
#include <memory>
#include <string>

#include "db/c/c_errors.h"
#include "db/c/c_handles.h"
#include "util/status_macros.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::Check;
using dlsm::c::CheckBytes;
using dlsm::c::DeleteHandle;
using dlsm::c::Keeping;
using dlsm::c::NewHandle;
using dlsm::c::SaveError;
using dlsm::c::ToSlice;

namespace {

// A bound as in ReadOptions, of the same key in *bytes.
const Slice* CopyBound(const Slice* bound, std::string* bytes, Slice* slice) {
  if (bound == nullptr) return nullptr;
  bytes->assign(bound->data(), bound->size());
  *slice = Slice(*bytes);
  return slice;
}

Status Make(dlsm_t* db, const dlsm_readoptions_t* options, dlsm_iterator_t* result) {
  DLSM_RETURN_IF_ERROR(Check(db, "db"));
  DLSM_RETURN_IF_ERROR(Check(options, "options"));
  DLSM_RETURN_IF_ERROR(options->failure);
  dlsm::ReadOptions own = options->options;
  Slice lower, upper;  // The iterator keeps what they are, not where they lie.
  own.iterate_lower_bound = CopyBound(own.iterate_lower_bound, &result->lower_bytes, &lower);
  own.iterate_upper_bound = CopyBound(own.iterate_upper_bound, &result->upper_bytes, &upper);
  result->iterator.reset(db->db->NewIterator(own));
  return Status::OK();
}

bool IsValid(const dlsm_iterator_t* iterator) {
  return iterator != nullptr && iterator->failure.ok() && iterator->iterator->Valid();
}

// A move for which there was no memory may have been made in part: the iterator is of no more use.
template <typename Function>
void Move(dlsm_iterator_t* iterator, Function move) noexcept {
  if (iterator == nullptr || !iterator->failure.ok()) return;
  Keeping(&iterator->failure, [&] { return move(iterator->iterator.get()); });
}

// A move that needs an entry to begin with: without one, nothing is done.
void Step(dlsm_iterator_t* iterator, void (dlsm::Iterator::*step)()) {
  Move(iterator, [step](dlsm::Iterator* moved) {
    if (moved->Valid()) (moved->*step)();
    return Status::OK();
  });
}

void SeekTo(dlsm_iterator_t* iterator, const char* key, size_t keylen,
            void (dlsm::Iterator::*seek)(const Slice&)) {
  Move(iterator, [&](dlsm::Iterator* moved) {
    DLSM_RETURN_IF_ERROR(CheckBytes(key, keylen, "key"));
    (moved->*seek)(ToSlice(key, keylen));
    return Status::OK();
  });
}

// What the iterator is at, or NULL.
const char* Shown(const dlsm_iterator_t* iterator, Slice (dlsm::Iterator::*part)() const,
                  size_t* bytes) {
  const bool valid = IsValid(iterator);
  const Slice shown = valid ? (iterator->iterator.get()->*part)() : Slice();
  if (bytes != nullptr) *bytes = shown.size();
  return valid ? shown.data() : nullptr;
}

}  // namespace

extern "C" {

dlsm_iterator_t* dlsm_create_iterator(dlsm_t* db, const dlsm_readoptions_t* options) {
  return NewHandle<dlsm_iterator_t>([&](dlsm_iterator_t* result) {
    result->failure = Make(db, options, result);
    result->failure.PermitUncheckedError();
  });
}

void dlsm_iter_destroy(dlsm_iterator_t* iterator) { DeleteHandle(iterator); }
uint8_t dlsm_iter_valid(const dlsm_iterator_t* iterator) { return IsValid(iterator); }
void dlsm_iter_seek_to_first(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) {
    moved->SeekToFirst();
    return Status::OK();
  });
}
void dlsm_iter_seek_to_last(dlsm_iterator_t* iterator) {
  Move(iterator, [](dlsm::Iterator* moved) {
    moved->SeekToLast();
    return Status::OK();
  });
}
void dlsm_iter_seek(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  SeekTo(iterator, key, keylen, &dlsm::Iterator::Seek);
}
void dlsm_iter_seek_for_prev(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  SeekTo(iterator, key, keylen, &dlsm::Iterator::SeekForPrev);
}
void dlsm_iter_next(dlsm_iterator_t* iterator) { Step(iterator, &dlsm::Iterator::Next); }
void dlsm_iter_prev(dlsm_iterator_t* iterator) { Step(iterator, &dlsm::Iterator::Prev); }
const char* dlsm_iter_key(const dlsm_iterator_t* iterator, size_t* keylen) {
  return Shown(iterator, &dlsm::Iterator::key, keylen);
}
const char* dlsm_iter_value(const dlsm_iterator_t* iterator, size_t* vallen) {
  return Shown(iterator, &dlsm::Iterator::value, vallen);
}
void dlsm_iter_get_error(const dlsm_iterator_t* iterator, char** errptr) {
  if (iterator == nullptr) {
    SaveError(errptr, Check(iterator, "iterator"));
  } else {
    SaveError(errptr, iterator->failure.ok() ? iterator->iterator->status() : iterator->failure);
  }
}

const dlsm_snapshot_t* dlsm_create_snapshot(dlsm_t* db) {
  if (db == nullptr) return nullptr;
  return NewHandle<dlsm_snapshot_t>(
      [&](dlsm_snapshot_t* result) { result->snapshot = db->db->GetSnapshot(); });
}

void dlsm_release_snapshot(dlsm_t* db, const dlsm_snapshot_t* snapshot) {
  if (db == nullptr || snapshot == nullptr) return;
  db->db->ReleaseSnapshot(snapshot->snapshot);
  DeleteHandle(snapshot);
}

}  // extern "C"
