#include "table/table_bounds.h"

#include <algorithm>
#include <utility>

#include "table/short_keys.h"

namespace dlsm {
namespace {

// The first and the last of all versions of a user key.
std::string FirstVersionOf(const Slice& user_key) {
  std::string key;
  AppendInternalKey(&key, user_key, kSequenceNumberMax, kValueTypeForSeek);
  return key;
}
std::string LastVersionOf(const Slice& user_key) {
  std::string key;
  AppendInternalKey(&key, user_key, /*sequence=*/0, ValueType::kDeletion);
  return key;
}

}  // namespace

TableBounds::TableBounds(const MergeOptions& options, const std::vector<TableRun>& inputs)
    : comparator_(options.table.comparator), options_(&options) {
  bool first = true;
  for (const TableRun& run : inputs) {
    for (const TableReader* table : run) {
      const TableMeta& meta = table->meta();
      if (first || comparator_.Compare(meta.smallest, inputs_smallest_) < 0) {
        inputs_smallest_ = meta.smallest;
      }
      if (first || comparator_.Compare(meta.largest, inputs_largest_) > 0) {
        inputs_largest_ = meta.largest;
      }
      first = false;
    }
  }
}

void TableBounds::Set(const EdgeKeys& edges, const Slice* next, TableMeta* meta) {
  if (!OrdersByBytes(comparator_)) return;
  meta->smallest = Smallest(meta->smallest, edges.first_told + kShortKeyBytes);
  meta->largest = Largest(meta->largest, edges.last_told + kShortKeyBytes, next);
  last_bound_ = meta->largest;
}

// The first of `cuts`, which ascend, behind a user key.
std::vector<std::string>::const_iterator TableBounds::CutBehind(
    const std::vector<std::string>& cuts, const Slice& user_key) const {
  return std::upper_bound(cuts.begin(), cuts.end(), user_key,
                          [this](const Slice& key, const std::string& cut) {
                            return comparator_.CompareUserKeys(key, cut) < 0;
                          });
}

// What the bound of a table that ends with `user_key` must stay before: the first of `next`, the
// merge's end and the next cuts. `next` is a user key or null.
std::optional<Slice> TableBounds::LimitBehind(const Slice& user_key, const Slice* next) const {
  std::optional<Slice> limit;
  const auto note = [&](const Slice& key) {
    if (!limit.has_value() || comparator_.CompareUserKeys(key, *limit) < 0) limit = key;
  };
  if (next != nullptr) note(*next);
  if (options_ == nullptr) return limit;
  if (options_->has_end) note(options_->end);
  for (const auto* const cuts : {&options_->cut_points, &options_->cut_candidates}) {
    const auto cut = CutBehind(*cuts, user_key);
    if (cut != cuts->end()) note(*cut);
  }
  return limit;
}

// At or before the internal key `first`, and behind the table before, unless the user key is in
// both.
std::string TableBounds::Smallest(const Slice& first, size_t bytes) const {
  const Slice key = ExtractUserKey(first);
  if (key.size() <= bytes) return first.ToString();
  const Slice before = last_bound_.empty() ? Slice() : ExtractUserKey(last_bound_);
  const std::string shorter =
      ShortKeyBefore(comparator_, key, bytes, last_bound_.empty() ? nullptr : &before);
  if (shorter.size() >= key.size()) return first.ToString();
  std::string bound = FirstVersionOf(shorter);
  if (options_ == nullptr) return bound;
  // Inputs may be other than their metas say: then the key itself counts.
  const auto not_before = [&](std::string limit) {
    if (comparator_.Compare(bound, limit) < 0 && comparator_.Compare(limit, first) <= 0) {
      bound = std::move(limit);
    }
  };
  not_before(inputs_smallest_.ToString());
  if (options_->has_begin) not_before(FirstVersionOf(options_->begin));
  for (const auto* const cuts : {&options_->cut_points, &options_->cut_candidates}) {
    const auto cut = CutBehind(*cuts, key);
    if (cut != cuts->begin()) not_before(FirstVersionOf(*(cut - 1)));
  }
  return bound.size() < first.size() ? bound : first.ToString();
}

// At or behind the internal key `last`, and before the internal key `next`, unless the user key is
// that of both.
std::string TableBounds::Largest(const Slice& last, size_t bytes, const Slice* next) const {
  const Slice key = ExtractUserKey(last);
  if (key.size() <= bytes) return last.ToString();
  const Slice next_key = next == nullptr ? Slice() : ExtractUserKey(*next);
  const std::optional<Slice> limit = LimitBehind(key, next == nullptr ? nullptr : &next_key);
  const std::string shorter =
      ShortKeyBehind(comparator_, key, bytes, limit.has_value() ? &*limit : nullptr);
  if (shorter.size() >= key.size()) return last.ToString();
  std::string bound = LastVersionOf(shorter);
  if (options_ != nullptr && comparator_.Compare(inputs_largest_, bound) < 0 &&
      comparator_.Compare(last, inputs_largest_) <= 0) {
    bound = inputs_largest_.ToString();
  }
  return bound.size() < last.size() ? bound : last.ToString();
}

}  // namespace dlsm
