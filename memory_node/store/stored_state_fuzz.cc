// Any bytes as rows of a memory node's accounts: damage is an error, what is decoded is encoded
// again as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "memory_node/store/stored_state.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {
namespace {

// With a checksum that is right, so that the fuzzer gets behind it.
std::string Sealed(StoredKind kind, uint64_t id, const Slice& payload) {
  std::string key(1, static_cast<char>(kind));
  PutFixed64(&key, id);
  std::string row = payload.ToString();
  PutFixed32(&row, Crc32cExtend(Crc32c(key), payload.data(), payload.size()));
  return row;
}

}  // namespace
}  // namespace dlsm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlsm;
  const Slice bytes(reinterpret_cast<const char*>(data), size);
  constexpr uint64_t kId = 7;
  StoredDatabase database;
  if (StoredDatabase::Decode(kId, Sealed(StoredKind::kDatabase, kId, bytes), &database).ok()) {
    StoredDatabase same;
    if (!StoredDatabase::Decode(kId, database.Encode(), &same).ok() || same != database) {
      std::abort();
    }
  }
  StoredSession session;
  if (StoredSession::Decode(kId, Sealed(StoredKind::kSession, kId, bytes), &session).ok()) {
    StoredSession same;
    if (!StoredSession::Decode(kId, session.Encode(), &same).ok() || same != session) std::abort();
  }
  StoredManifest manifest;
  static_cast<void>(
      StoredManifest::Decode(kId, Sealed(StoredKind::kManifest, kId, bytes), &manifest).ok());
  StoredContents contents;
  static_cast<void>(
      StoredContents::Decode(Sealed(StoredKind::kContents, 0, bytes), &contents).ok());
  StoredQuotas quotas;
  static_cast<void>(StoredQuotas::Decode(Sealed(StoredKind::kQuotas, 0, bytes), &quotas).ok());
  StoredRows rows;
  rows[{StoredKind::kDatabase, kId}] = Sealed(StoredKind::kDatabase, kId, bytes);
  StoredState state;
  static_cast<void>(StoredState::Decode(rows, uint64_t{1} << 40, &state).ok());
  return 0;
}
