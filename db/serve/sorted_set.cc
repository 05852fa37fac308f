#include "db/serve/sorted_set.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "db/serve/records.h"

namespace dlsm::serve {
namespace {

using Scored = SortedSet::Scored;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Before all scores, and behind them.
constexpr const char* kScoresBegin = "s";
constexpr const char* kScoresEnd = "t";
constexpr size_t kScoreHead = 9;  // What stands before the member in a score's place.

std::string MemberPlace(const Slice& member) {
  std::string place(1, 'm');
  place.append(member.data(), member.size());
  return place;
}
std::string ScorePlace(double score, const Slice& member) {
  std::string place = kScoresBegin;
  PutOrderedDouble(&place, score);
  place.append(member.data(), member.size());
  return place;
}
std::string ScoreBytes(double score) {
  std::string bytes;
  PutOrderedDouble(&bytes, score);
  return bytes;
}

// From the nearer end.
std::vector<Scored> MembersOfRanks(const SortedSet& set, int64_t start, int64_t stop,
                                   bool reverse) {
  std::vector<Scored> members;
  if (start < 0) start = std::max<int64_t>(0, start + set.count());
  if (stop < 0) stop += set.count();
  stop = std::min(stop, set.count() - 1);
  if (start > stop) return members;
  const bool from_other_end = start > set.count() - 1 - stop;
  const int64_t wanted = stop - start + 1;
  int64_t skipped = from_other_end ? set.count() - 1 - stop : start;
  set.ScanAll(reverse != from_other_end, [&](const Slice& member, double score) {
    if (skipped-- > 0) return true;
    members.push_back({member.ToString(), score});
    return static_cast<int64_t>(members.size()) < wanted;
  });
  if (from_other_end) std::ranges::reverse(members);
  return members;
}

}  // namespace

bool SortedSet::Open(const Call& call, const Slice& key, std::optional<SortedSet>* opened) {
  std::optional<Collection> elements;
  if (!Collection::Open(call, key, Type::kSortedSet, &elements)) return false;
  opened->emplace(SortedSet(std::move(*elements)));
  return true;
}

std::optional<double> SortedSet::ScoreOf(const Slice& member) const {
  const std::optional<Slice> score = elements_.Get(MemberPlace(member));
  if (!score.has_value() || score->size() != sizeof(double)) return std::nullopt;
  return OrderedDouble(score->data());
}

int64_t SortedSet::CountBefore(const Slice& member, double score) const {
  int64_t before = 0;
  Scan(kScoresBegin, ScorePlace(score, member), /*reverse=*/false, [&before](const Slice&, double) {
    ++before;
    return true;
  });
  return before;
}

bool SortedSet::Set(const Slice& member, double score, const std::optional<double>& old) {
  if (!elements_.Put(MemberPlace(member), ScoreBytes(score))) return false;
  if (old.has_value()) elements_.Delete(ScorePlace(*old, member));
  if (!elements_.Put(ScorePlace(score, member), Slice())) return false;
  if (!old.has_value()) elements_.AddToCount(1);
  return true;
}

void SortedSet::Remove(const Slice& member, double score) {
  elements_.Delete(MemberPlace(member));
  elements_.Delete(ScorePlace(score, member));
  elements_.AddToCount(-1);
}

void SortedSet::Scan(const std::string& from, const std::string& to, bool reverse,
                     const Use& use) const {
  elements_.Scan(from, to, reverse, [&use](const Slice& place, const Slice&) {
    return use(Slice(place.data() + kScoreHead, place.size() - kScoreHead),
               OrderedDouble(place.data() + 1));
  });
}

void SortedSet::ScanAll(bool reverse, const Use& use) const {
  Scan(kScoresBegin, kScoresEnd, reverse, use);
}

void SortedSet::ScanScores(double min, double max, bool reverse, const Use& use) const {
  const std::string to =
      max < kInfinity ? ScorePlace(std::nextafter(max, kInfinity), Slice()) : kScoresEnd;
  Scan(ScorePlace(min, Slice()), to, reverse, use);
}

bool SortedSetRange::Has(const Slice& member, double score) const {
  if (by == By::kScore) {
    return (min_excluded ? score > min : score >= min) &&
           (max_excluded ? score < max : score <= max);
  }
  if (first.has_value()) {
    const int order = member.compare(*first);
    if (order < 0 || (order == 0 && min_excluded)) return false;
  }
  if (last.has_value()) {
    const int order = member.compare(*last);
    if (order > 0 || (order == 0 && max_excluded)) return false;
  }
  return true;
}

std::vector<Scored> MembersOf(const SortedSet& set, const SortedSetRange& range, bool reverse,
                              int64_t offset, int64_t limit) {
  if (range.by == SortedSetRange::By::kRank) {
    return MembersOfRanks(set, range.start, range.stop, reverse);
  }
  std::vector<Scored> members;
  if (range.is_empty || offset < 0 || limit == 0) return members;
  const auto use = [&](const Slice& member, double score) {
    if (!range.Has(member, score)) return true;
    if (offset-- > 0) return true;
    members.push_back({member.ToString(), score});
    return limit < 0 || static_cast<int64_t>(members.size()) < limit;
  };
  if (range.by == SortedSetRange::By::kScore) {
    set.ScanScores(range.min, range.max, reverse, use);
  } else {
    set.ScanAll(reverse, use);
  }
  return members;
}

}  // namespace dlsm::serve
