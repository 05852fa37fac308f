// What one command has written, so that its `verify` can tell whether the database holds exactly
// that. Keeps 64-bit hashes instead of keys and values: some 50 bytes for each key, and one false
// alarm in about 10^19 / keys^2 commands.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm::tool {

// One thread at a time.
class Ledger {
 public:
  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  void Clear() { expected_.clear(); }

  // Compares with the entries of a database: Begin(), See() for each of them, Finish(). Each key
  // may be seen once only. Entries that the ledger knows nothing of were there before: not an
  // error.
  void Begin() { seen_ = 0; }
  // Corruption if this command deleted the key, or gave it another value.
  Status See(const Slice& key, const Slice& value);
  // Corruption if a key was not seen.
  Status Finish() const;

  // Keys that are expected to be there.
  uint64_t keys() const;

 private:
  // By the hash of the key, the hash of its value; none where it was deleted.
  std::unordered_map<uint64_t, std::optional<uint64_t>> expected_;
  uint64_t seen_ = 0;
};

}  // namespace dlsm::tool
