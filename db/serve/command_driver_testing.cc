#include "db/serve/command_driver_testing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "util/status_macros.h"

namespace dlsm::serve {
namespace {

constexpr int64_t kBegin = 1'000'000;  // Milliseconds since 1970.

// Choices, as the bytes make them; zeros when they are used up.
class Choices {
 public:
  Choices(const uint8_t* data, size_t bytes) : next_(data), end_(data + bytes) {}

  bool more() const { return next_ != end_; }
  size_t OneOf(size_t count) { return (more() ? *next_++ : 0) % count; }

  std::string Key() { return fmt::format("key{}", OneOf(5)); }
  std::string Member() { return std::string(1, static_cast<char>('a' + OneOf(6))); }
  std::string Text() {
    static const std::vector<std::string> kTexts = {
        "",    "0", "1",         "-7", "9223372036854775807",    "-9223372036854775808",
        "3.5", "x", "two words", "01", std::string("\0\r\n", 3), std::string(300, 'y')};
    return kTexts[OneOf(kTexts.size())];
  }
  std::string Small() { return std::to_string(static_cast<int>(OneOf(9)) - 4); }
  std::string Count() { return std::to_string(OneOf(5)); }
  std::string Score() {
    static const std::array<const char*, 9> kScores = {"0",  "1",     "-1",  "2.5", "3",
                                                       "-0", "1e100", "0.1", "7"};
    return kScores[OneOf(kScores.size())];
  }
  std::string Milliseconds() { return std::to_string(1 + OneOf(200)); }

 private:
  const uint8_t* next_;
  const uint8_t* const end_;
};

using Words = std::vector<std::string>;
using Maker = Words (*)(Choices&);

// Words between the name and what follows are chosen in the order in which they stand.
Words With(Choices& c, const char* name, int keys_or_members, bool are_keys) {
  Words words = {name};
  if (!are_keys) words.push_back(c.Key());
  for (int i = 0; i <= keys_or_members; ++i) words.push_back(are_keys ? c.Key() : c.Member());
  return words;
}
Words Pairs(Choices& c, const char* name, const std::string& key, int more) {
  Words words = {name};
  if (!key.empty()) words.push_back(key);
  for (int i = 0; i <= more; ++i) {
    words.push_back(key.empty() ? c.Key() : c.Member());
    words.push_back(c.Text());
  }
  return words;
}
int More(Choices& c) { return static_cast<int>(c.OneOf(3)); }

Words MakeSet(Choices& c) {
  Words words = {"set", c.Key(), c.Text()};
  const size_t options = c.OneOf(16);
  if ((options & 3) == 1) words.push_back("nx");
  if ((options & 3) == 2) words.push_back("xx");
  if ((options & 4) != 0) words.push_back("get");
  if ((options & 8) != 0) {
    const size_t expiry = c.OneOf(2);
    words.push_back(expiry == 0 ? "keepttl" : "px");
    if (expiry == 1) words.push_back(c.Milliseconds());
  }
  return words;
}

Words MakeZAdd(Choices& c) {
  static const std::array<const char*, 5> kConditions = {"", "nx", "xx", "gt", "lt"};
  Words words = {"zadd", c.Key()};
  const char* const condition = kConditions[c.OneOf(kConditions.size())];
  if (*condition != '\0') words.emplace_back(condition);
  if (c.OneOf(2) == 1) words.emplace_back("ch");
  const int more = More(c);
  for (int i = 0; i <= more; ++i) {
    words.push_back(c.Score());
    words.push_back(c.Member());
  }
  return words;
}

const std::vector<Maker> kMakers = {
    MakeSet,
    [](Choices& c) {
      return Words{"setnx", c.Key(), c.Text()};
    },
    [](Choices& c) {
      return Words{"psetex", c.Key(), c.Milliseconds(), c.Text()};
    },
    [](Choices& c) {
      return Words{"get", c.Key()};
    },
    [](Choices& c) {
      return Words{"getset", c.Key(), c.Text()};
    },
    [](Choices& c) {
      return Words{"getdel", c.Key()};
    },
    [](Choices& c) {
      return Words{"append", c.Key(), c.Text()};
    },
    [](Choices& c) {
      return Words{"strlen", c.Key()};
    },
    [](Choices& c) {
      return Words{"setrange", c.Key(), c.Count(), c.Text()};
    },
    [](Choices& c) {
      return Words{"incr", c.Key()};
    },
    [](Choices& c) {
      return Words{"decrby", c.Key(), c.Small()};
    },
    [](Choices& c) { return With(c, "mget", More(c), true); },
    [](Choices& c) { return Pairs(c, "mset", "", More(c)); },
    [](Choices& c) { return Pairs(c, "msetnx", "", More(c)); },
    [](Choices& c) { return With(c, "del", More(c), true); },
    [](Choices& c) { return With(c, "exists", More(c), true); },
    [](Choices& c) {
      return Words{"type", c.Key()};
    },
    [](Choices& c) {
      return Words{"pexpire", c.Key(), c.OneOf(8) == 0 ? c.Small() : c.Milliseconds()};
    },
    [](Choices& c) {
      return Words{"pttl", c.Key()};
    },
    [](Choices& c) {
      return Words{"persist", c.Key()};
    },
    [](Choices& c) {
      return Words{"rename", c.Key(), c.Key()};
    },
    [](Choices& c) {
      return Words{"renamenx", c.Key(), c.Key()};
    },
    [](Choices& c) {
      return c.OneOf(2) == 0 ? Words{"copy", c.Key(), c.Key()}
                             : Words{"copy", c.Key(), c.Key(), "replace"};
    },
    [](Choices&) {
      return Words{"keys", "*"};
    },
    [](Choices&) { return Words{"dbsize"}; },
    [](Choices& c) { return c.OneOf(8) == 0 ? Words{"flushdb"} : Words{"dbsize"}; },
    [](Choices&) { return Words{"multi"}; },
    [](Choices&) { return Words{"exec"}; },
    [](Choices&) { return Words{"exec"}; },
    [](Choices&) { return Words{"discard"}; },
    [](Choices& c) { return Pairs(c, "hset", c.Key(), More(c)); },
    [](Choices& c) {
      return Words{"hget", c.Key(), c.Member()};
    },
    [](Choices& c) { return With(c, "hdel", More(c), false); },
    [](Choices& c) {
      return Words{"hlen", c.Key()};
    },
    [](Choices& c) {
      return Words{"hgetall", c.Key()};
    },
    [](Choices& c) {
      return Words{"hincrby", c.Key(), c.Member(), c.Small()};
    },
    [](Choices& c) { return With(c, "sadd", More(c), false); },
    [](Choices& c) { return With(c, "srem", More(c), false); },
    [](Choices& c) {
      return Words{"sismember", c.Key(), c.Member()};
    },
    [](Choices& c) {
      return Words{"scard", c.Key()};
    },
    [](Choices& c) {
      return Words{"smembers", c.Key()};
    },
    MakeZAdd,
    [](Choices& c) {
      return Words{"zincrby", c.Key(), c.Score(), c.Member()};
    },
    [](Choices& c) { return With(c, "zrem", More(c), false); },
    [](Choices& c) {
      return Words{"zscore", c.Key(), c.Member()};
    },
    [](Choices& c) {
      return Words{"zcard", c.Key()};
    },
    [](Choices& c) {
      return Words{"zrank", c.Key(), c.Member()};
    },
    [](Choices& c) {
      return Words{"zrange", c.Key(), c.Small(), c.Small(), "withscores"};
    },
    [](Choices& c) { return Words{"zrange", c.Key(), c.Small(), c.Small(), "withscores", "rev"}; },
    [](Choices& c) {
      return Words{"zrangebyscore", c.Key(), c.Score(), c.Score()};
    },
    [](Choices& c) {
      return Words{"zpopmin", c.Key(), c.Count()};
    },
    [](Choices& c) { return With(c, "lpush", More(c), false); },
    [](Choices& c) { return With(c, "rpush", More(c), false); },
    [](Choices& c) {
      return Words{"lpop", c.Key()};
    },
    [](Choices& c) {
      return Words{"rpop", c.Key(), c.Count()};
    },
    [](Choices& c) {
      return Words{"llen", c.Key()};
    },
    [](Choices& c) {
      return Words{"lrange", c.Key(), c.Small(), c.Small()};
    },
    [](Choices& c) {
      return Words{"lindex", c.Key(), c.Small()};
    },
    [](Choices& c) {
      return Words{"lset", c.Key(), c.Small(), c.Text()};
    },
    [](Choices& c) {
      return Words{"ltrim", c.Key(), c.Small(), c.Small()};
    },
};

std::vector<Slice> SlicesOf(const Words& words) { return {words.begin(), words.end()}; }

std::string TextOf(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format("\"{}\" ", word);
  return text;
}

}  // namespace

CommandDriver::CommandDriver(std::unique_ptr<DB> db) : store_(std::move(db), /*sync=*/false) {
  server_.store = &store_;
}

Status CommandDriver::Open(std::unique_ptr<CommandDriver>* driver) {
  Options options;
  options.create_if_missing = true;
  options.embedded_memory_bytes = uint64_t{64} << 20;
  options.write_buffer_size = 64 << 10;
  std::unique_ptr<DB> db;
  DLSM_RETURN_IF_ERROR(DB::Open(options, "commands", &db));
  driver->reset(new CommandDriver(std::move(db)));
  return (*driver)->store_.Open();
}

void CommandDriver::Begin() {
  now_ = kBegin;
  model_ = CommandModel();
  log_.clear();
  waiting_ = {{"flushdb"}};
  ResetSession(&server_, &session_);
  RunRound();
  waiting_.clear();
  replies_.clear();
}

// As an event loop does: all requests of a round are locked and read ahead before the first is run.
void CommandDriver::RunRound() {
  Round round(&store_);
  std::vector<std::string> reads;
  std::vector<std::pair<std::vector<Slice>, Needs>> requests;
  for (const Words& words : waiting_) {
    auto& [arguments, needs] = requests.emplace_back(SlicesOf(words), Needs());
    FindNeeds(server_, session_, arguments, &needs);
    if (needs.all_keys) round.LockAll();
    if (!needs.all_keys && !round.Lock(needs.locks)) log_.emplace_back("a lock cannot be had");
    reads.insert(reads.end(), needs.reads.begin(), needs.reads.end());
  }
  round.Begin(&reads, now_);
  reads.clear();
  for (const auto& [arguments, needs] : requests) {
    if (needs.refused || !needs.uses_data) continue;
    AddElementKeys(round, session_, *needs.command, arguments, &reads);
  }
  round.ReadElements(&reads);
  for (const auto& [arguments, needs] : requests) {
    Reply reply(&replies_.emplace_back(), 2);
    Execute(&server_, &session_, &round, needs.command, arguments, needs.refused, &reply);
  }
  const Status written = round.Commit();
  if (!written.ok()) replies_.push_back(written.ToString());
}

std::string CommandDriver::Compare() {
  if (waiting_.empty()) return "";
  RunRound();
  std::string wrong;
  for (size_t i = 0; i < waiting_.size() && wrong.empty(); ++i) {
    const std::string wanted = model_.Run(waiting_[i], now_);
    log_.push_back(fmt::format("{}{} -> {}",
                               i == 0 ? "" : "  in the same round: ", TextOf(waiting_[i]), wanted));
    if (replies_[i] == wanted) continue;
    constexpr size_t kShown = 60;
    const size_t from = log_.size() > kShown ? log_.size() - kShown : 0;
    for (size_t line = from; line < log_.size(); ++line) wrong += log_[line] + "\n";
    wrong += "the last of these was answered with " + replies_[i];
  }
  commands_ += waiting_.size();
  waiting_.clear();
  replies_.clear();
  return wrong;
}

std::string CommandDriver::CompareAllKeys() {
  waiting_ = {{"discard"}};
  const std::string wrong = Compare();
  if (!wrong.empty()) return wrong;
  waiting_ = {{"keys", "*"}};
  for (int i = 0; i < 5; ++i) {
    const std::string key = fmt::format("key{}", i);
    for (const char* name :
         {"type", "pttl", "get", "hgetall", "hlen", "smembers", "scard", "zcard"}) {
      waiting_.push_back({name, key});
    }
    waiting_.push_back({"zrange", key, "0", "-1", "withscores"});
    waiting_.push_back({"lrange", key, "0", "-1"});
  }
  return Compare();
}

void CommandDriver::FlushAndCollect() {
  bool more = true;
  store_.db().Flush(FlushOptions()).PermitUncheckedError();
  store_.CollectGarbage(100, &more).PermitUncheckedError();
  log_.emplace_back("(flush, garbage collected)");
}

std::string CommandDriver::Run(const uint8_t* data, size_t bytes) {
  Begin();
  Choices choices(data, bytes);
  std::string wrong;
  while (choices.more() && wrong.empty()) {
    // Beyond the commands: time passes, and what is in memory goes elsewhere.
    const size_t choice = choices.OneOf(kMakers.size() + 4);
    if (choice >= kMakers.size()) {
      wrong = Compare();
      if (choice == kMakers.size() && choices.OneOf(8) == 0) FlushAndCollect();
      if (choice > kMakers.size()) now_ += static_cast<int64_t>(choices.OneOf(100));
      continue;
    }
    Words words = kMakers[choice](choices);
    const unsigned flags = FindCommand(words[0])->flags;
    const bool alone = (flags & (kChangesSession | kAllKeys)) != 0;
    if (alone) wrong = Compare();
    waiting_.push_back(std::move(words));
    if (wrong.empty() && (alone || choices.OneOf(3) != 0)) wrong = Compare();
  }
  if (wrong.empty()) wrong = Compare();
  return wrong.empty() ? CompareAllKeys() : wrong;
}

}  // namespace dlsm::serve
