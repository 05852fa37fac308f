// Commands of keys, whatever these have.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "db/serve/expiry_options.h"
#include "db/serve/keys.h"
#include "util/random.h"

namespace dlsm::serve {
namespace {

constexpr int64_t kMillisecondsPerSecond = 1000;

void Del(Call& call) {
  int64_t deleted = 0;
  for (size_t i = 1; i < call.count(); ++i) deleted += DeleteKey(call, call[i]) ? 1 : 0;
  call.reply.Integer(deleted);
}

void Exists(Call& call) {
  int64_t found = 0;
  for (size_t i = 1; i < call.count(); ++i) found += ReadHead(call, call[i]).has_value() ? 1 : 0;
  call.reply.Integer(found);
}

void TypeOf(Call& call) {
  const std::optional<Head> head = ReadHead(call, call[1]);
  call.reply.Simple(head.has_value() ? TypeName(head->type) : "none");
}

// -------- Expiry

void SetExpiry(const Call& call, const Slice& key, const Head& head, ExpiryTime expiry) {
  const std::string value = head.value.ToString();
  Head changed = head;
  changed.value = value;
  changed.expiry = expiry;
  PutHead(call, key, changed);
}

struct ExpireConditions {
  bool if_none = false;
  bool if_any = false;
  bool if_greater = false;
  bool if_less = false;

  bool Permit(ExpiryTime present, ExpiryTime wanted) const {
    constexpr ExpiryTime kNever = std::numeric_limits<ExpiryTime>::max();
    const ExpiryTime until = present != 0 ? present : kNever;
    return (!if_none || present == 0) && (!if_any || present != 0) &&
           (!if_greater || wanted > until) && (!if_less || wanted < until);
  }
};

// Returns false if an error has been answered.
bool ParseConditions(Call& call, ExpireConditions* conditions) {
  for (size_t i = 3; i < call.count(); ++i) {
    if (call.Is(i, "nx")) {
      conditions->if_none = true;
    } else if (call.Is(i, "xx")) {
      conditions->if_any = true;
    } else if (call.Is(i, "gt")) {
      conditions->if_greater = true;
    } else if (call.Is(i, "lt")) {
      conditions->if_less = true;
    } else {
      call.reply.Error(fmt::format("ERR Unsupported option {}", call[i].ToStringView()));
      return false;
    }
  }
  if (conditions->if_none &&
      (conditions->if_any || conditions->if_greater || conditions->if_less)) {
    call.reply.Error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (conditions->if_greater && conditions->if_less) {
    call.reply.Error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

void ExpireIn(Call& call, ExpiryUnit unit) {
  ExpireConditions conditions;
  ExpiryTime expiry = 0;
  if (!ParseConditions(call, &conditions) || !ParseAnyExpiry(call, call[2], unit, &expiry)) return;
  const std::optional<Head> head = FindHead(call, call[1]);
  if (!head.has_value() || !conditions.Permit(head->expiry, expiry)) return call.reply.Integer(0);
  if (expiry <= call.round.now()) {
    DeleteKey(call, call[1]);
  } else {
    SetExpiry(call, call[1], *head, expiry);
  }
  call.reply.Integer(1);
}
void Expire(Call& call) { ExpireIn(call, ExpiryUnit::kSeconds); }
void PExpire(Call& call) { ExpireIn(call, ExpiryUnit::kMilliseconds); }
void ExpireAt(Call& call) { ExpireIn(call, ExpiryUnit::kSecondsSinceEpoch); }
void PExpireAt(Call& call) { ExpireIn(call, ExpiryUnit::kMillisecondsSinceEpoch); }

void TimeToLive(Call& call, bool from_now, int64_t unit) {
  constexpr int64_t kNoKey = -2;
  constexpr int64_t kNoExpiry = -1;
  const std::optional<Head> head = ReadHead(call, call[1]);
  if (!head.has_value()) return call.reply.Integer(kNoKey);
  if (head->expiry == 0) return call.reply.Integer(kNoExpiry);
  const int64_t left = from_now ? head->expiry - call.round.now() : head->expiry;
  // As Redis rounds: half a second up.
  call.reply.Integer(unit == 1 || !from_now ? left / unit : (left + unit / 2) / unit);
}
void Ttl(Call& call) { TimeToLive(call, /*from_now=*/true, kMillisecondsPerSecond); }
void PTtl(Call& call) { TimeToLive(call, /*from_now=*/true, 1); }
void GetExpiry(Call& call) { TimeToLive(call, /*from_now=*/false, kMillisecondsPerSecond); }
void PGetExpiry(Call& call) { TimeToLive(call, /*from_now=*/false, 1); }

void Persist(Call& call) {
  const std::optional<Head> head = FindHead(call, call[1]);
  if (!head.has_value() || head->expiry == 0) return call.reply.Integer(0);
  SetExpiry(call, call[1], *head, 0);
  call.reply.Integer(1);
}

// -------- Other places

// The head keeps its collection, of which it is the only one.
void MoveKey(const Call& call, const Slice& from, const Slice& to) {
  const std::string head_key = HeadKey(call.session.database, from);
  const std::string bytes = call.round.Get(head_key).value_or(Slice()).ToString();
  DeleteKey(call, to);
  call.round.Delete(head_key);
  NoteChange(call, from);
  if (const std::optional<Head> head = DecodeHead(bytes); head.has_value()) {
    PutHead(call, to, *head);
  }
}

void Rename(Call& call) {
  if (!FindHead(call, call[1]).has_value()) return call.reply.Error(kNoSuchKey);
  if (call[1] != call[2]) MoveKey(call, call[1], call[2]);
  call.reply.Ok();
}

void RenameNx(Call& call) {
  if (!FindHead(call, call[1]).has_value()) return call.reply.Error(kNoSuchKey);
  if (FindHead(call, call[2]).has_value()) return call.reply.Integer(0);
  MoveKey(call, call[1], call[2]);
  call.reply.Integer(1);
}

bool ParseDatabase(Call& call, const Slice& text, int* database) {
  int64_t number = 0;
  if (!ParseInteger(text, &number)) {
    call.reply.Error(kNotAnInteger);
    return false;
  }
  if (number < 0 || number >= kDatabases) {
    call.reply.Error("ERR DB index is out of range");
    return false;
  }
  *database = static_cast<int>(number);
  return true;
}

void CopyElements(const Call& call, CollectionId from, CollectionId to) {
  const std::string begin = ElementKey(from, Slice());
  std::vector<std::pair<std::string, std::string>> copies;
  call.round.Scan(begin, ElementKeyEnd(from), /*reverse=*/false,
                  [&](const Slice& key, const Slice& value) {
                    Slice rest = key;
                    rest.remove_prefix(begin.size());
                    copies.emplace_back(ElementKey(to, rest), value.ToString());
                    return true;
                  });
  for (const auto& [key, value] : copies) call.round.Put(key, value);
}

void Copy(Call& call) {
  int database = call.session.database;
  bool replaces = false;
  for (size_t i = 3; i < call.count(); ++i) {
    if (call.Is(i, "replace")) {
      replaces = true;
    } else if (call.Is(i, "db") && i + 1 < call.count()) {
      if (!ParseDatabase(call, call[++i], &database)) return;
    } else {
      return call.reply.Error(kSyntaxError);
    }
  }
  if (database == call.session.database && call[1] == call[2]) {
    return call.reply.Error("ERR source and destination objects are the same");
  }
  const std::optional<Head> head = FindHead(call, call[1]);
  if (!head.has_value()) return call.reply.Integer(0);
  const std::string value = head->value.ToString();
  Head copy = *head;
  copy.value = value;
  const int own = std::exchange(call.session.database, database);
  if (FindHead(call, call[2]).has_value() && !replaces) {
    call.session.database = own;
    return call.reply.Integer(0);
  }
  DeleteKey(call, call[2]);
  if (copy.type != Type::kString) {
    const Status made = call.server.store->NewCollection(&copy.collection);
    if (made.ok()) {
      CopyElements(call, head->collection, copy.collection);
    } else {
      call.round.Report(made);
    }
  }
  PutHead(call, call[2], copy);
  call.session.database = own;
  call.reply.Integer(1);
}

// -------- All keys

// Calls use(key, head) for keys of the database from `from` on that have not expired, until it
// returns false.
void ForEachKey(const Call& call, const Slice& from,
                const std::function<bool(const Slice&, const Head&)>& use) {
  call.round.Scan(HeadKey(call.session.database, from), HeadKeyEnd(call.session.database),
                  /*reverse=*/false, [&](const Slice& head_key, const Slice& value) {
                    const std::optional<Head> head = DecodeHead(value);
                    if (!head.has_value() || head->IsExpired(call.round.now())) return true;
                    return use(KeyOfHead(head_key), *head);
                  });
}

void Keys(Call& call) {
  std::vector<std::string> found;
  ForEachKey(call, Slice(), [&](const Slice& key, const Head&) {
    if (MatchesPattern(call[1], key)) found.push_back(key.ToString());
    return true;
  });
  call.reply.Array(found.size());
  for (const std::string& key : found) call.reply.Bulk(key);
}

void DbSize(Call& call) {
  int64_t count = 0;
  ForEachKey(call, Slice(), [&count](const Slice&, const Head&) {
    ++count;
    return true;
  });
  call.reply.Integer(count);
}

// A key at or behind a random place between the first and the last; from there on up to a hundred
// further, so that keys behind a gap do not come more often than others by much.
void RandomKey(Call& call) {
  static thread_local Random random(std::random_device{}());
  std::optional<std::string> first;
  ForEachKey(call, Slice(), [&](const Slice& key, const Head&) {
    first = key.ToString();
    return false;
  });
  if (!first.has_value()) return call.reply.Null();
  std::string last;
  call.round.Scan(HeadKey(call.session.database, Slice()), HeadKeyEnd(call.session.database),
                  /*reverse=*/true, [&](const Slice& head_key, const Slice&) {
                    last = KeyOfHead(head_key).ToString();
                    return false;
                  });
  size_t common = 0;
  while (common < first->size() && common < last.size() && (*first)[common] == last[common]) {
    ++common;
  }
  std::string place = first->substr(0, common);
  const auto digit = [&](const std::string& key, uint8_t none) {
    return common < key.size() ? static_cast<uint8_t>(key[common]) : none;
  };
  const uint8_t low = digit(*first, 0);
  place.push_back(
      static_cast<char>(low + random.Uniform(static_cast<uint64_t>(digit(last, low) - low) + 1)));
  for (int i = 0; i < 7; ++i) place.push_back(static_cast<char>(random.Uniform(256)));
  uint64_t skipped = random.Uniform(100);
  std::string chosen = *first;
  ForEachKey(call, place, [&](const Slice& key, const Head&) {
    chosen = key.ToString();
    return skipped-- > 0;
  });
  call.reply.Bulk(chosen);
}

std::optional<Type> ParseType(const Slice& text) {
  for (const Type type : {Type::kString, Type::kList, Type::kSet, Type::kSortedSet, Type::kHash}) {
    std::string lower = text.ToString();
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == TypeName(type)) return type;
  }
  return std::nullopt;
}

void Scan(Call& call) {
  int64_t cursor = 0;
  const auto [end, error] =
      std::from_chars(call[1].data(), call[1].data() + call[1].size(), cursor);
  if (error != std::errc() || end != call[1].end()) return call.reply.Error("ERR invalid cursor");
  std::optional<Slice> pattern;
  std::optional<Type> type;
  bool any_type = true;
  int64_t most = 10;
  for (size_t i = 2; i < call.count(); i += 2) {
    if (i + 1 == call.count()) return call.reply.Error(kSyntaxError);
    if (call.Is(i, "match")) {
      pattern = call[i + 1];
    } else if (call.Is(i, "count")) {
      if (!ParseInteger(call[i + 1], &most)) return call.reply.Error(kNotAnInteger);
      if (most < 1) return call.reply.Error(kSyntaxError);
    } else if (call.Is(i, "type")) {
      type = ParseType(call[i + 1]);
      any_type = false;
    } else {
      return call.reply.Error(kSyntaxError);
    }
  }
  std::vector<std::string> found;
  std::optional<std::string> next;
  const std::string from = call.server.cursors.Take(static_cast<uint64_t>(cursor));
  ForEachKey(call, from, [&](const Slice& key, const Head& head) {
    if (most-- == 0) {
      next = key.ToString();
      return false;
    }
    if ((!pattern.has_value() || MatchesPattern(*pattern, key)) &&
        (any_type || (type.has_value() && head.type == *type))) {
      found.push_back(key.ToString());
    }
    return true;
  });
  call.reply.Array(2);
  call.reply.Bulk(std::to_string(next.has_value() ? call.server.cursors.Add(*next) : 0));
  call.reply.Array(found.size());
  for (const std::string& key : found) call.reply.Bulk(key);
}

bool CheckFlushMode(Call& call) {
  if (call.count() == 1 || (call.count() == 2 && (call.Is(1, "sync") || call.Is(1, "async")))) {
    return true;
  }
  call.reply.Error(kSyntaxError);
  return false;
}
void FlushDb(Call& call) {
  if (!CheckFlushMode(call)) return;
  const int database = call.session.database;
  DeleteKeysBetween(call, HeadKey(database, Slice()), HeadKeyEnd(database), /*count=*/nullptr);
  call.reply.Ok();
}
void FlushAll(Call& call) {
  if (!CheckFlushMode(call)) return;
  Watches& watches = call.server.store->watches();
  for (const std::string& head_key : watches.WatchedIn(kFirstKey, kEndOfKeys)) {
    if (call.round.Get(head_key).has_value()) watches.NoteChange(head_key);
  }
  call.round.DeleteRange(kFirstKey, kEndOfKeys);
  call.reply.Ok();
}

void Select(Call& call) {
  int database = 0;
  if (!ParseDatabase(call, call[1], &database)) return;
  call.session.database = database;
  TellClients(&call.server, call.session, call.round.now());
  call.reply.Ok();
}

// -------- What is told of a key

const char* EncodingOf(const Head& head) {
  constexpr size_t kEmbeddedBytesMax = 44;
  switch (head.type) {
    case Type::kString: {
      int64_t number = 0;
      if (ParseInteger(head.value, &number)) return "int";
      return head.value.size() <= kEmbeddedBytesMax ? "embstr" : "raw";
    }
    case Type::kList:
      return "quicklist";
    case Type::kSet:
    case Type::kHash:
      return "hashtable";
    case Type::kSortedSet:
      return "skiplist";
  }
  return "raw";
}

void Object(Call& call) {
  if (call.Is(1, "help") && call.count() == 2) {
    call.reply.Array(2);
    call.reply.Simple("OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    call.reply.Simple("ENCODING, REFCOUNT, IDLETIME, FREQ <key>");
    return;
  }
  if (call.count() != 3) {
    return call.reply.Error(fmt::format(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try OBJECT HELP.",
        call[1].ToStringView()));
  }
  const std::optional<Head> head = FindHead(call, call[2]);
  if (!head.has_value()) return call.reply.Null();
  if (call.Is(1, "encoding")) {
    call.reply.Bulk(EncodingOf(*head));
  } else if (call.Is(1, "refcount")) {
    call.reply.Integer(1);
  } else if (call.Is(1, "idletime") || call.Is(1, "freq")) {
    call.reply.Integer(0);
  } else {
    call.reply.Error(
        fmt::format("ERR unknown subcommand '{}'. Try OBJECT HELP.", call[1].ToStringView()));
  }
}

// Of the key alone: its head, and of a collection its elements.
void Memory(Call& call) {
  if (!call.Is(1, "usage") || call.count() < 3) {
    return call.reply.Error(
        fmt::format("ERR unknown subcommand '{}'. Try MEMORY HELP.", call[1].ToStringView()));
  }
  const std::optional<Head> head = FindHead(call, call[2]);
  if (!head.has_value()) return call.reply.Null();
  size_t bytes = call[2].size() + head->value.size() + 2;
  if (head->type != Type::kString) {
    call.round.Scan(ElementKey(head->collection, Slice()), ElementKeyEnd(head->collection),
                    /*reverse=*/false, [&bytes](const Slice& key, const Slice& value) {
                      bytes += key.size() + value.size();
                      return true;
                    });
  }
  call.reply.Integer(static_cast<int64_t>(bytes));
}

}  // namespace

const std::vector<Command> kKeyCommands = {
    {"del", Del, -2, kWrites, 1, -1, 1},
    {"unlink", Del, -2, kWrites | kFast, 1, -1, 1},
    {"exists", Exists, -2, kReads | kFast, 1, -1, 1},
    {"touch", Exists, -2, kReads | kFast, 1, -1, 1},
    {"type", TypeOf, 2, kReads | kFast, 1, 1, 1},
    {"expire", Expire, -3, kWrites | kFast, 1, 1, 1},
    {"pexpire", PExpire, -3, kWrites | kFast, 1, 1, 1},
    {"expireat", ExpireAt, -3, kWrites | kFast, 1, 1, 1},
    {"pexpireat", PExpireAt, -3, kWrites | kFast, 1, 1, 1},
    {"ttl", Ttl, 2, kReads | kFast, 1, 1, 1},
    {"pttl", PTtl, 2, kReads | kFast, 1, 1, 1},
    {"expiretime", GetExpiry, 2, kReads | kFast, 1, 1, 1},
    {"pexpiretime", PGetExpiry, 2, kReads | kFast, 1, 1, 1},
    {"persist", Persist, 2, kWrites | kFast, 1, 1, 1},
    {"rename", Rename, 3, kWrites, 1, 2, 1},
    {"renamenx", RenameNx, 3, kWrites | kFast, 1, 2, 1},
    {"copy", Copy, -3, kWrites | kAllKeys, 1, 2, 1},
    {"keys", Keys, 2, kReads, 0, 0, 0},
    {"scan", Scan, -2, kReads, 0, 0, 0},
    {"randomkey", RandomKey, 1, kReads, 0, 0, 0},
    {"dbsize", DbSize, 1, kReads | kFast, 0, 0, 0},
    {"flushdb", FlushDb, -1, kWrites | kAllKeys, 0, 0, 0},
    {"flushall", FlushAll, -1, kWrites | kAllKeys, 0, 0, 0},
    {"select", Select, 2, kFast | kChangesSession, 0, 0, 0},
    {"object", Object, -2, kReads, 2, 2, 1},
    {"memory", Memory, -2, kReads, 2, 2, 1},
};

}  // namespace dlsm::serve
