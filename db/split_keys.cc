#include "db/split_keys.h"

#include <algorithm>
#include <cstdint>

namespace dlsm {
namespace {

// A key as a number: so many bytes behind what all keys have in common.
constexpr size_t kDigestBytes = 8;
// Of its bits, those that are sought; the rest would tell apart a few records.
constexpr int kStepsMax = 40;

Slice CommonPrefix(const Slice& a, const Slice& b) {
  size_t common = 0;
  while (common < std::min(a.size(), b.size()) && a[common] == b[common]) ++common;
  return Slice(a.data(), common);
}

uint64_t DigestOf(const Slice& key, size_t prefix_bytes) {
  uint64_t digest = 0;
  for (size_t i = 0; i < kDigestBytes; ++i) {
    const size_t at = prefix_bytes + i;
    digest = digest << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0);
  }
  return digest;
}

std::string KeyOf(const Slice& prefix, uint64_t digest) {
  std::string key = prefix.ToString();
  for (int shift = 56; shift >= 0 && digest != 0; shift -= 8) {
    key.push_back(static_cast<char>(digest >> shift));
    digest &= (uint64_t{1} << shift) - 1;
  }
  return key;
}

uint64_t BytesBefore(const std::vector<TableRef>& tables, const std::string& user_key) {
  const LookupKey key(user_key, kSequenceNumberMax);
  uint64_t bytes = 0;
  for (const TableRef& table : tables) {
    bytes += table->reader().ApproximateOffsetOf(key.internal_key());
  }
  return bytes;
}

std::vector<std::string> FirstKeys(const InternalKeyComparator& comparator,
                                   const std::vector<TableRef>& tables) {
  std::vector<std::string> keys;
  keys.reserve(tables.size());
  for (const TableRef& table : tables) keys.push_back(ExtractUserKey(table->smallest()).ToString());
  const auto before = [&comparator](const std::string& x, const std::string& y) {
    return comparator.CompareUserKeys(x, y) < 0;
  };
  const auto same = [&before](const std::string& x, const std::string& y) { return !before(x, y); };
  std::sort(keys.begin(), keys.end(), before);
  keys.erase(std::unique(keys.begin(), keys.end(), same), keys.end());
  return keys;
}

std::vector<std::string> EvenlyOf(const std::vector<std::string>& keys, size_t parts) {
  std::vector<std::string> chosen;
  parts = std::min(parts, keys.size());
  for (size_t i = 1; i < parts; ++i) chosen.push_back(keys[i * keys.size() / parts]);
  return chosen;
}

}  // namespace

std::vector<std::string> SplitKeys(const InternalKeyComparator& comparator,
                                   const std::vector<TableRef>& tables, size_t parts) {
  if (tables.empty() || parts < 2) return {};
  if (!comparator.bytewise()) return EvenlyOf(FirstKeys(comparator, tables), parts);
  Slice first = ExtractUserKey(tables.front()->smallest());
  Slice last = ExtractUserKey(tables.front()->largest());
  for (const TableRef& table : tables) {
    const Slice smallest = ExtractUserKey(table->smallest());
    const Slice largest = ExtractUserKey(table->largest());
    if (smallest.compare(first) < 0) first = smallest;
    if (largest.compare(last) > 0) last = largest;
  }
  const Slice prefix = CommonPrefix(first, last);
  const uint64_t first_digest = DigestOf(first, prefix.size());
  const uint64_t last_digest = DigestOf(last, prefix.size());
  const uint64_t total = BytesBefore(tables, last.ToString());
  std::vector<std::string> keys;
  for (size_t i = 1; i < parts; ++i) {
    // The bytes before `low` are too few, those before `high` are not.
    uint64_t low = first_digest;
    uint64_t high = last_digest;
    for (int step = 0; step < kStepsMax && high - low > 1; ++step) {
      const uint64_t middle = low + (high - low) / 2;
      const bool enough = BytesBefore(tables, KeyOf(prefix, middle)) >= total / parts * i;
      (enough ? high : low) = middle;
    }
    std::string key = KeyOf(prefix, high);
    if (Slice(key).compare(first) <= 0 || (!keys.empty() && key <= keys.back())) continue;
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace dlsm
