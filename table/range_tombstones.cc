#include "table/range_tombstones.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace dlsm {
namespace {

// Where a tombstone begins or ends.
struct Edge {
  const std::string* key;
  SequenceNumber sequence;
  bool begins;
};

size_t StripeOf(SequenceNumber sequence, std::span<const SequenceNumber> snapshots) {
  return static_cast<size_t>(std::lower_bound(snapshots.begin(), snapshots.end(), sequence) -
                             snapshots.begin());
}

// The newest number of each stripe, newest first.
std::vector<SequenceNumber> NewestOfStripes(
    const std::multiset<SequenceNumber, std::greater<>>& open,
    std::span<const SequenceNumber> snapshots) {
  std::vector<SequenceNumber> newest;
  for (auto at = open.begin(); at != open.end();) {
    newest.push_back(*at);
    const size_t stripe = StripeOf(*at, snapshots);
    if (stripe == 0) break;
    // On to the newest number that the snapshot below this stripe sees.
    at = open.lower_bound(snapshots[stripe - 1]);
  }
  return newest;
}

void AppendFragment(const InternalKeyComparator& comparator, RangeFragment fragment,
                    std::vector<RangeFragment>* fragments) {
  if (!fragments->empty() && fragments->back().sequences == fragment.sequences &&
      comparator.CompareUserKeys(fragments->back().end, fragment.begin) == 0) {
    fragments->back().end = std::move(fragment.end);
    return;
  }
  fragments->push_back(std::move(fragment));
}

}  // namespace

RangeTombstones::RangeTombstones(const InternalKeyComparator& comparator,
                                 std::vector<RangeFragment> fragments)
    : comparator_(comparator), fragments_(std::move(fragments)) {
  for (const RangeFragment& fragment : fragments_) {
    newest_ = std::max(newest_, fragment.sequences.front());
    bytes_ += fragment.begin.size() + fragment.end.size() +
              fragment.sequences.size() * sizeof(SequenceNumber);
  }
}

// Goes through the bounds in their order. `open` holds the numbers of the tombstones that cover the
// keys from one bound to the next.
std::vector<RangeFragment> RangeTombstones::Fragments(const InternalKeyComparator& comparator,
                                                      const RangeTombstones* older,
                                                      std::vector<RangeTombstone> tombstones,
                                                      std::span<const SequenceNumber> snapshots) {
  std::vector<Edge> edges;
  const auto add = [&](const std::string& begin, const std::string& end, SequenceNumber sequence) {
    if (comparator.CompareUserKeys(begin, end) >= 0) return;
    edges.push_back({&begin, sequence, true});
    edges.push_back({&end, sequence, false});
  };
  if (older != nullptr) {
    for (const RangeFragment& fragment : older->fragments()) {
      for (const SequenceNumber sequence : fragment.sequences) {
        add(fragment.begin, fragment.end, sequence);
      }
    }
  }
  for (const RangeTombstone& each : tombstones) add(each.begin, each.end, each.sequence);
  std::sort(edges.begin(), edges.end(), [&comparator](const Edge& a, const Edge& b) {
    return comparator.CompareUserKeys(*a.key, *b.key) < 0;
  });
  std::vector<RangeFragment> fragments;
  std::multiset<SequenceNumber, std::greater<>> open;
  for (size_t i = 0; i < edges.size();) {
    const std::string& key = *edges[i].key;
    for (; i < edges.size() && comparator.CompareUserKeys(*edges[i].key, key) == 0; ++i) {
      if (edges[i].begins) {
        open.insert(edges[i].sequence);
      } else {
        open.erase(open.find(edges[i].sequence));
      }
    }
    if (open.empty()) continue;
    AppendFragment(comparator, {key, *edges[i].key, NewestOfStripes(open, snapshots)}, &fragments);
  }
  return fragments;
}

Status RangeTombstones::CheckFragments(const Comparator& comparator,
                                       const std::vector<RangeFragment>& fragments) {
  for (size_t i = 0; i < fragments.size(); ++i) {
    const RangeFragment& fragment = fragments[i];
    const std::vector<SequenceNumber>& numbers = fragment.sequences;
    const bool follows = i == 0 || comparator.Compare(fragments[i - 1].end, fragment.begin) <= 0;
    const bool descends =
        std::adjacent_find(numbers.begin(), numbers.end(), std::less_equal<>()) == numbers.end();
    if (!follows || comparator.Compare(fragment.begin, fragment.end) >= 0 || numbers.empty() ||
        !descends || numbers.front() > kSequenceNumberMax || numbers.back() == 0) {
      return Status::Corruption("malformed range tombstones");
    }
  }
  return Status::OK();
}

size_t RangeTombstones::FirstBehind(const Slice& user_key) const {
  const auto first = std::partition_point(
      fragments_.begin(), fragments_.end(), [&](const RangeFragment& fragment) {
        return comparator_.CompareUserKeys(fragment.end, user_key) <= 0;
      });
  return static_cast<size_t>(first - fragments_.begin());
}

SequenceNumber RangeTombstones::NewestAt(const Slice& user_key, SequenceNumber most) const {
  const size_t at = FirstBehind(user_key);
  if (at == fragments_.size() || comparator_.CompareUserKeys(fragments_[at].begin, user_key) > 0) {
    return 0;
  }
  return NewestOf(fragments_[at].sequences, most);
}

SequenceNumber RangeTombstones::NewestFor(const TableMeta& table) const {
  const Slice largest = ExtractUserKey(table.largest);
  SequenceNumber newest = 0;
  for (size_t i = FirstBehind(ExtractUserKey(table.smallest)); i < fragments_.size(); ++i) {
    if (comparator_.CompareUserKeys(fragments_[i].begin, largest) > 0) break;
    newest = std::max(newest, fragments_[i].sequences.front());
  }
  return newest > table.sequence_min && newest > table.tombstones_applied ? newest : 0;
}

bool RangeTombstones::HideAll(const TableMeta& table,
                              std::span<const SequenceNumber> snapshots) const {
  // A snapshot in [sequence_min, number) may see a version that a reader at the number does not.
  const auto sees_some = std::lower_bound(snapshots.begin(), snapshots.end(), table.sequence_min);
  const SequenceNumber most = sees_some == snapshots.end() ? kSequenceNumberMax : *sees_some;
  Slice from = ExtractUserKey(table.smallest);
  const Slice largest = ExtractUserKey(table.largest);
  for (size_t i = FirstBehind(from); i < fragments_.size(); ++i) {
    const RangeFragment& fragment = fragments_[i];
    if (comparator_.CompareUserKeys(fragment.begin, from) > 0) return false;
    if (NewestOf(fragment.sequences, most) <= table.sequence_max) return false;
    if (comparator_.CompareUserKeys(largest, fragment.end) < 0) return true;
    from = fragment.end;
  }
  return false;
}

std::vector<RangeFragment> RangeTombstones::Overlapping(const Slice* smallest,
                                                        const Slice* largest) const {
  std::vector<RangeFragment> overlapping;
  for (size_t i = smallest == nullptr ? 0 : FirstBehind(*smallest); i < fragments_.size(); ++i) {
    if (largest != nullptr && comparator_.CompareUserKeys(fragments_[i].begin, *largest) > 0) break;
    overlapping.push_back(fragments_[i]);
  }
  return overlapping;
}

std::span<const SequenceNumber> RangeTombstoneCursor::At(const Slice& user_key) {
  const std::vector<RangeFragment>& all = tombstones_.fragments();
  const auto ends_behind = [&](size_t i) {
    return i == all.size() || comparator_.CompareUserKeys(user_key, all[i].end) < 0;
  };
  // Mostly it is still the same one, or the next.
  const bool not_before = at_ == 0 || comparator_.CompareUserKeys(all[at_ - 1].end, user_key) <= 0;
  if (not_before && at_ < all.size() && !ends_behind(at_)) ++at_;
  if (!not_before || !ends_behind(at_)) at_ = tombstones_.FirstBehind(user_key);
  if (at_ == all.size() || comparator_.CompareUserKeys(user_key, all[at_].begin) < 0) return {};
  return all[at_].sequences;
}

SequenceNumber NewestOf(std::span<const SequenceNumber> sequences, SequenceNumber most) {
  for (const SequenceNumber sequence : sequences) {
    if (sequence <= most) return sequence;
  }
  return 0;
}

SequenceNumber AppliedUpTo(SequenceNumber newest, std::span<const SequenceNumber> snapshots) {
  return snapshots.empty() ? newest : std::min(newest, snapshots.front());
}

}  // namespace dlsm
