// What Redis' commands do, in the simplest way that there is: keys in a std::map, whose values are
// strings and containers of the standard library. dlsm_serve must answer the same.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/serve/records.h"
#include "db/serve/reply.h"

namespace dlsm::serve {

// One client's view of one database. One thread.
class CommandModel {
 public:
  // The reply to a request at time `now`, in RESP2. The request has a name that Knows() and as many
  // arguments as its command takes.
  std::string Run(const std::vector<std::string>& words, int64_t now);
  static bool Knows(const std::string& name);

 private:
  using Words = std::vector<std::string>;

  // What a key has: one of the members, by its type.
  struct Value {
    Type type = Type::kString;
    ExpiryTime expiry = 0;
    std::string text;
    std::map<std::string, std::string> hash;
    std::set<std::string> members;
    std::map<std::string, double> scores;
    std::deque<std::string> list;

    bool IsEmptyCollection() const {
      return type != Type::kString && hash.empty() && members.empty() && scores.empty() &&
             list.empty();
    }
  };
  using Method = void (CommandModel::*)(const Words&, Reply*);
  static const std::map<std::string, Method>& Methods();

  void Execute(const Words& words, Reply* reply);
  void DropExpired();
  bool Has(const std::string& key) const { return keys_.contains(key); }
  // The value for this use of the key, which may be empty; null if the key has another type: then
  // that has been answered.
  const Value* Look(const std::string& key, Type type, Reply* reply);
  // Likewise, to be changed. A collection that is empty afterwards is to be given to Tidy().
  Value* Open(const std::string& key, Type type, Reply* reply);
  void Tidy(const std::string& key);
  void PutText(const std::string& key, const std::string& text, ExpiryTime expiry);
  void AddNumber(const std::string& key, int64_t change, Reply* reply);
  std::vector<std::pair<double, std::string>> Ordered(const Value& value) const;
  void Push(const Words& words, bool left, Reply* reply);
  void Pop(const Words& words, bool left, Reply* reply);

  // command_model_testing.cc
  void Set(const Words& words, Reply* reply);
  void SetNx(const Words& words, Reply* reply);
  void PSetEx(const Words& words, Reply* reply);
  void Get(const Words& words, Reply* reply);
  void GetSet(const Words& words, Reply* reply);
  void GetDel(const Words& words, Reply* reply);
  void Append(const Words& words, Reply* reply);
  void StrLen(const Words& words, Reply* reply);
  void SetRange(const Words& words, Reply* reply);
  void Incr(const Words& words, Reply* reply);
  void DecrBy(const Words& words, Reply* reply);
  void MGet(const Words& words, Reply* reply);
  void MSet(const Words& words, Reply* reply);
  void MSetNx(const Words& words, Reply* reply);
  void Del(const Words& words, Reply* reply);
  void Exists(const Words& words, Reply* reply);
  void TypeOf(const Words& words, Reply* reply);
  void PExpire(const Words& words, Reply* reply);
  void PTtl(const Words& words, Reply* reply);
  void Persist(const Words& words, Reply* reply);
  void Rename(const Words& words, Reply* reply);
  void RenameNx(const Words& words, Reply* reply);
  void Copy(const Words& words, Reply* reply);
  void Keys(const Words& words, Reply* reply);
  void DbSize(const Words& words, Reply* reply);
  void FlushDb(const Words& words, Reply* reply);
  void Multi(const Words& words, Reply* reply);
  void Exec(const Words& words, Reply* reply);
  void Discard(const Words& words, Reply* reply);

  // collection_model_testing.cc
  void HSet(const Words& words, Reply* reply);
  void HGet(const Words& words, Reply* reply);
  void HDel(const Words& words, Reply* reply);
  void HLen(const Words& words, Reply* reply);
  void HGetAll(const Words& words, Reply* reply);
  void HIncrBy(const Words& words, Reply* reply);
  void SAdd(const Words& words, Reply* reply);
  void SRem(const Words& words, Reply* reply);
  void SIsMember(const Words& words, Reply* reply);
  void SCard(const Words& words, Reply* reply);
  void SMembers(const Words& words, Reply* reply);
  void ZAdd(const Words& words, Reply* reply);
  void ZIncrBy(const Words& words, Reply* reply);
  void ZRem(const Words& words, Reply* reply);
  void ZScore(const Words& words, Reply* reply);
  void ZCard(const Words& words, Reply* reply);
  void ZRank(const Words& words, Reply* reply);
  void ZRange(const Words& words, Reply* reply);
  void ZRangeByScore(const Words& words, Reply* reply);
  void ZPopMin(const Words& words, Reply* reply);
  void LPush(const Words& words, Reply* reply) { Push(words, /*left=*/true, reply); }
  void RPush(const Words& words, Reply* reply) { Push(words, /*left=*/false, reply); }
  void LPop(const Words& words, Reply* reply) { Pop(words, /*left=*/true, reply); }
  void RPop(const Words& words, Reply* reply) { Pop(words, /*left=*/false, reply); }
  void LLen(const Words& words, Reply* reply);
  void LRange(const Words& words, Reply* reply);
  void LIndex(const Words& words, Reply* reply);
  void LSet(const Words& words, Reply* reply);
  void LTrim(const Words& words, Reply* reply);

  int64_t now_ = 0;
  std::map<std::string, Value> keys_;
  bool queues_ = false;
  std::vector<Words> queued_;
};

}  // namespace dlsm::serve
