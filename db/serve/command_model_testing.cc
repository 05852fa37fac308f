#include "db/serve/command_model_testing.h"

#include <algorithm>
#include <utility>

#include "db/serve/keys.h"

namespace dlsm::serve {

const std::map<std::string, CommandModel::Method>& CommandModel::Methods() {
  using Model = CommandModel;
  static const std::map<std::string, Method> methods = {
      {"set", &Model::Set},           {"setnx", &Model::SetNx},
      {"psetex", &Model::PSetEx},     {"get", &Model::Get},
      {"getset", &Model::GetSet},     {"getdel", &Model::GetDel},
      {"append", &Model::Append},     {"strlen", &Model::StrLen},
      {"setrange", &Model::SetRange}, {"incr", &Model::Incr},
      {"decrby", &Model::DecrBy},     {"mget", &Model::MGet},
      {"mset", &Model::MSet},         {"msetnx", &Model::MSetNx},
      {"del", &Model::Del},           {"exists", &Model::Exists},
      {"type", &Model::TypeOf},       {"pexpire", &Model::PExpire},
      {"pttl", &Model::PTtl},         {"persist", &Model::Persist},
      {"rename", &Model::Rename},     {"renamenx", &Model::RenameNx},
      {"copy", &Model::Copy},         {"keys", &Model::Keys},
      {"dbsize", &Model::DbSize},     {"flushdb", &Model::FlushDb},
      {"multi", &Model::Multi},       {"exec", &Model::Exec},
      {"discard", &Model::Discard},   {"hset", &Model::HSet},
      {"hget", &Model::HGet},         {"hdel", &Model::HDel},
      {"hlen", &Model::HLen},         {"hgetall", &Model::HGetAll},
      {"hincrby", &Model::HIncrBy},   {"sadd", &Model::SAdd},
      {"srem", &Model::SRem},         {"sismember", &Model::SIsMember},
      {"scard", &Model::SCard},       {"smembers", &Model::SMembers},
      {"zadd", &Model::ZAdd},         {"zincrby", &Model::ZIncrBy},
      {"zrem", &Model::ZRem},         {"zscore", &Model::ZScore},
      {"zcard", &Model::ZCard},       {"zrank", &Model::ZRank},
      {"zrange", &Model::ZRange},     {"zrangebyscore", &Model::ZRangeByScore},
      {"zpopmin", &Model::ZPopMin},   {"lpush", &Model::LPush},
      {"rpush", &Model::RPush},       {"lpop", &Model::LPop},
      {"rpop", &Model::RPop},         {"llen", &Model::LLen},
      {"lrange", &Model::LRange},     {"lindex", &Model::LIndex},
      {"lset", &Model::LSet},         {"ltrim", &Model::LTrim},
  };
  return methods;
}

bool CommandModel::Knows(const std::string& name) { return Methods().contains(name); }

std::string CommandModel::Run(const Words& words, int64_t now) {
  now_ = now;
  DropExpired();
  std::string out;
  Reply reply(&out, 2);
  const std::string& name = words[0];
  if (queues_ && name != "multi" && name != "exec" && name != "discard") {
    queued_.push_back(words);
    reply.Simple("QUEUED");
  } else {
    Execute(words, &reply);
  }
  return out;
}

void CommandModel::Execute(const Words& words, Reply* reply) {
  (this->*Methods().at(words[0]))(words, reply);
}

void CommandModel::DropExpired() {
  std::erase_if(keys_, [this](const auto& entry) {
    return entry.second.expiry != 0 && entry.second.expiry <= now_;
  });
}

const CommandModel::Value* CommandModel::Look(const std::string& key, Type type, Reply* reply) {
  static const Value kNothing;
  const auto found = keys_.find(key);
  if (found == keys_.end()) return &kNothing;
  if (found->second.type == type) return &found->second;
  reply->Error(kWrongType);
  return nullptr;
}

CommandModel::Value* CommandModel::Open(const std::string& key, Type type, Reply* reply) {
  if (Look(key, type, reply) == nullptr) return nullptr;
  Value& value = keys_[key];
  value.type = type;
  return &value;
}

void CommandModel::Tidy(const std::string& key) {
  const auto found = keys_.find(key);
  if (found != keys_.end() && found->second.IsEmptyCollection()) keys_.erase(found);
}

void CommandModel::PutText(const std::string& key, const std::string& text, ExpiryTime expiry) {
  Value value;
  value.text = text;
  value.expiry = expiry;
  keys_[key] = std::move(value);
}

// -------- Strings

void CommandModel::Set(const Words& words, Reply* reply) {
  bool if_missing = false;
  bool if_there = false;
  bool keep = false;
  bool get = false;
  ExpiryTime expiry = 0;
  for (size_t i = 3; i < words.size(); ++i) {
    if_missing |= words[i] == "nx";
    if_there |= words[i] == "xx";
    keep |= words[i] == "keepttl";
    get |= words[i] == "get";
    if (words[i] == "px") expiry = now_ + std::stoll(words[i + 1]);
  }
  const bool had = Has(words[1]);
  std::string old;
  if (get) {
    const Value* const value = Look(words[1], Type::kString, reply);
    if (value == nullptr) return;
    old = value->text;
  }
  const bool sets = had ? !if_missing : !if_there;
  if (sets) PutText(words[1], words[2], keep && had ? keys_[words[1]].expiry : expiry);
  if (get) return had ? reply->Bulk(old) : reply->Null();
  sets ? reply->Ok() : reply->Null();
}

void CommandModel::SetNx(const Words& words, Reply* reply) {
  const bool had = Has(words[1]);
  if (!had) PutText(words[1], words[2], 0);
  reply->Integer(had ? 0 : 1);
}

void CommandModel::PSetEx(const Words& words, Reply* reply) {
  PutText(words[1], words[3], now_ + std::stoll(words[2]));
  reply->Ok();
}

void CommandModel::Get(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kString, reply);
  if (value == nullptr) return;
  Has(words[1]) ? reply->Bulk(value->text) : reply->Null();
}

void CommandModel::GetSet(const Words& words, Reply* reply) {
  if (Look(words[1], Type::kString, reply) == nullptr) return;
  Get(words, reply);
  PutText(words[1], words[2], 0);
}

void CommandModel::GetDel(const Words& words, Reply* reply) {
  if (Look(words[1], Type::kString, reply) == nullptr) return;
  Get(words, reply);
  keys_.erase(words[1]);
}

void CommandModel::Append(const Words& words, Reply* reply) {
  Value* const value = Open(words[1], Type::kString, reply);
  if (value == nullptr) return;
  value->text += words[2];
  reply->Integer(static_cast<int64_t>(value->text.size()));
}

void CommandModel::StrLen(const Words& words, Reply* reply) {
  const Value* const value = Look(words[1], Type::kString, reply);
  if (value != nullptr) reply->Integer(static_cast<int64_t>(value->text.size()));
}

void CommandModel::SetRange(const Words& words, Reply* reply) {
  const Value* const old = Look(words[1], Type::kString, reply);
  if (old == nullptr) return;
  if (words[3].empty()) return reply->Integer(static_cast<int64_t>(old->text.size()));
  std::string& text = Open(words[1], Type::kString, reply)->text;
  const size_t offset = std::stoul(words[2]);
  text.resize(std::max(text.size(), offset + words[3].size()));
  std::ranges::copy(words[3], text.begin() + static_cast<ptrdiff_t>(offset));
  reply->Integer(static_cast<int64_t>(text.size()));
}

void CommandModel::AddNumber(const std::string& key, int64_t change, Reply* reply) {
  const Value* const old = Look(key, Type::kString, reply);
  if (old == nullptr) return;
  int64_t number = 0;
  if (Has(key) && !ParseInteger(old->text, &number)) return reply->Error(kNotAnInteger);
  if (__builtin_add_overflow(number, change, &number)) {
    return reply->Error("ERR increment or decrement would overflow");
  }
  Open(key, Type::kString, reply)->text = std::to_string(number);
  reply->Integer(number);
}

void CommandModel::Incr(const Words& words, Reply* reply) { AddNumber(words[1], 1, reply); }
void CommandModel::DecrBy(const Words& words, Reply* reply) {
  AddNumber(words[1], -std::stoll(words[2]), reply);
}

void CommandModel::MGet(const Words& words, Reply* reply) {
  reply->Array(words.size() - 1);
  for (size_t i = 1; i < words.size(); ++i) {
    const auto found = keys_.find(words[i]);
    const bool is_string = found != keys_.end() && found->second.type == Type::kString;
    is_string ? reply->Bulk(found->second.text) : reply->Null();
  }
}

void CommandModel::MSet(const Words& words, Reply* reply) {
  for (size_t i = 1; i < words.size(); i += 2) PutText(words[i], words[i + 1], 0);
  reply->Ok();
}

void CommandModel::MSetNx(const Words& words, Reply* reply) {
  for (size_t i = 1; i < words.size(); i += 2) {
    if (Has(words[i])) return reply->Integer(0);
  }
  for (size_t i = 1; i < words.size(); i += 2) PutText(words[i], words[i + 1], 0);
  reply->Integer(1);
}

// -------- Keys

void CommandModel::Del(const Words& words, Reply* reply) {
  int64_t deleted = 0;
  for (size_t i = 1; i < words.size(); ++i) deleted += keys_.erase(words[i]) > 0 ? 1 : 0;
  reply->Integer(deleted);
}

void CommandModel::Exists(const Words& words, Reply* reply) {
  reply->Integer(std::count_if(words.begin() + 1, words.end(),
                               [this](const std::string& key) { return Has(key); }));
}

void CommandModel::TypeOf(const Words& words, Reply* reply) {
  reply->Simple(Has(words[1]) ? TypeName(keys_[words[1]].type) : "none");
}

void CommandModel::PExpire(const Words& words, Reply* reply) {
  if (!Has(words[1])) return reply->Integer(0);
  const ExpiryTime expiry = now_ + std::stoll(words[2]);
  keys_[words[1]].expiry = expiry;
  if (expiry <= now_) keys_.erase(words[1]);
  reply->Integer(1);
}

void CommandModel::PTtl(const Words& words, Reply* reply) {
  if (!Has(words[1])) return reply->Integer(-2);
  const ExpiryTime expiry = keys_[words[1]].expiry;
  reply->Integer(expiry == 0 ? -1 : expiry - now_);
}

void CommandModel::Persist(const Words& words, Reply* reply) {
  const bool changes = Has(words[1]) && keys_[words[1]].expiry != 0;
  if (changes) keys_[words[1]].expiry = 0;
  reply->Integer(changes ? 1 : 0);
}

void CommandModel::Rename(const Words& words, Reply* reply) {
  if (!Has(words[1])) return reply->Error(kNoSuchKey);
  Value value = std::move(keys_[words[1]]);
  keys_.erase(words[1]);
  keys_[words[2]] = std::move(value);
  reply->Ok();
}

void CommandModel::RenameNx(const Words& words, Reply* reply) {
  if (!Has(words[1])) return reply->Error(kNoSuchKey);
  if (Has(words[2])) return reply->Integer(0);
  keys_[words[2]] = std::exchange(keys_[words[1]], Value());
  keys_.erase(words[1]);
  reply->Integer(1);
}

void CommandModel::Copy(const Words& words, Reply* reply) {
  if (words[1] == words[2]) {
    return reply->Error("ERR source and destination objects are the same");
  }
  const bool replaces = words.size() > 3;
  if (!Has(words[1]) || (Has(words[2]) && !replaces)) return reply->Integer(0);
  keys_[words[2]] = keys_[words[1]];
  reply->Integer(1);
}

void CommandModel::Keys(const Words& /*words*/, Reply* reply) {
  reply->Array(keys_.size());
  for (const auto& [key, value] : keys_) reply->Bulk(key);
}

void CommandModel::DbSize(const Words& /*words*/, Reply* reply) {
  reply->Integer(static_cast<int64_t>(keys_.size()));
}

void CommandModel::FlushDb(const Words& /*words*/, Reply* reply) {
  keys_.clear();
  reply->Ok();
}

// -------- Transactions

void CommandModel::Multi(const Words& /*words*/, Reply* reply) {
  if (queues_) return reply->Error("ERR MULTI calls can not be nested");
  queues_ = true;
  reply->Ok();
}

void CommandModel::Exec(const Words& /*words*/, Reply* reply) {
  if (!std::exchange(queues_, false)) return reply->Error("ERR EXEC without MULTI");
  const std::vector<Words> queued = std::exchange(queued_, {});
  reply->Array(queued.size());
  for (const Words& words : queued) Execute(words, reply);
}

void CommandModel::Discard(const Words& /*words*/, Reply* reply) {
  if (!std::exchange(queues_, false)) return reply->Error("ERR DISCARD without MULTI");
  queued_.clear();
  reply->Ok();
}

}  // namespace dlsm::serve
