// Commands of strings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "db/serve/command.h"
#include "db/serve/expiry_options.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

constexpr int64_t kStringBytesMax = int64_t{512} << 20;
constexpr const char* kTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

void Get(Call& call) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  head.has_value() ? call.reply.Bulk(head->value) : call.reply.Null();
}

struct SetOptions {
  bool if_missing = false;
  bool if_there = false;
  bool get = false;
  bool keep_expiry = false;
  ExpiryTime expiry = 0;
};

// Returns false if an error has been answered.
bool ParseSetOptions(Call& call, SetOptions* options) {
  for (size_t i = 3; i < call.count(); ++i) {
    ExpiryUnit unit;
    const bool has_expiry = options->expiry != 0;
    if (call.Is(i, "nx") && !options->if_there) {
      options->if_missing = true;
    } else if (call.Is(i, "xx") && !options->if_missing) {
      options->if_there = true;
    } else if (call.Is(i, "get")) {
      options->get = true;
    } else if (call.Is(i, "keepttl") && !has_expiry) {
      options->keep_expiry = true;
    } else if (ParseExpiryUnit(call, i, &unit) && !has_expiry && !options->keep_expiry &&
               i + 1 < call.count()) {
      if (!ParseExpiry(call, call[++i], unit, &options->expiry)) return false;
    } else {
      call.reply.Error(kSyntaxError);
      return false;
    }
  }
  return true;
}

void Set(Call& call) {
  SetOptions options;
  if (!ParseSetOptions(call, &options)) return;
  std::optional<Head> old;
  std::string old_value;
  if (options.if_missing || options.if_there || options.get || options.keep_expiry) {
    old = FindHead(call, call[1]);
    if (options.get && old.has_value() && old->type != Type::kString) {
      return call.reply.Error(kWrongType);
    }
    if (old.has_value()) old_value = old->value.ToString();
  }
  const bool sets = old.has_value() ? !options.if_missing : !options.if_there;
  if (sets) {
    const ExpiryTime kept = options.keep_expiry && old.has_value() ? old->expiry : 0;
    GiveUpElements(call, call[1]);
    PutString(call, call[1], call[2], options.expiry != 0 ? options.expiry : kept);
  }
  if (options.get) {
    old.has_value() ? call.reply.Bulk(old_value) : call.reply.Null();
  } else {
    sets ? call.reply.Ok() : call.reply.Null();
  }
}

void SetNx(Call& call) {
  const bool sets = !FindHead(call, call[1]).has_value();
  if (sets) {
    GiveUpElements(call, call[1]);
    PutString(call, call[1], call[2], 0);
  }
  call.reply.Integer(sets ? 1 : 0);
}

void SetWithExpiry(Call& call, ExpiryUnit unit) {
  ExpiryTime expiry = 0;
  if (!ParseExpiry(call, call[2], unit, &expiry)) return;
  GiveUpElements(call, call[1]);
  PutString(call, call[1], call[3], expiry);
  call.reply.Ok();
}
void SetEx(Call& call) { SetWithExpiry(call, ExpiryUnit::kSeconds); }
void PSetEx(Call& call) { SetWithExpiry(call, ExpiryUnit::kMilliseconds); }

void GetSet(Call& call) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  head.has_value() ? call.reply.Bulk(head->value) : call.reply.Null();
  PutString(call, call[1], call[2], 0);
}

void GetDel(Call& call) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  if (!head.has_value()) return call.reply.Null();
  call.reply.Bulk(head->value);
  DeleteKey(call, call[1]);
}

void GetEx(Call& call) {
  ExpiryTime expiry = 0;
  bool persists = false;
  if (call.count() > 2) {
    ExpiryUnit unit;
    if (call.count() == 3 && call.Is(2, "persist")) {
      persists = true;
    } else if (call.count() != 4 || !ParseExpiryUnit(call, 2, &unit)) {
      return call.reply.Error(kSyntaxError);
    } else if (!ParseExpiry(call, call[3], unit, &expiry)) {
      return;
    }
  }
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  if (!head.has_value()) return call.reply.Null();
  call.reply.Bulk(head->value);
  if (expiry != 0 && expiry <= call.round.now()) {
    DeleteKey(call, call[1]);
  } else if (expiry != 0 || (persists && head->expiry != 0)) {
    const std::string value = head->value.ToString();
    PutString(call, call[1], value, expiry);
  }
}

void MGet(Call& call) {
  call.reply.Array(call.count() - 1);
  for (size_t i = 1; i < call.count(); ++i) {
    const std::optional<Head> head = ReadHead(call, call[i]);
    head.has_value() && head->type == Type::kString ? call.reply.Bulk(head->value)
                                                    : call.reply.Null();
  }
}

void SetAll(Call& call) {
  for (size_t i = 1; i < call.count(); i += 2) {
    GiveUpElements(call, call[i]);
    PutString(call, call[i], call[i + 1], 0);
  }
}

void MSet(Call& call) {
  if (call.count() % 2 == 0) return call.reply.Error(WrongNumber("mset"));
  SetAll(call);
  call.reply.Ok();
}

void MSetNx(Call& call) {
  if (call.count() % 2 == 0) return call.reply.Error(WrongNumber("msetnx"));
  for (size_t i = 1; i < call.count(); i += 2) {
    if (FindHead(call, call[i]).has_value()) return call.reply.Integer(0);
  }
  SetAll(call);
  call.reply.Integer(1);
}

void StrLen(Call& call) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  call.reply.Integer(head.has_value() ? static_cast<int64_t>(head->value.size()) : 0);
}

void Append(Call& call) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  std::string value = head.has_value() ? head->value.ToString() : std::string();
  if (static_cast<int64_t>(value.size() + call[2].size()) > kStringBytesMax) {
    return call.reply.Error(kTooLong);
  }
  value.append(call[2].data(), call[2].size());
  PutString(call, call[1], value, head.has_value() ? head->expiry : 0);
  call.reply.Integer(static_cast<int64_t>(value.size()));
}

void GetRange(Call& call) {
  int64_t start = 0;
  int64_t end = 0;
  if (!ParseInteger(call[2], &start) || !ParseInteger(call[3], &end)) {
    return call.reply.Error(kNotAnInteger);
  }
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  const int64_t size = head.has_value() ? static_cast<int64_t>(head->value.size()) : 0;
  if (start < 0 && end < 0 && start > end) return call.reply.Bulk(Slice());
  if (start < 0) start = std::max<int64_t>(0, start + size);
  if (end < 0) end = std::max<int64_t>(0, end + size);
  end = std::min(end, size - 1);
  if (start > end || size == 0) return call.reply.Bulk(Slice());
  call.reply.Bulk(Slice(head->value.data() + start, static_cast<size_t>(end - start + 1)));
}

void SetRange(Call& call) {
  int64_t offset = 0;
  if (!ParseInteger(call[2], &offset)) return call.reply.Error(kNotAnInteger);
  if (offset < 0) return call.reply.Error("ERR offset is out of range");
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  std::string value = head.has_value() ? head->value.ToString() : std::string();
  if (!call[3].empty()) {
    const auto added = static_cast<int64_t>(call[3].size());
    if (offset > kStringBytesMax - added) return call.reply.Error(kTooLong);
    const auto begin = static_cast<size_t>(offset);
    if (value.size() < begin + call[3].size()) value.resize(begin + call[3].size());
    value.replace(begin, call[3].size(), call[3].data(), call[3].size());
    PutString(call, call[1], value, head.has_value() ? head->expiry : 0);
  }
  call.reply.Integer(static_cast<int64_t>(value.size()));
}

void Add(Call& call, int64_t change) {
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  int64_t number = 0;
  if (head.has_value() && !ParseInteger(head->value, &number)) {
    return call.reply.Error(kNotAnInteger);
  }
  if (__builtin_add_overflow(number, change, &number)) {
    return call.reply.Error("ERR increment or decrement would overflow");
  }
  const fmt::format_int text(number);
  PutString(call, call[1], Slice(text.data(), text.size()), head.has_value() ? head->expiry : 0);
  call.reply.Integer(number);
}

void Incr(Call& call) { Add(call, 1); }
void Decr(Call& call) { Add(call, -1); }
void IncrBy(Call& call) {
  int64_t change = 0;
  if (!ParseInteger(call[2], &change)) return call.reply.Error(kNotAnInteger);
  Add(call, change);
}
void DecrBy(Call& call) {
  int64_t change = 0;
  if (!ParseInteger(call[2], &change)) return call.reply.Error(kNotAnInteger);
  if (change == std::numeric_limits<int64_t>::min()) {
    return call.reply.Error("ERR decrement would overflow");
  }
  Add(call, -change);
}

void IncrByFloat(Call& call) {
  long double change = 0;
  std::optional<Head> head;
  if (!ReadString(call, call[1], &head)) return;
  long double number = 0;
  if ((head.has_value() && !ParseLongDouble(head->value, &number)) ||
      !ParseLongDouble(call[2], &change)) {
    return call.reply.Error(kNotAFloat);
  }
  number += change;
  if (std::isnan(number) || std::isinf(number)) {
    return call.reply.Error("ERR increment would produce NaN or Infinity");
  }
  const std::string text = LongDoubleText(number);
  PutString(call, call[1], text, head.has_value() ? head->expiry : 0);
  call.reply.Bulk(text);
}

}  // namespace

const std::vector<Command> kStringCommands = {
    {"get", Get, 2, kReads | kFast, 1, 1, 1},
    {"set", Set, -3, kWrites | kBlind, 1, 1, 1},
    {"setnx", SetNx, 3, kWrites | kFast, 1, 1, 1},
    {"setex", SetEx, 4, kWrites | kBlind, 1, 1, 1},
    {"psetex", PSetEx, 4, kWrites | kBlind, 1, 1, 1},
    {"getset", GetSet, 3, kWrites | kFast, 1, 1, 1},
    {"getdel", GetDel, 2, kWrites | kFast, 1, 1, 1},
    {"getex", GetEx, -2, kWrites | kFast, 1, 1, 1},
    {"mget", MGet, -2, kReads | kFast, 1, -1, 1},
    {"mset", MSet, -3, kWrites | kBlind, 1, -1, 2},
    {"msetnx", MSetNx, -3, kWrites, 1, -1, 2},
    {"strlen", StrLen, 2, kReads | kFast, 1, 1, 1},
    {"append", Append, 3, kWrites | kFast, 1, 1, 1},
    {"getrange", GetRange, 4, kReads, 1, 1, 1},
    {"substr", GetRange, 4, kReads, 1, 1, 1},
    {"setrange", SetRange, 4, kWrites, 1, 1, 1},
    {"incr", Incr, 2, kWrites | kFast, 1, 1, 1},
    {"decr", Decr, 2, kWrites | kFast, 1, 1, 1},
    {"incrby", IncrBy, 3, kWrites | kFast, 1, 1, 1},
    {"decrby", DecrBy, 3, kWrites | kFast, 1, 1, 1},
    {"incrbyfloat", IncrByFloat, 3, kWrites | kFast, 1, 1, 1},
};

}  // namespace dlsm::serve
