// Commands of sets.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "db/serve/collection.h"
#include "db/serve/command.h"
#include "db/serve/element_scan.h"
#include "db/serve/keys.h"
#include "db/serve/random_elements.h"

namespace dlsm::serve {
namespace {

constexpr const char* kOutOfRange = "ERR value is out of range, must be positive";

bool OpenSet(const Call& call, std::optional<Collection>* set) {
  return Collection::Open(call, call[1], Type::kSet, set);
}

void SAdd(Call& call) {
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  int64_t added = 0;
  for (size_t i = 2; i < call.count(); ++i) {
    if (set->Get(call[i]).has_value()) continue;
    if (!set->Put(call[i], Slice())) return;
    ++added;
  }
  set->AddToCount(added);
  if (added > 0) set->Save();
  call.reply.Integer(added);
}

void SRem(Call& call) {
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  int64_t deleted = 0;
  for (size_t i = 2; i < call.count(); ++i) {
    if (!set->Get(call[i]).has_value()) continue;
    set->Delete(call[i]);
    ++deleted;
  }
  set->AddToCount(-deleted);
  if (deleted > 0) set->Save();
  call.reply.Integer(deleted);
}

void SIsMember(Call& call) {
  std::optional<Collection> set;
  if (OpenSet(call, &set)) call.reply.Integer(set->Get(call[2]).has_value() ? 1 : 0);
}

void SMIsMember(Call& call) {
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  call.reply.Array(call.count() - 2);
  for (size_t i = 2; i < call.count(); ++i) {
    call.reply.Integer(set->Get(call[i]).has_value() ? 1 : 0);
  }
}

void SMembers(Call& call) {
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  call.reply.Set(static_cast<size_t>(set->count()));
  set->Scan(Slice(), Slice(), /*reverse=*/false, [&call](const Slice& member, const Slice&) {
    call.reply.Bulk(member);
    return true;
  });
}

void SCard(Call& call) {
  std::optional<Collection> set;
  if (OpenSet(call, &set)) call.reply.Integer(set->count());
}

void SPop(Call& call) {
  if (call.count() > 3) return call.reply.Error(kSyntaxError);
  int64_t count = 1;
  const bool has_count = call.count() == 3;
  if (has_count && (!ParseInteger(call[2], &count) || count < 0)) {
    return call.reply.Error(kOutOfRange);
  }
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  const std::vector<std::string> chosen = ChooseDistinct(*set, count);
  for (const std::string& member : chosen) set->Delete(member);
  set->AddToCount(-static_cast<int64_t>(chosen.size()));
  if (!chosen.empty()) set->Save();
  if (!has_count) {
    return chosen.empty() ? call.reply.Null() : call.reply.Bulk(chosen.front());
  }
  call.reply.Set(chosen.size());
  for (const std::string& member : chosen) call.reply.Bulk(member);
}

void SRandMember(Call& call) {
  if (call.count() > 3) return call.reply.Error(kSyntaxError);
  int64_t count = 1;
  const bool has_count = call.count() == 3;
  if (has_count && !ParseInteger(call[2], &count)) return call.reply.Error(kNotAnInteger);
  if (count < -std::numeric_limits<int64_t>::max() / 2) {
    return call.reply.Error("ERR value is out of range");
  }
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  const std::vector<std::string> chosen =
      count >= 0 ? ChooseDistinct(*set, count) : ChooseAny(*set, -count);
  if (!has_count) {
    return chosen.empty() ? call.reply.Null() : call.reply.Bulk(chosen.front());
  }
  call.reply.Array(chosen.size());
  for (const std::string& member : chosen) call.reply.Bulk(member);
}

void SScan(Call& call) {
  ElementScan scan;
  if (!ParseElementScan(call, &scan)) return;
  std::optional<Collection> set;
  if (!OpenSet(call, &set)) return;
  AnswerElementScan(call, scan, *set, /*prefix=*/Slice(), [](const Slice& member, const Slice&) {
    return std::vector<std::string>{member.ToString()};
  });
}

}  // namespace

const std::vector<Command> kSetCommands = {
    {"sadd", SAdd, -3, kWrites | kFast, 1, 1, 1, {2, 1}},
    {"srem", SRem, -3, kWrites | kFast, 1, 1, 1, {2, 1}},
    {"sismember", SIsMember, 3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"smismember", SMIsMember, -3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"smembers", SMembers, 2, kReads, 1, 1, 1},
    {"scard", SCard, 2, kReads | kFast, 1, 1, 1},
    {"spop", SPop, -2, kWrites | kFast, 1, 1, 1},
    {"srandmember", SRandMember, -2, kReads, 1, 1, 1},
    {"sscan", SScan, -3, kReads, 1, 1, 1},
};

}  // namespace dlsm::serve
