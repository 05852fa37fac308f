// Commands of sorted sets.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/element_scan.h"
#include "db/serve/keys.h"
#include "db/serve/sorted_set.h"

namespace dlsm::serve {
namespace {

using Range = SortedSetRange;
using Scored = SortedSet::Scored;

constexpr const char* kNotARange = "ERR min or max is not a float";
constexpr const char* kNotALexRange = "ERR min or max not valid string range item";

bool OpenSortedSet(const Call& call, std::optional<SortedSet>* set) {
  return SortedSet::Open(call, call[1], set);
}

// -------- Adding

struct AddOptions {
  bool if_missing = false;
  bool if_there = false;
  bool if_greater = false;
  bool if_less = false;
  bool tells_changed = false;
  bool increments = false;
};

size_t ParseAddOptions(const Call& call, AddOptions* options) {
  size_t next = 2;
  for (; next < call.count(); ++next) {
    if (call.Is(next, "nx")) {
      options->if_missing = true;
    } else if (call.Is(next, "xx")) {
      options->if_there = true;
    } else if (call.Is(next, "gt")) {
      options->if_greater = true;
    } else if (call.Is(next, "lt")) {
      options->if_less = true;
    } else if (call.Is(next, "ch")) {
      options->tells_changed = true;
    } else if (call.Is(next, "incr")) {
      options->increments = true;
    } else {
      break;
    }
  }
  return next;
}

// Returns false if the answer is an error.
bool CheckAddOptions(const Call& call, const AddOptions& options, size_t pairs_at) {
  const size_t left = call.count() - pairs_at;
  if (left == 0 || left % 2 != 0) {
    call.reply.Error(kSyntaxError);
  } else if (options.if_missing && options.if_there) {
    call.reply.Error("ERR XX and NX options at the same time are not compatible");
  } else if ((options.if_greater && options.if_less) ||
             (options.if_missing && (options.if_greater || options.if_less))) {
    call.reply.Error("ERR GT, LT, and/or NX options at the same time are not compatible");
  } else if (options.increments && left > 2) {
    call.reply.Error("ERR INCR option supports a single increment-element pair");
  } else {
    return true;
  }
  return false;
}

void AddAll(Call& call, const AddOptions& options, size_t pairs_at) {
  std::vector<double> scores;
  for (size_t i = pairs_at; i < call.count(); i += 2) {
    if (!ParseDouble(call[i], &scores.emplace_back())) return call.reply.Error(kNotAFloat);
  }
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  int64_t added = 0;
  int64_t changed = 0;
  std::optional<double> result;
  for (size_t i = pairs_at; i < call.count(); i += 2) {
    const Slice& member = call[i + 1];
    double score = scores[(i - pairs_at) / 2];
    const std::optional<double> old = set->ScoreOf(member);
    if (old.has_value() ? options.if_missing : options.if_there) continue;
    score += options.increments && old.has_value() ? *old : 0.0;  // -0 becomes 0, as it is stored.
    if (std::isnan(score)) return call.reply.Error("ERR resulting score is not a number (NaN)");
    if (old.has_value() &&
        ((options.if_greater && score <= *old) || (options.if_less && score >= *old))) {
      continue;
    }
    result = score;
    if (old.has_value() && *old == score) continue;
    if (!set->Set(member, score, old)) return;
    ++(old.has_value() ? changed : added);
  }
  if (added + changed > 0) set->Save();
  if (options.increments) {
    return result.has_value() ? call.reply.Double(*result) : call.reply.Null();
  }
  call.reply.Integer(options.tells_changed ? added + changed : added);
}

void ZAdd(Call& call) {
  AddOptions options;
  const size_t pairs_at = ParseAddOptions(call, &options);
  if (CheckAddOptions(call, options, pairs_at)) AddAll(call, options, pairs_at);
}
void ZIncrBy(Call& call) {
  AddOptions options;
  options.increments = true;
  AddAll(call, options, 2);
}

void ZRem(Call& call) {
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  int64_t removed = 0;
  for (size_t i = 2; i < call.count(); ++i) {
    const std::optional<double> score = set->ScoreOf(call[i]);
    if (!score.has_value()) continue;
    set->Remove(call[i], *score);
    ++removed;
  }
  if (removed > 0) set->Save();
  call.reply.Integer(removed);
}

// -------- Single members

void DoubleOrNull(Call& call, const std::optional<double>& score) {
  score.has_value() ? call.reply.Double(*score) : call.reply.Null();
}
void ZScore(Call& call) {
  std::optional<SortedSet> set;
  if (OpenSortedSet(call, &set)) DoubleOrNull(call, set->ScoreOf(call[2]));
}
void ZMScore(Call& call) {
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  call.reply.Array(call.count() - 2);
  for (size_t i = 2; i < call.count(); ++i) DoubleOrNull(call, set->ScoreOf(call[i]));
}
void ZCard(Call& call) {
  std::optional<SortedSet> set;
  if (OpenSortedSet(call, &set)) call.reply.Integer(set->count());
}

void Rank(Call& call, bool reverse) {
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  const std::optional<double> score = set->ScoreOf(call[2]);
  if (!score.has_value()) return call.reply.Null();
  const int64_t before = set->CountBefore(call[2], *score);
  call.reply.Integer(reverse ? set->count() - 1 - before : before);
}
void ZRank(Call& call) { Rank(call, /*reverse=*/false); }
void ZRevRank(Call& call) { Rank(call, /*reverse=*/true); }

// -------- Ranges

bool ParseScoreBound(Slice text, double* bound, bool* excluded) {
  if (text.starts_with("(")) {
    *excluded = true;
    text.remove_prefix(1);
  }
  return ParseDouble(text, bound);
}

// "-" is before all members, "+" behind all; "[a" has a, "(a" has not.
bool ParseLexBound(const Slice& text, std::optional<Slice>* bound, bool* excluded, bool* before_all,
                   bool* behind_all) {
  *before_all = text == Slice("-");
  *behind_all = text == Slice("+");
  if (*before_all || *behind_all) return true;
  if (!text.starts_with("(") && !text.starts_with("[")) return false;
  *excluded = text.starts_with("(");
  *bound = Slice(text.data() + 1, text.size() - 1);
  return true;
}

// Returns false if the answer is an error.
bool ParseBounds(const Call& call, const Slice& low, const Slice& high, Range* range) {
  switch (range->by) {
    case Range::By::kRank:
      if (ParseInteger(low, &range->start) && ParseInteger(high, &range->stop)) return true;
      call.reply.Error(kNotAnInteger);
      return false;
    case Range::By::kScore:
      if (ParseScoreBound(low, &range->min, &range->min_excluded) &&
          ParseScoreBound(high, &range->max, &range->max_excluded)) {
        return true;
      }
      call.reply.Error(kNotARange);
      return false;
    case Range::By::kLex: {
      bool low_before = false;
      bool low_behind = false;
      bool high_before = false;
      bool high_behind = false;
      if (ParseLexBound(low, &range->first, &range->min_excluded, &low_before, &low_behind) &&
          ParseLexBound(high, &range->last, &range->max_excluded, &high_before, &high_behind)) {
        range->is_empty = low_behind || high_before;
        return true;
      }
      call.reply.Error(kNotALexRange);
      return false;
    }
  }
  return false;
}

void AnswerMembers(Call& call, const std::vector<Scored>& members, bool scores) {
  const bool pairs = scores && call.reply.protocol() == 3;
  call.reply.Array(members.size() * (scores && !pairs ? 2 : 1));
  for (const Scored& each : members) {
    if (pairs) call.reply.Array(2);
    call.reply.Bulk(each.member);
    if (scores) call.reply.Double(each.score);
  }
}

struct RangeOptions {
  Range::By by = Range::By::kRank;
  bool reverse = false;
  bool scores = false;
  bool has_limit = false;
  int64_t offset = 0;
  int64_t limit = -1;
};

// Returns false if the answer is an error.
bool ParseRangeOptions(const Call& call, bool takes_by, RangeOptions* options) {
  for (size_t i = 4; i < call.count(); ++i) {
    if (takes_by && call.Is(i, "byscore")) {
      options->by = Range::By::kScore;
    } else if (takes_by && call.Is(i, "bylex")) {
      options->by = Range::By::kLex;
    } else if (takes_by && call.Is(i, "rev")) {
      options->reverse = true;
    } else if (call.Is(i, "withscores")) {
      options->scores = true;
    } else if (call.Is(i, "limit") && i + 2 < call.count()) {
      options->has_limit = true;
      if (!ParseInteger(call[i + 1], &options->offset) ||
          !ParseInteger(call[i + 2], &options->limit)) {
        call.reply.Error(kNotAnInteger);
        return false;
      }
      i += 2;
    } else {
      call.reply.Error(kSyntaxError);
      return false;
    }
  }
  if (options->has_limit && options->by == Range::By::kRank) {
    call.reply.Error(
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
    return false;
  }
  if (options->scores && options->by == Range::By::kLex) {
    call.reply.Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    return false;
  }
  return true;
}

void AnswerRange(Call& call, const RangeOptions& options) {
  Range range;
  range.by = options.by;
  // From the last one, the higher bound is given first.
  const bool swapped = options.reverse && options.by != Range::By::kRank;
  if (!ParseBounds(call, call[swapped ? 3 : 2], call[swapped ? 2 : 3], &range)) return;
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  AnswerMembers(call, MembersOf(*set, range, options.reverse, options.offset, options.limit),
                options.scores);
}

void ZRange(Call& call) {
  RangeOptions options;
  if (ParseRangeOptions(call, /*takes_by=*/true, &options)) AnswerRange(call, options);
}
void RangeBy(Call& call, Range::By by, bool reverse) {
  RangeOptions options;
  options.by = by;
  if (!ParseRangeOptions(call, /*takes_by=*/false, &options)) return;
  options.reverse = reverse;
  AnswerRange(call, options);
}
void ZRangeByScore(Call& call) { RangeBy(call, Range::By::kScore, /*reverse=*/false); }
void ZRevRangeByScore(Call& call) { RangeBy(call, Range::By::kScore, /*reverse=*/true); }
void ZRangeByLex(Call& call) { RangeBy(call, Range::By::kLex, /*reverse=*/false); }
void ZRevRangeByLex(Call& call) { RangeBy(call, Range::By::kLex, /*reverse=*/true); }
void ZRevRange(Call& call) { RangeBy(call, Range::By::kRank, /*reverse=*/true); }

void CountIn(Call& call, Range::By by) {
  Range range;
  range.by = by;
  if (!ParseBounds(call, call[2], call[3], &range)) return;
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  call.reply.Integer(static_cast<int64_t>(MembersOf(*set, range, false, 0, -1).size()));
}
void ZCount(Call& call) { CountIn(call, Range::By::kScore); }
void ZLexCount(Call& call) { CountIn(call, Range::By::kLex); }

void RemoveRange(Call& call, Range::By by) {
  Range range;
  range.by = by;
  if (!ParseBounds(call, call[2], call[3], &range)) return;
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  const std::vector<Scored> members = MembersOf(*set, range, false, 0, -1);
  for (const Scored& each : members) set->Remove(each.member, each.score);
  if (!members.empty()) set->Save();
  call.reply.Integer(static_cast<int64_t>(members.size()));
}
void ZRemRangeByRank(Call& call) { RemoveRange(call, Range::By::kRank); }
void ZRemRangeByScore(Call& call) { RemoveRange(call, Range::By::kScore); }
void ZRemRangeByLex(Call& call) { RemoveRange(call, Range::By::kLex); }

void PopAt(Call& call, bool last) {
  if (call.count() > 3) return call.reply.Error(kSyntaxError);
  int64_t count = 1;
  if (call.count() == 3 && (!ParseInteger(call[2], &count) || count < 0)) {
    return call.reply.Error("ERR value is out of range, must be positive");
  }
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  Range range;
  range.stop = count - 1;
  std::vector<Scored> members;
  if (count > 0) members = MembersOf(*set, range, last, 0, -1);
  for (const Scored& each : members) set->Remove(each.member, each.score);
  if (!members.empty()) set->Save();
  const bool pairs = call.count() == 3 && call.reply.protocol() == 3;
  call.reply.Array(members.size() * (pairs ? 1 : 2));
  for (const Scored& each : members) {
    if (pairs) call.reply.Array(2);
    call.reply.Bulk(each.member);
    call.reply.Double(each.score);
  }
}
void ZPopMin(Call& call) { PopAt(call, /*last=*/false); }
void ZPopMax(Call& call) { PopAt(call, /*last=*/true); }

void ZScan(Call& call) {
  ElementScan scan;
  if (!ParseElementScan(call, &scan)) return;
  std::optional<SortedSet> set;
  if (!OpenSortedSet(call, &set)) return;
  AnswerElementScan(
      call, scan, set->elements(), /*prefix=*/"m", [](const Slice& member, const Slice& score) {
        return std::vector<std::string>{member.ToString(), DoubleText(OrderedDouble(score.data()))};
      });
}

}  // namespace

const std::vector<Command> kSortedSetCommands = {
    {"zadd", ZAdd, -4, kWrites | kFast, 1, 1, 1, {3, 2, "m"}},
    {"zincrby", ZIncrBy, 4, kWrites | kFast, 1, 1, 1, {3, 0, "m"}},
    {"zrem", ZRem, -3, kWrites | kFast, 1, 1, 1, {2, 1, "m"}},
    {"zscore", ZScore, 3, kReads | kFast, 1, 1, 1, {2, 1, "m"}},
    {"zmscore", ZMScore, -3, kReads | kFast, 1, 1, 1, {2, 1, "m"}},
    {"zcard", ZCard, 2, kReads | kFast, 1, 1, 1},
    {"zrank", ZRank, 3, kReads | kFast, 1, 1, 1, {2, 0, "m"}},
    {"zrevrank", ZRevRank, 3, kReads | kFast, 1, 1, 1, {2, 0, "m"}},
    {"zrange", ZRange, -4, kReads, 1, 1, 1},
    {"zrevrange", ZRevRange, -4, kReads, 1, 1, 1},
    {"zrangebyscore", ZRangeByScore, -4, kReads, 1, 1, 1},
    {"zrevrangebyscore", ZRevRangeByScore, -4, kReads, 1, 1, 1},
    {"zrangebylex", ZRangeByLex, -4, kReads, 1, 1, 1},
    {"zrevrangebylex", ZRevRangeByLex, -4, kReads, 1, 1, 1},
    {"zcount", ZCount, 4, kReads | kFast, 1, 1, 1},
    {"zlexcount", ZLexCount, 4, kReads | kFast, 1, 1, 1},
    {"zremrangebyrank", ZRemRangeByRank, 4, kWrites, 1, 1, 1},
    {"zremrangebyscore", ZRemRangeByScore, 4, kWrites, 1, 1, 1},
    {"zremrangebylex", ZRemRangeByLex, 4, kWrites, 1, 1, 1},
    {"zpopmin", ZPopMin, -2, kWrites | kFast, 1, 1, 1},
    {"zpopmax", ZPopMax, -2, kWrites | kFast, 1, 1, 1},
    {"zscan", ZScan, -3, kReads, 1, 1, 1},
};

}  // namespace dlsm::serve
