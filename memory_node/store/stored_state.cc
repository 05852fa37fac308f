#include "memory_node/store/stored_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

enum SessionFlag : uint32_t { kKnown = 1, kOwner = 2, kWordSeen = 4 };

uint32_t ChecksumOf(StoredKind kind, uint64_t id, const Slice& payload) {
  char key[9];
  key[0] = static_cast<char>(kind);
  EncodeFixed64(key + 1, id);
  return Crc32cExtend(Crc32c(key, sizeof(key)), payload.data(), payload.size());
}

std::string Seal(StoredKind kind, uint64_t id, std::string payload) {
  const uint32_t checksum = ChecksumOf(kind, id, payload);
  PutFixed32(&payload, checksum);
  return payload;
}

Status Damaged(StoredKind kind, uint64_t id) {
  return Status::Corruption(
      fmt::format("row {} of kind {} of the accounts is damaged", id, static_cast<int>(kind)));
}

// Takes the checksum off the row's end.
Status Unseal(StoredKind kind, uint64_t id, const Slice& row, Slice* payload) {
  if (row.size() < sizeof(uint32_t)) return Damaged(kind, id);
  const size_t bytes = row.size() - sizeof(uint32_t);
  *payload = Slice(row.data(), bytes);
  if (DecodeFixed32(row.data() + bytes) != ChecksumOf(kind, id, *payload)) return Damaged(kind, id);
  return Status::OK();
}

void PutRanges(std::string* to, const std::vector<StoredRange>& ranges) {
  PutVarint64(to, ranges.size());
  for (const StoredRange& range : ranges) {
    PutVarint64(to, range.begin);
    PutVarint64(to, range.end - range.begin);
  }
}

// Ascending and disjoint, each with a byte at least.
bool GetRanges(Slice* from, std::vector<StoredRange>* ranges) {
  uint64_t count = 0;
  if (!GetVarint64(from, &count) || count > from->size()) return false;
  ranges->clear();
  ranges->reserve(count);
  uint64_t last = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t begin = 0;
    uint64_t bytes = 0;
    if (!GetVarint64(from, &begin) || !GetVarint64(from, &bytes)) return false;
    if (begin < last || bytes == 0 || begin + bytes < begin) return false;
    ranges->push_back({begin, begin + bytes});
    last = begin + bytes;
  }
  return true;
}

}  // namespace

std::string StoredContents::Encode() const {
  std::string payload;
  PutFixed64(&payload, static_cast<uint64_t>(contents));
  PutFixed64(&payload, static_cast<uint64_t>(boot));
  PutFixed64(&payload, persistence);
  PutFixed64(&payload, capacity_bytes);
  PutLengthPrefixed(&payload, machine_boot);
  return Seal(StoredKind::kContents, 0, std::move(payload));
}

Status StoredContents::Decode(const Slice& row, StoredContents* contents) {
  Slice rest;
  DLSM_RETURN_IF_ERROR(Unseal(StoredKind::kContents, 0, row, &rest));
  uint64_t id = 0;
  uint64_t boot = 0;
  if (!GetFixed64(&rest, &id) || !GetFixed64(&rest, &boot) ||
      !GetFixed64(&rest, &contents->persistence) || !GetFixed64(&rest, &contents->capacity_bytes) ||
      !GetLengthPrefixed(&rest, &contents->machine_boot) || !rest.empty()) {
    return Damaged(StoredKind::kContents, 0);
  }
  contents->contents = ContentsId{id};
  contents->boot = BootId{boot};
  return Status::OK();
}

std::string StoredDatabase::Encode() const {
  std::string payload;
  PutLengthPrefixed(&payload, name);
  PutVarint64(&payload, header);
  PutVarint32(&payload, listed ? 1 : 0);
  PutVarint64(&payload, manifest_version);
  PutVarint32(&payload, epoch);
  PutFixed64(&payload, unnamed_from);
  PutFixed64(&payload, whole_from);
  PutVarint64(&payload, reasons.size());
  for (const StoredReason& reason : reasons) {
    PutVarint32(&payload, reason.kind);
    PutVarint64(&payload, reason.number);
    PutRanges(&payload, reason.ranges);
  }
  PutRanges(&payload, retired);
  return Seal(StoredKind::kDatabase, incarnation, std::move(payload));
}

Status StoredDatabase::Decode(uint64_t incarnation, const Slice& row, StoredDatabase* database) {
  Slice rest;
  DLSM_RETURN_IF_ERROR(Unseal(StoredKind::kDatabase, incarnation, row, &rest));
  const Status damaged = Damaged(StoredKind::kDatabase, incarnation);
  database->incarnation = incarnation;
  uint32_t listed = 0;
  uint64_t reasons = 0;
  if (!GetLengthPrefixed(&rest, &database->name) || !GetVarint64(&rest, &database->header) ||
      !GetVarint32(&rest, &listed) || listed > 1 ||
      !GetVarint64(&rest, &database->manifest_version) || !GetVarint32(&rest, &database->epoch) ||
      !GetFixed64(&rest, &database->unnamed_from) || !GetFixed64(&rest, &database->whole_from) ||
      !GetVarint64(&rest, &reasons) || reasons > rest.size() || database->name.empty()) {
    return damaged;
  }
  database->listed = listed == 1;
  database->reasons.clear();
  for (uint64_t i = 0; i < reasons; ++i) {
    StoredReason& reason = database->reasons.emplace_back();
    uint32_t kind = 0;
    if (!GetVarint32(&rest, &kind) || kind > UINT8_MAX || !GetVarint64(&rest, &reason.number) ||
        !GetRanges(&rest, &reason.ranges)) {
      return damaged;
    }
    reason.kind = static_cast<uint8_t>(kind);
  }
  if (!GetRanges(&rest, &database->retired) || !rest.empty()) return damaged;
  return Status::OK();
}

std::string StoredManifest::Encode(uint64_t incarnation) const {
  std::string payload;
  PutVarint64(&payload, version);
  payload += bytes;
  return Seal(StoredKind::kManifest, incarnation, std::move(payload));
}

Status StoredManifest::Decode(uint64_t incarnation, const Slice& row, StoredManifest* manifest) {
  Slice rest;
  DLSM_RETURN_IF_ERROR(Unseal(StoredKind::kManifest, incarnation, row, &rest));
  if (!GetVarint64(&rest, &manifest->version)) return Damaged(StoredKind::kManifest, incarnation);
  manifest->bytes = rest.ToString();
  return Status::OK();
}

std::string StoredSession::Encode() const {
  std::string payload;
  PutFixed64(&payload, incarnation);
  PutLengthPrefixed(&payload, client);
  PutVarint64(&payload, tokens.size());
  for (const std::string& token : tokens) PutLengthPrefixed(&payload, token);
  PutVarint32(&payload,
              (known ? kKnown : 0u) | (owner ? kOwner : 0u) | (word_seen ? kWordSeen : 0u));
  PutFixed64(&payload, word_before);
  PutFixed64(&payload, word);
  PutVarint64(&payload, last_free);
  PutFixed64(&payload, unnamed_before);
  PutVarint64(&payload, grants.size());
  for (const StoredGrant& grant : grants) {
    PutVarint64(&payload, grant.number);
    PutVarint64(&payload, grant.offset);
    PutVarint64(&payload, grant.bytes);
  }
  PutVarint64(&payload, next_merge);
  PutVarint64(&payload, awaited_merges.size());
  for (const uint64_t number : awaited_merges) PutVarint64(&payload, number);
  PutVarint64(&payload, merges.size());
  for (const StoredMerge& merge : merges) {
    PutVarint64(&payload, merge.number);
    PutRanges(&payload, merge.outputs);
  }
  return Seal(StoredKind::kSession, id, std::move(payload));
}

Status StoredSession::Decode(uint64_t id, const Slice& row, StoredSession* session) {
  Slice rest;
  DLSM_RETURN_IF_ERROR(Unseal(StoredKind::kSession, id, row, &rest));
  const Status damaged = Damaged(StoredKind::kSession, id);
  session->id = id;
  uint64_t count = 0;
  if (!GetFixed64(&rest, &session->incarnation) || !GetLengthPrefixed(&rest, &session->client) ||
      !GetVarint64(&rest, &count) || count > rest.size()) {
    return damaged;
  }
  session->tokens.assign(count, {});
  for (std::string& token : session->tokens) {
    if (!GetLengthPrefixed(&rest, &token)) return damaged;
  }
  uint32_t flags = 0;
  if (!GetVarint32(&rest, &flags) || !GetFixed64(&rest, &session->word_before) ||
      !GetFixed64(&rest, &session->word) || !GetVarint64(&rest, &session->last_free) ||
      !GetFixed64(&rest, &session->unnamed_before) || !GetVarint64(&rest, &count) ||
      count > rest.size()) {
    return damaged;
  }
  session->known = (flags & kKnown) != 0;
  session->owner = (flags & kOwner) != 0;
  session->word_seen = (flags & kWordSeen) != 0;
  session->grants.assign(count, {});
  for (StoredGrant& grant : session->grants) {
    if (!GetVarint64(&rest, &grant.number) || !GetVarint64(&rest, &grant.offset) ||
        !GetVarint64(&rest, &grant.bytes)) {
      return damaged;
    }
  }
  if (!GetVarint64(&rest, &session->next_merge) || !GetVarint64(&rest, &count) ||
      count > rest.size()) {
    return damaged;
  }
  session->awaited_merges.assign(count, 0);
  for (uint64_t& number : session->awaited_merges) {
    if (!GetVarint64(&rest, &number)) return damaged;
  }
  if (!std::ranges::is_sorted(session->awaited_merges)) return damaged;
  if (!GetVarint64(&rest, &count) || count > rest.size()) return damaged;
  session->merges.assign(count, {});
  for (StoredMerge& merge : session->merges) {
    if (!GetVarint64(&rest, &merge.number) || !GetRanges(&rest, &merge.outputs)) return damaged;
  }
  return rest.empty() ? Status::OK() : damaged;
}

std::string StoredQuotas::Encode() const {
  std::string payload;
  PutVarint64(&payload, bytes_by_owner.size());
  for (const auto& [owner, bytes] : bytes_by_owner) {
    PutLengthPrefixed(&payload, owner);
    PutVarint64(&payload, bytes);
  }
  return Seal(StoredKind::kQuotas, 0, std::move(payload));
}

Status StoredQuotas::Decode(const Slice& row, StoredQuotas* quotas) {
  Slice rest;
  DLSM_RETURN_IF_ERROR(Unseal(StoredKind::kQuotas, 0, row, &rest));
  uint64_t count = 0;
  if (!GetVarint64(&rest, &count)) return Damaged(StoredKind::kQuotas, 0);
  quotas->bytes_by_owner.clear();
  for (uint64_t i = 0; i < count; ++i) {
    std::string owner;
    uint64_t bytes = 0;
    if (!GetLengthPrefixed(&rest, &owner) || !GetVarint64(&rest, &bytes)) {
      return Damaged(StoredKind::kQuotas, 0);
    }
    quotas->bytes_by_owner[std::move(owner)] = bytes;
  }
  return rest.empty() ? Status::OK() : Damaged(StoredKind::kQuotas, 0);
}

namespace {

// No two databases have a byte, and none has one outside the region.
Status CheckRanges(const std::vector<StoredDatabase>& databases, uint64_t capacity_bytes) {
  std::map<uint64_t, std::pair<uint64_t, const StoredDatabase*>> taken;
  for (const StoredDatabase& database : databases) {
    std::vector<StoredRange> own = database.retired;
    for (const StoredReason& reason : database.reasons) {
      own.insert(own.end(), reason.ranges.begin(), reason.ranges.end());
    }
    std::ranges::sort(own, {}, &StoredRange::begin);
    StoredRange joined;
    const auto take = [&]() -> Status {
      if (joined.begin == joined.end) return Status::OK();
      if (joined.end > capacity_bytes) {
        return Status::Corruption(fmt::format("database '{}' has bytes up to offset {}, of {}",
                                              database.name, joined.end, capacity_bytes));
      }
      const auto after = taken.lower_bound(joined.begin);
      const StoredDatabase* other = nullptr;
      if (after != taken.end() && after->first < joined.end) other = after->second.second;
      if (after != taken.begin() && std::prev(after)->second.first > joined.begin) {
        other = std::prev(after)->second.second;
      }
      if (other != nullptr) {
        return Status::Corruption(
            fmt::format("databases '{}' and '{}' both have bytes at offset {}", database.name,
                        other->name, joined.begin));
      }
      taken[joined.begin] = {joined.end, &database};
      return Status::OK();
    };
    for (const StoredRange& range : own) {
      if (joined.begin != joined.end && range.begin <= joined.end) {
        joined.end = std::max(joined.end, range.end);
        continue;
      }
      DLSM_RETURN_IF_ERROR(take());
      joined = range;
    }
    DLSM_RETURN_IF_ERROR(take());
  }
  return Status::OK();
}

Status CheckDatabases(const StoredState& state) {
  std::map<std::string, uint64_t> listed;
  for (const StoredDatabase& database : state.databases) {
    if (database.listed && !listed.emplace(database.name, database.incarnation).second) {
      return Status::Corruption(fmt::format("there are two databases '{}'", database.name));
    }
    const auto manifest = state.manifests.find(database.incarnation);
    const uint64_t version = manifest == state.manifests.end() ? 0 : manifest->second.version;
    if (version != database.manifest_version) {
      return Status::Corruption(
          fmt::format("database '{}' should have version {} of its manifest, and has version {}",
                      database.name, database.manifest_version, version));
    }
  }
  return Status::OK();
}

}  // namespace

Status StoredState::Decode(const StoredRows& rows, uint64_t capacity_bytes, StoredState* state) {
  for (const auto& [key, row] : rows) {
    switch (key.kind) {
      case StoredKind::kContents:
        break;
      case StoredKind::kDatabase:
        DLSM_RETURN_IF_ERROR(StoredDatabase::Decode(key.id, row, &state->databases.emplace_back()));
        break;
      case StoredKind::kManifest:
        DLSM_RETURN_IF_ERROR(StoredManifest::Decode(key.id, row, &state->manifests[key.id]));
        break;
      case StoredKind::kSession:
        DLSM_RETURN_IF_ERROR(StoredSession::Decode(key.id, row, &state->sessions.emplace_back()));
        break;
      case StoredKind::kQuotas:
        DLSM_RETURN_IF_ERROR(StoredQuotas::Decode(row, &state->quotas));
        break;
      default:
        return Damaged(key.kind, key.id);
    }
  }
  DLSM_RETURN_IF_ERROR(CheckDatabases(*state));
  return CheckRanges(state->databases, capacity_bytes);
}

}  // namespace dlsm
