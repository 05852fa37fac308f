// A sorted set in the database. A member has two elements: one by which its score is found, and one
// in the order of scores.
//
//   'm' member                  its score
//   's' score 8 member          empty
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/collection.h"
#include "db/serve/command.h"

namespace dlsm::serve {

// Of one command.
class SortedSet {
 public:
  struct Scored {
    std::string member;
    double score;
  };

  // Returns false if the key has something else, which has been answered then. There may be none:
  // then it is empty, and Set() makes it.
  static bool Open(const Call& call, const Slice& key, std::optional<SortedSet>* opened);

  int64_t count() const { return elements_.count(); }
  // Places of members begin with "m".
  const Collection& elements() const { return elements_; }

  std::optional<double> ScoreOf(const Slice& member) const;
  // How many members come before one that has this score.
  int64_t CountBefore(const Slice& member, double score) const;
  // `old`: the member's score so far. Returns false if the answer is an error.
  bool Set(const Slice& member, double score, const std::optional<double>& old);
  void Remove(const Slice& member, double score);
  // To be called when something has been changed.
  void Save() { elements_.Save(); }

  // Calls use(member, score) in the order of scores, from the first or the last, until it returns
  // false.
  using Use = std::function<bool(const Slice& member, double score)>;
  void ScanAll(bool reverse, const Use& use) const;
  // Likewise, for members with scores in [min, max].
  void ScanScores(double min, double max, bool reverse, const Use& use) const;

 private:
  explicit SortedSet(Collection elements) : elements_(std::move(elements)) {}

  // `from` and `to` are places.
  void Scan(const std::string& from, const std::string& to, bool reverse, const Use& use) const;

  Collection elements_;
};

// A range of scores, of members, or of ranks.
struct SortedSetRange {
  enum class By { kRank, kScore, kLex } by = By::kRank;
  // Of scores.
  double min = 0;
  double max = 0;
  bool min_excluded = false;
  bool max_excluded = false;
  // Of members: null is before the first or behind the last.
  std::optional<Slice> first;
  std::optional<Slice> last;
  bool is_empty = false;
  // Of ranks.
  int64_t start = 0;
  int64_t stop = 0;

  bool Has(const Slice& member, double score) const;
};

// Members in a range, in order; `reverse`: from the last. At most `limit` of them (below 0: all)
// behind the first `offset`.
std::vector<SortedSet::Scored> MembersOf(const SortedSet& set, const SortedSetRange& range,
                                         bool reverse, int64_t offset, int64_t limit);

}  // namespace dlsm::serve
