// The commands of hashes, sets, sorted sets and lists of the model.
#include <algorithm>
#include <optional>
#include <utility>

#include "db/serve/command_model_testing.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

// Indexes below 0 count from the end. Returns false if nothing is between them.
bool ClampRange(const std::string& from, const std::string& to, int64_t count, int64_t* start,
                int64_t* stop) {
  *start = std::stoll(from);
  *stop = std::stoll(to);
  if (*start < 0) *start = std::max<int64_t>(0, *start + count);
  if (*stop < 0) *stop += count;
  *stop = std::min(*stop, count - 1);
  return *start <= *stop;
}

}  // namespace

// -------- Hashes

void CommandModel::HSet(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kHash, reply);
  if (value == nullptr) return;
  int64_t added = 0;
  for (size_t i = 2; i < words.size(); i += 2) {
    added += value->hash.insert_or_assign(words[i], words[i + 1]).second ? 1 : 0;
  }
  reply->Integer(added);
}

void CommandModel::HGet(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kHash, reply);
  if (value == nullptr) return;
  const auto found = value->hash.find(words[2]);
  found == value->hash.end() ? reply->Null() : reply->Bulk(found->second);
}

void CommandModel::HDel(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kHash, reply);
  if (value == nullptr) return;
  int64_t deleted = 0;
  for (size_t i = 2; i < words.size(); ++i) deleted += value->hash.erase(words[i]) > 0 ? 1 : 0;
  Tidy(words[1]);
  reply->Integer(deleted);
}

void CommandModel::HLen(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kHash, reply);
  if (value != nullptr) reply->Integer(static_cast<int64_t>(value->hash.size()));
}

void CommandModel::HGetAll(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kHash, reply);
  if (value == nullptr) return;
  reply->Map(value->hash.size());
  for (const auto& [field, text] : value->hash) {
    reply->Bulk(field);
    reply->Bulk(text);
  }
}

void CommandModel::HIncrBy(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kHash, reply);
  if (value == nullptr) return;
  const auto found = value->hash.find(words[2]);
  int64_t number = 0;
  if (found != value->hash.end() && !ParseInteger(found->second, &number)) {
    reply->Error("ERR hash value is not an integer");
  } else if (__builtin_add_overflow(number, std::stoll(words[3]), &number)) {
    reply->Error("ERR increment or decrement would overflow");
  } else {
    value->hash[words[2]] = std::to_string(number);
    reply->Integer(number);
  }
  Tidy(words[1]);
}

// -------- Sets

void CommandModel::SAdd(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kSet, reply);
  if (value == nullptr) return;
  int64_t added = 0;
  for (size_t i = 2; i < words.size(); ++i) added += value->members.insert(words[i]).second ? 1 : 0;
  reply->Integer(added);
}

void CommandModel::SRem(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kSet, reply);
  if (value == nullptr) return;
  int64_t removed = 0;
  for (size_t i = 2; i < words.size(); ++i) removed += value->members.erase(words[i]) > 0 ? 1 : 0;
  Tidy(words[1]);
  reply->Integer(removed);
}

void CommandModel::SIsMember(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSet, reply);
  if (value != nullptr) reply->Integer(value->members.contains(words[2]) ? 1 : 0);
}

void CommandModel::SCard(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSet, reply);
  if (value != nullptr) reply->Integer(static_cast<int64_t>(value->members.size()));
}

void CommandModel::SMembers(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSet, reply);
  if (value == nullptr) return;
  reply->Set(value->members.size());
  for (const std::string& member : value->members) reply->Bulk(member);
}

// -------- Sorted sets

std::vector<std::pair<double, std::string>> CommandModel::Ordered(const Value& value) const {
  std::vector<std::pair<double, std::string>> ordered;
  for (const auto& [member, score] : value.scores) ordered.emplace_back(score, member);
  std::ranges::sort(ordered);
  return ordered;
}

// At most one of NX, XX, GT and LT, then possibly CH, then pairs.
void CommandModel::ZAdd(const Words& words, Reply* reply) {
  size_t next = 2;
  std::string condition;
  if (words[next] == "nx" || words[next] == "xx" || words[next] == "gt" || words[next] == "lt") {
    condition = words[next++];
  }
  const bool tells_changed = words[next] == "ch";
  if (tells_changed) ++next;
  Value* const value = Open(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  int64_t added = 0;
  int64_t changed = 0;
  for (; next < words.size(); next += 2) {
    const double score = std::stod(words[next]) + 0.0;  // -0 is 0.
    const auto old = value->scores.find(words[next + 1]);
    if (old == value->scores.end()) {
      if (condition == "xx") continue;
      value->scores[words[next + 1]] = score;
      ++added;
    } else if (condition != "nx" && !(condition == "gt" && score <= old->second) &&
               !(condition == "lt" && score >= old->second) && score != old->second) {
      old->second = score;
      ++changed;
    }
  }
  Tidy(words[1]);
  reply->Integer(tells_changed ? added + changed : added);
}

void CommandModel::ZIncrBy(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  reply->Double(value->scores[words[3]] += std::stod(words[2]));
}

void CommandModel::ZRem(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  int64_t removed = 0;
  for (size_t i = 2; i < words.size(); ++i) removed += value->scores.erase(words[i]) > 0 ? 1 : 0;
  Tidy(words[1]);
  reply->Integer(removed);
}

void CommandModel::ZScore(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  const auto found = value->scores.find(words[2]);
  found == value->scores.end() ? reply->Null() : reply->Double(found->second);
}

void CommandModel::ZCard(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSortedSet, reply);
  if (value != nullptr) reply->Integer(static_cast<int64_t>(value->scores.size()));
}

void CommandModel::ZRank(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  int64_t rank = 0;
  for (const auto& [score, member] : Ordered(*value)) {
    if (member == words[2]) return reply->Integer(rank);
    ++rank;
  }
  reply->Null();
}

// Always with scores; possibly from the last.
void CommandModel::ZRange(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  std::vector<std::pair<double, std::string>> ordered = Ordered(*value);
  if (words.size() > 5) std::ranges::reverse(ordered);
  int64_t start = 0;
  int64_t stop = 0;
  if (!ClampRange(words[2], words[3], static_cast<int64_t>(ordered.size()), &start, &stop)) {
    return reply->Array(0);
  }
  reply->Array(2 * static_cast<size_t>(stop - start + 1));
  for (int64_t i = start; i <= stop; ++i) {
    reply->Bulk(ordered[static_cast<size_t>(i)].second);
    reply->Double(ordered[static_cast<size_t>(i)].first);
  }
}

void CommandModel::ZRangeByScore(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  std::vector<std::string> found;
  for (const auto& [score, member] : Ordered(*value)) {
    if (score >= std::stod(words[2]) && score <= std::stod(words[3])) found.push_back(member);
  }
  reply->Array(found.size());
  for (const std::string& member : found) reply->Bulk(member);
}

void CommandModel::ZPopMin(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kSortedSet, reply);
  if (value == nullptr) return;
  std::vector<std::pair<double, std::string>> popped = Ordered(*value);
  popped.resize(std::min<size_t>(popped.size(), std::stoul(words[2])));
  reply->Array(2 * popped.size());
  for (const auto& [score, member] : popped) {
    reply->Bulk(member);
    reply->Double(score);
    value->scores.erase(member);
  }
  Tidy(words[1]);
}

// -------- Lists

void CommandModel::Push(const Words& words, bool left, Reply* reply) {
  Value* const value = Open(words[1], Type::kList, reply);
  if (value == nullptr) return;
  for (size_t i = 2; i < words.size(); ++i) {
    left ? value->list.push_front(words[i]) : value->list.push_back(words[i]);
  }
  reply->Integer(static_cast<int64_t>(value->list.size()));
}

void CommandModel::Pop(const Words& words, bool left, Reply* reply) {
  Value* const value = Open(words[1], Type::kList, reply);
  if (value == nullptr) return;
  const bool has_count = words.size() > 2;
  if (value->list.empty()) {
    has_count ? reply->NullArray() : reply->Null();
  } else {
    const size_t count = std::min(value->list.size(), has_count ? std::stoul(words[2]) : 1);
    if (has_count) reply->Array(count);
    for (size_t i = 0; i < count; ++i) {
      reply->Bulk(left ? value->list.front() : value->list.back());
      left ? value->list.pop_front() : value->list.pop_back();
    }
  }
  Tidy(words[1]);
}

void CommandModel::LLen(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kList, reply);
  if (value != nullptr) reply->Integer(static_cast<int64_t>(value->list.size()));
}

void CommandModel::LRange(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kList, reply);
  if (value == nullptr) return;
  int64_t start = 0;
  int64_t stop = 0;
  if (!ClampRange(words[2], words[3], static_cast<int64_t>(value->list.size()), &start, &stop)) {
    return reply->Array(0);
  }
  reply->Array(static_cast<size_t>(stop - start + 1));
  for (int64_t i = start; i <= stop; ++i) reply->Bulk(value->list[static_cast<size_t>(i)]);
}

void CommandModel::LIndex(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kList, reply);
  if (value == nullptr) return;
  const auto count = static_cast<int64_t>(value->list.size());
  int64_t index = std::stoll(words[2]);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return reply->Null();
  reply->Bulk(value->list[static_cast<size_t>(index)]);
}

void CommandModel::LSet(const Words& words, Reply* reply) {
  if (Look(words[1], Type::kList, reply) == nullptr) return;
  if (!Has(words[1])) return reply->Error(kNoSuchKey);
  std::deque<std::string>& list = keys_[words[1]].list;
  const auto count = static_cast<int64_t>(list.size());
  int64_t index = std::stoll(words[2]);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return reply->Error("ERR index out of range");
  list[static_cast<size_t>(index)] = words[3];
  reply->Ok();
}

void CommandModel::LTrim(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kList, reply);
  if (value == nullptr) return;
  int64_t start = 0;
  int64_t stop = -1;
  std::deque<std::string> kept;
  if (ClampRange(words[2], words[3], static_cast<int64_t>(value->list.size()), &start, &stop)) {
    kept.assign(value->list.begin() + start, value->list.begin() + stop + 1);
  }
  value->list = std::move(kept);
  Tidy(words[1]);
  reply->Ok();
}

}  // namespace dlsm::serve
