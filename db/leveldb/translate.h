// Slices and outcomes, from one interface to the other.
#pragma once

#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace dlsm::compat {

inline dlsm::Slice ToDlsm(const leveldb::Slice& bytes) { return {bytes.data(), bytes.size()}; }
inline leveldb::Slice ToLeveldb(const dlsm::Slice& bytes) { return {bytes.data(), bytes.size()}; }

// LevelDB has no codes for what is busy, takes too long or was taken over: these are IOErrors.
leveldb::Status ToLeveldb(const dlsm::Status& status);

// An error of the operating system: NotFound if `error` is ENOENT, else IOError, with `context` and
// what `error` means.
leveldb::Status SystemError(const std::string& context, int error);

}  // namespace dlsm::compat
