// What of a memory node outlives its process, as values: its databases, its sessions and its
// quotas.
//
// Each value is one row of the accounts file (accounts_file.h). A row is encoded by the functions
// here, and begins with nothing and ends with a checksum of all that comes before it:
//
//   payload (below), fixed32 CRC32C of kind, id and payload
//
// The rows describe the whole state, not changes of it: to write a row twice does no harm, and what
// a row says does not depend on others that were written before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// What a row is about. Stored: a number that is in use keeps its meaning.
enum class StoredKind : uint8_t {
  kContents = 1,  // Of the whole directory; id 0.
  kDatabase = 2,  // By its incarnation.
  kManifest = 3,  // By its database's incarnation.
  kSession = 4,   // By its number.
  kQuotas = 5,    // All of them; id 0.
};

struct StoredKey {
  StoredKind kind{};
  uint64_t id = 0;

  friend auto operator<=>(const StoredKey&, const StoredKey&) = default;
};

using StoredRows = std::map<StoredKey, std::string>;

// [begin, end), offsets in the region.
struct StoredRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const StoredRange&, const StoredRange&) = default;
};

// What the directory holds.
//
//   fixed64 contents, fixed64 boot, fixed64 persistence, fixed64 capacity, machine boot
struct StoredContents {
  ContentsId contents{};
  BootId boot{};
  uint64_t persistence = 0;  // Another one after bytes may have been lost.
  uint64_t capacity_bytes = 0;
  std::string machine_boot;  // Of the kernel under which the directory was open last.

  std::string Encode() const;
  static Status Decode(const Slice& row, StoredContents* contents);
  friend bool operator==(const StoredContents&, const StoredContents&) = default;
};

// Bytes of a database, and why it has them: see ByteReason.
struct StoredReason {
  uint8_t kind = 0;
  uint64_t number = 0;
  std::vector<StoredRange> ranges;

  friend bool operator==(const StoredReason&, const StoredReason&) = default;
};

//   name, varint64 header, varint32 listed, varint64 manifest version, varint32 epoch,
//   fixed64 unnamed from, fixed64 whole from, reasons, retired ranges
struct StoredDatabase {
  uint64_t incarnation = 0;  // The row's id.
  std::string name;
  uint64_t header = 0;  // Its offset.
  bool listed = true;
  uint64_t manifest_version = 0;
  uint32_t epoch = 0;  // The largest that was offered to an owner.
  uint64_t unnamed_from = 0;
  uint64_t whole_from = 0;
  std::vector<StoredReason> reasons;
  std::vector<StoredRange> retired;  // For readers.

  std::string Encode() const;
  static Status Decode(uint64_t incarnation, const Slice& row, StoredDatabase* database);
  friend bool operator==(const StoredDatabase&, const StoredDatabase&) = default;
};

//   varint64 version, bytes
struct StoredManifest {
  uint64_t version = 0;
  std::string bytes;

  std::string Encode(uint64_t incarnation) const;
  static Status Decode(uint64_t incarnation, const Slice& row, StoredManifest* manifest);
  friend bool operator==(const StoredManifest&, const StoredManifest&) = default;
};

struct StoredGrant {
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const StoredGrant&, const StoredGrant&) = default;
};

// A merge that has begun, and what it has left to the session.
struct StoredMerge {
  uint64_t number = 0;
  std::vector<StoredRange> outputs;

  friend bool operator==(const StoredMerge&, const StoredMerge&) = default;
};

//   fixed64 incarnation, client, tokens, varint32 flags, fixed64 word before, fixed64 word,
//   varint64 last free, fixed64 unnamed before, grants, varint64 next merge, awaited merges, merges
struct StoredSession {
  uint64_t id = 0;           // The row's id.
  uint64_t incarnation = 0;  // Of its database.
  std::string client;
  std::vector<std::string> tokens;
  bool known = false;
  bool owner = false;
  bool word_seen = false;
  uint64_t word_before = 0;
  uint64_t word = 0;
  uint64_t last_free = 0;
  uint64_t unnamed_before = 0;
  std::vector<StoredGrant> grants;
  uint64_t next_merge = 1;
  std::vector<uint64_t> awaited_merges;
  std::vector<StoredMerge> merges;

  std::string Encode() const;
  static Status Decode(uint64_t id, const Slice& row, StoredSession* session);
  friend bool operator==(const StoredSession&, const StoredSession&) = default;
};

//   varint32 count; for each: owner, varint64 bytes
struct StoredQuotas {
  std::map<std::string, uint64_t> bytes_by_owner;

  std::string Encode() const;
  static Status Decode(const Slice& row, StoredQuotas* quotas);
  friend bool operator==(const StoredQuotas&, const StoredQuotas&) = default;
};

// All rows but that of the contents.
struct StoredState {
  std::vector<StoredDatabase> databases;
  std::map<uint64_t, StoredManifest> manifests;  // By their databases' incarnations.
  std::vector<StoredSession> sessions;
  StoredQuotas quotas;

  // Corruption that names the row which is damaged, or the two that contradict each other. Rows of
  // kContents are passed over.
  static Status Decode(const StoredRows& rows, uint64_t capacity_bytes, StoredState* state);
};

}  // namespace dlsm
