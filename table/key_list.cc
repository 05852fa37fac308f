#include "table/key_list.h"

#include "table/key_prefix.h"
#include "table/short_keys.h"
#include "util/coding.h"

namespace dlsm {
namespace {

// Those that are bounds of tables, but not because they must be so long, are shorter.
constexpr size_t kLongKeyBytes = 2 * kShortKeyBytes;

}  // namespace

void KeyWriter::Put(const Slice& key, std::string* to) {
  key_bytes_ += key.size();
  if (!sharing_) return PutLengthPrefixed(to, key);
  const size_t shared = CommonPrefix(last_long_, key);
  PutVarint32(to, static_cast<uint32_t>(shared));
  PutLengthPrefixed(to, After(key, shared));
  if (key.size() >= kLongKeyBytes) last_long_ = key;
}

bool KeyReader::Get(Slice* from, std::string* key) {
  uint32_t shared = 0;
  Slice rest;
  if ((sharing_ && !GetVarint32(from, &shared)) || !GetLengthPrefixed(from, &rest)) return false;
  if (shared > last_long_.size()) return false;
  const uint64_t bytes = shared + rest.size();
  if (bytes > key_bytes_left_) return false;
  key_bytes_left_ -= bytes;
  key->reserve(bytes);
  key->assign(last_long_, 0, shared);
  key->append(rest.data(), rest.size());
  if (sharing_ && key->size() >= kLongKeyBytes) last_long_ = *key;
  return true;
}

}  // namespace dlsm
