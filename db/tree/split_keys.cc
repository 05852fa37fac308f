#include "db/tree/split_keys.h"

#include <algorithm>
#include <cstdint>

#include "table/key_prefix.h"

namespace dlsm {
namespace {

// Of the bits of a key's digest, those that are sought; the rest would tell apart a few records.
constexpr int kStepsMax = 40;

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
  // A key as a number: its digest behind what all keys have in common.
  const Slice prefix(first.data(), CommonPrefix(first, last));
  const uint64_t first_digest = Digest(After(first, prefix.size()));
  const uint64_t last_digest = Digest(After(last, prefix.size()));
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
