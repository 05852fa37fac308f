// Commands of hashes.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "db/serve/collection.h"
#include "db/serve/command.h"
#include "db/serve/element_scan.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

bool OpenHash(const Call& call, std::optional<Collection>* hash) {
  return Collection::Open(call, call[1], Type::kHash, hash);
}

// Returns false if the answer is an error.
bool PutFields(Call& call, const std::string& name, int64_t* added) {
  if (call.count() % 2 == 1) {
    call.reply.Error(WrongNumber(name));
    return false;
  }
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return false;
  *added = 0;
  for (size_t i = 2; i < call.count(); i += 2) {
    if (!hash->Get(call[i]).has_value()) ++*added;
    if (!hash->Put(call[i], call[i + 1])) return false;
  }
  hash->AddToCount(*added);
  hash->Save();
  return true;
}

void HSet(Call& call) {
  int64_t added;
  if (PutFields(call, "hset", &added)) call.reply.Integer(added);
}
void HMSet(Call& call) {
  int64_t added;
  if (PutFields(call, "hmset", &added)) call.reply.Ok();
}

void HSetNx(Call& call) {
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  if (hash->Get(call[2]).has_value()) return call.reply.Integer(0);
  if (!hash->Put(call[2], call[3])) return;
  hash->AddToCount(1);
  hash->Save();
  call.reply.Integer(1);
}

void BulkOrNull(Call& call, const std::optional<Slice>& value) {
  value.has_value() ? call.reply.Bulk(*value) : call.reply.Null();
}

void HGet(Call& call) {
  std::optional<Collection> hash;
  if (OpenHash(call, &hash)) BulkOrNull(call, hash->Get(call[2]));
}

void HMGet(Call& call) {
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  call.reply.Array(call.count() - 2);
  for (size_t i = 2; i < call.count(); ++i) BulkOrNull(call, hash->Get(call[i]));
}

void HDel(Call& call) {
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  int64_t deleted = 0;
  for (size_t i = 2; i < call.count(); ++i) {
    if (!hash->Get(call[i]).has_value()) continue;
    hash->Delete(call[i]);
    ++deleted;
  }
  hash->AddToCount(-deleted);
  if (deleted > 0) hash->Save();
  call.reply.Integer(deleted);
}

void HLen(Call& call) {
  std::optional<Collection> hash;
  if (OpenHash(call, &hash)) call.reply.Integer(hash->count());
}
void HExists(Call& call) {
  std::optional<Collection> hash;
  if (OpenHash(call, &hash)) call.reply.Integer(hash->Get(call[2]).has_value() ? 1 : 0);
}
void HStrLen(Call& call) {
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  call.reply.Integer(static_cast<int64_t>(hash->Get(call[2]).value_or(Slice()).size()));
}

void AnswerAll(Call& call, bool fields, bool values) {
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  const auto count = static_cast<size_t>(hash->count());
  fields&& values ? call.reply.Map(count) : call.reply.Array(count);
  hash->Scan(Slice(), Slice(), /*reverse=*/false, [&](const Slice& field, const Slice& value) {
    if (fields) call.reply.Bulk(field);
    if (values) call.reply.Bulk(value);
    return true;
  });
}
void HGetAll(Call& call) { AnswerAll(call, /*fields=*/true, /*values=*/true); }
void HKeys(Call& call) { AnswerAll(call, /*fields=*/true, /*values=*/false); }
void HVals(Call& call) { AnswerAll(call, /*fields=*/false, /*values=*/true); }

// Returns false if the answer is an error.
bool PutOne(Collection* hash, const Slice& field, bool is_new, const Slice& value) {
  if (!hash->Put(field, value)) return false;
  if (is_new) hash->AddToCount(1);
  hash->Save();
  return true;
}

void HIncrBy(Call& call) {
  int64_t change = 0;
  if (!ParseInteger(call[3], &change)) return call.reply.Error(kNotAnInteger);
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  const std::optional<Slice> old = hash->Get(call[2]);
  int64_t number = 0;
  if (old.has_value() && !ParseInteger(*old, &number)) {
    return call.reply.Error("ERR hash value is not an integer");
  }
  if (__builtin_add_overflow(number, change, &number)) {
    return call.reply.Error("ERR increment or decrement would overflow");
  }
  const std::string text = std::to_string(number);
  if (PutOne(&*hash, call[2], !old.has_value(), text)) call.reply.Integer(number);
}

void HIncrByFloat(Call& call) {
  long double change = 0;
  if (!ParseLongDouble(call[3], &change)) return call.reply.Error(kNotAFloat);
  if (std::isinf(change)) return call.reply.Error("ERR value is NaN or Infinity");
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  const std::optional<Slice> old = hash->Get(call[2]);
  long double number = 0;
  if (old.has_value() && !ParseLongDouble(*old, &number)) {
    return call.reply.Error("ERR hash value is not a float");
  }
  number += change;
  if (std::isnan(number) || std::isinf(number)) {
    return call.reply.Error("ERR increment would produce NaN or Infinity");
  }
  const std::string text = LongDoubleText(number);
  if (PutOne(&*hash, call[2], !old.has_value(), text)) call.reply.Bulk(text);
}

void HScan(Call& call) {
  ElementScan scan;
  if (!ParseElementScan(call, &scan)) return;
  std::optional<Collection> hash;
  if (!OpenHash(call, &hash)) return;
  AnswerElementScan(call, scan, *hash, /*prefix=*/Slice(),
                    [](const Slice& field, const Slice& value) {
                      return std::vector<std::string>{field.ToString(), value.ToString()};
                    });
}

}  // namespace

const std::vector<Command> kHashCommands = {
    {"hset", HSet, -4, kWrites | kFast, 1, 1, 1, {2, 2}},
    {"hmset", HMSet, -4, kWrites | kFast, 1, 1, 1, {2, 2}},
    {"hsetnx", HSetNx, 4, kWrites | kFast, 1, 1, 1, {2, 2}},
    {"hget", HGet, 3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"hmget", HMGet, -3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"hgetall", HGetAll, 2, kReads, 1, 1, 1},
    {"hdel", HDel, -3, kWrites | kFast, 1, 1, 1, {2, 1}},
    {"hlen", HLen, 2, kReads | kFast, 1, 1, 1},
    {"hexists", HExists, 3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"hkeys", HKeys, 2, kReads, 1, 1, 1},
    {"hvals", HVals, 2, kReads, 1, 1, 1},
    {"hincrby", HIncrBy, 4, kWrites | kFast, 1, 1, 1, {2}},
    {"hincrbyfloat", HIncrByFloat, 4, kWrites | kFast, 1, 1, 1, {2}},
    {"hstrlen", HStrLen, 3, kReads | kFast, 1, 1, 1, {2, 1}},
    {"hscan", HScan, -3, kReads, 1, 1, 1},
};

}  // namespace dlsm::serve
