// The filter of a table, over the distinct user keys of its records:
//
//   | filter | hash of the policy's name: fixed32 | CRC32C of all before: fixed32 |
//
// A table without a filter has none of these bytes. A filter made by another policy than the one
// in use now is not consulted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/filter_policy.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/bloom_filter.h"

namespace dlsm {

// For the built-in policy only hashes are kept; for others a copy of every key.
class TableFilterBuilder {
 public:
  // `policy` may be null: no filter.
  explicit TableFilterBuilder(const FilterPolicy* policy);

  // `hash`: Hash64() of the key.
  void AddKey(const Slice& user_key, uint64_t hash) {
    if (built_in_ != nullptr) [[likely]] {
      hashes_.push_back(hash);
    } else if (policy_ != nullptr) {
      CopyKey(user_key);
    }
  }

  // No less than the bytes of the filter if it were finished now. A user-defined policy has no such
  // bound, so it gets a budget; Finish() leaves out a filter that exceeds it.
  uint64_t BytesBound() const { return policy_ == nullptr ? 0 : BoundFor(keys()); }
  // No less than what one more key can add to it.
  uint64_t KeyBytesBound() const { return key_bytes_bound_; }

  void Finish(std::string* to) const;

 private:
  uint64_t keys() const { return hashes_.size() + key_ends_.size(); }
  uint64_t BoundFor(uint64_t keys) const;
  void CopyKey(const Slice& user_key);
  void CreateByPolicy(std::string* to) const;

  const FilterPolicy* const policy_;
  const BloomFilterPolicy* const built_in_;  // `policy_`, if it is the built-in one.
  const uint64_t key_bytes_bound_;
  std::vector<uint64_t> hashes_;
  std::string key_bytes_;
  std::vector<size_t> key_ends_;
};

// Immutable after Open(); the bytes are the caller's.
class TableFilter {
 public:
  // Corruption if the checksum is wrong.
  Status Open(const FilterPolicy* policy, const Slice& bytes);

  // `hash`: Hash64() of the key.
  bool MayMatch(const Slice& user_key, uint64_t hash) const {
    if (built_in_) [[likely]]
      return BloomMayMatch(hash, filter_);
    return policy_ == nullptr || policy_->KeyMayMatch(user_key, filter_);
  }

  // The filter's bytes if it is the built-in one, else none.
  Slice bloom() const { return built_in_ ? filter_ : Slice(); }

 private:
  const FilterPolicy* policy_ = nullptr;
  bool built_in_ = false;
  Slice filter_;
};

}  // namespace dlsm
