#include "db/index/index_keys.h"

#include <fmt/core.h>

#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {

namespace {

constexpr char kEntries = 'e';
constexpr char kStates = 's';
constexpr char kEscapedZero = '\xff';
constexpr char kEnd = '\x01';
constexpr uint8_t kStateVersion = 1;

}  // namespace

void AppendOrdered(std::string* to, const Slice& bytes) {
  for (const char byte : bytes.ToStringView()) {
    to->push_back(byte);
    if (byte == '\0') to->push_back(kEscapedZero);
  }
  to->push_back('\0');
  to->push_back(kEnd);
}

bool TakeOrdered(Slice* from, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < from->size(); ++i) {
    if ((*from)[i] != '\0') {
      bytes->push_back((*from)[i]);
      continue;
    }
    if (++i == from->size()) return false;
    if ((*from)[i] == kEnd) {
      from->remove_prefix(i + 1);
      return true;
    }
    if ((*from)[i] != kEscapedZero) return false;
    bytes->push_back('\0');
  }
  return false;
}

std::string IndexEntriesPrefix(const Slice& prefix, const Slice& name) {
  std::string key = prefix.ToString() + kEntries;
  AppendOrdered(&key, name);
  return key;
}

std::string IndexStatesPrefix(const Slice& prefix) { return prefix.ToString() + kStates; }

std::string IndexStateKey(const Slice& prefix, const Slice& name) {
  return IndexStatesPrefix(prefix) + name.ToString();
}

std::string KeyBehind(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::string IndexEntryKey(const std::string& entries, const Slice& index_key, const Slice& key) {
  std::string entry;
  entry.reserve(entries.size() + index_key.size() + key.size() + 2);
  entry = entries;
  AppendOrdered(&entry, index_key);
  entry.append(key.data(), key.size());
  return entry;
}

bool DecodeIndexEntry(const std::string& entries, const Slice& bytes, std::string* index_key,
                      Slice* key) {
  *key = bytes;
  if (!key->starts_with(entries)) return false;
  key->remove_prefix(entries.size());
  return TakeOrdered(key, index_key);
}

std::string IndexState::Encode() const {
  std::string bytes;
  bytes.push_back(static_cast<char>(kStateVersion));
  bytes.push_back(static_cast<char>(upkeep));
  bytes.push_back(static_cast<char>(ready));
  PutFixed32(&bytes, Crc32c(bytes));
  return bytes;
}

Status IndexState::Decode(const Slice& bytes) {
  constexpr size_t kFields = 3;
  if (bytes.size() < kFields + 4 ||
      DecodeFixed32(bytes.end() - 4) != Crc32c(bytes.data(), bytes.size() - sizeof(uint32_t))) {
    return Status::Corruption("the state of an index is damaged", "drop the index and build it");
  }
  const auto version = static_cast<uint8_t>(bytes[0]);
  if (version != kStateVersion) {
    return Status::NotSupported(
        fmt::format("an index has the format version {}, and this library knows {}", version,
                    kStateVersion),
        "use the version of dLSM that made the index, or drop it and build it");
  }
  if (bytes.size() != kFields + 4 || static_cast<uint8_t>(bytes[1]) > 1 ||
      static_cast<uint8_t>(bytes[2]) > 1) {
    return Status::Corruption("the state of an index is damaged", "drop the index and build it");
  }
  upkeep = static_cast<IndexUpkeep>(bytes[1]);
  ready = bytes[2] != 0;
  return Status::OK();
}

}  // namespace dlsm
