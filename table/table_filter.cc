#include "table/table_filter.h"

#include <cassert>
#include <limits>

#include "dLSM/options.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/hash.h"

namespace dlsm {
namespace {

constexpr size_t kTrailingBytes = 8;  // Name and checksum.
// What rounding up to whole cache lines and the filter's own parameters can add.
constexpr uint64_t kBloomFixedBytesMax = 256;
constexpr uint64_t kUserKeyBytesBudget = 8;  // 64 bits a key: more than any sensible policy takes.

// kNoFilter is a policy only in name.
const FilterPolicy* RealPolicy(const FilterPolicy* policy) {
  return policy == Options::kNoFilter ? nullptr : policy;
}

uint64_t KeyBytesBoundOf(const FilterPolicy* policy, const BloomFilterPolicy* built_in) {
  if (policy == nullptr) return 0;
  if (built_in == nullptr) return kUserKeyBytesBudget;
  return static_cast<uint64_t>(built_in->bits_per_key()) / 8 + 1;
}

uint32_t NameHash(const FilterPolicy& policy) {
  return static_cast<uint32_t>(Hash64(Slice(policy.Name())));
}

}  // namespace

TableFilterBuilder::TableFilterBuilder(const FilterPolicy* policy)
    : policy_(RealPolicy(policy)),
      built_in_(policy_ == nullptr ? nullptr : AsBuiltIn(policy_)),
      key_bytes_bound_(KeyBytesBoundOf(policy_, built_in_)) {}

uint64_t TableFilterBuilder::BoundFor(uint64_t keys) const {
  return keys * KeyBytesBound() + kBloomFixedBytesMax + kTrailingBytes;
}

void TableFilterBuilder::CopyKey(const Slice& user_key) {
  key_bytes_.append(user_key.data(), user_key.size());
  key_ends_.push_back(key_bytes_.size());
}

void TableFilterBuilder::CreateByPolicy(std::string* to) const {
  if (key_ends_.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return;
  std::vector<Slice> keys;
  keys.reserve(key_ends_.size());
  size_t start = 0;
  for (const size_t end : key_ends_) {
    keys.emplace_back(key_bytes_.data() + start, end - start);
    start = end;
  }
  policy_->CreateFilter(keys.data(), static_cast<int>(keys.size()), to);
}

void TableFilterBuilder::Finish(std::string* to) const {
  if (policy_ == nullptr) return;
  std::string filter;
  if (built_in_ != nullptr) {
    BuildBloomFilter(hashes_.data(), hashes_.size(), built_in_->bits_per_key(), &filter);
  } else {
    CreateByPolicy(&filter);
  }
  if (filter.empty() || filter.size() + kTrailingBytes > BytesBound()) {
    assert(built_in_ == nullptr || hashes_.empty());
    return;
  }
  PutFixed32(&filter, NameHash(*policy_));
  PutFixed32(&filter, Crc32c(filter));
  to->append(filter);
}

Status TableFilter::Open(const FilterPolicy* policy, const Slice& bytes) {
  policy_ = nullptr;
  built_in_ = false;
  if (bytes.empty()) return Status::OK();
  if (bytes.size() < kTrailingBytes) return Status::Corruption("a table's filter is too short");
  const size_t covered = bytes.size() - sizeof(uint32_t);
  if (Crc32c(bytes.data(), covered) != DecodeFixed32(bytes.data() + covered)) {
    return Status::Corruption("a table's filter has a wrong checksum");
  }
  policy = RealPolicy(policy);
  const size_t filter_bytes = bytes.size() - kTrailingBytes;
  if (policy == nullptr || NameHash(*policy) != DecodeFixed32(bytes.data() + filter_bytes)) {
    return Status::OK();
  }
  policy_ = policy;
  built_in_ = AsBuiltIn(policy) != nullptr;
  filter_ = Slice(bytes.data(), filter_bytes);
  return Status::OK();
}

}  // namespace dlsm
