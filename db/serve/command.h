// Commands: their names, what they take, and the functions that do what they say.
//
// A command reads and writes through its Round and answers through its Reply. It knows nothing of
// sockets, threads or locks. Replies and error texts are those of Redis 7.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/reply.h"
#include "db/serve/round.h"
#include "db/serve/server_state.h"
#include "db/serve/session.h"

namespace dlsm::serve {

struct Command;

// One command that is carried out.
struct Call {
  ServerState& server;
  Session& session;
  Round& round;
  Reply& reply;
  const Command& command;
  const std::vector<Slice>& arguments;  // The command's name first.

  size_t count() const { return arguments.size(); }
  const Slice& operator[](size_t i) const { return arguments[i]; }
  // Whether argument i is this word, in upper or lower case.
  bool Is(size_t i, std::string_view word) const;
};

enum CommandFlags : unsigned {
  kWrites = 1 << 0,
  kReads = 1 << 1,
  kFast = 1 << 2,
  kAdmin = 1 << 3,
  kBeforeAuthentication = 1 << 4,
  kNotQueued = 1 << 5,  // Done at once inside MULTI.
  kAllKeys = 1 << 6,    // It may write any key: nobody else writes meanwhile.
  kBlind = 1 << 7,      // Often needs nothing of what its key has.
  // Requests behind it in a pipeline are looked at when it has been done.
  kChangesSession = 1 << 8,
  kHasSecrets = 1 << 9,  // Its arguments may be passwords, which nothing is to show.
};

// Arguments that name elements of the collection that is argument 1: the places of these elements
// are `prefix` and the argument.
struct ElementArguments {
  int first = 0;  // Is 0 if there are none.
  int step = 0;   // To the next one; 0: there is only one.
  const char* prefix = "";
};

struct Command {
  using Run = void (*)(Call&);

  const char* name;  // In lower case.
  Run run;
  int arity;  // Below 0: at least as many arguments, the name among them.
  unsigned flags;
  // The arguments that are keys; last_key below 0 counts from the end; 0, 0, 0: none.
  int first_key;
  int last_key;
  int step;
  // They are read ahead, so it does no harm if one is none.
  ElementArguments elements{};
  // Set in the commands that FindCommand() and AllCommands() give.
  size_t number = 0;        // Its place in AllCommands().
  uint32_t categories = 0;  // Bits of acl_categories.h.

  bool TakesCount(size_t count) const {
    const auto given = static_cast<int>(count);
    return arity >= 0 ? given == arity : given >= -arity;
  }
  // Calls use(const Slice&) for each argument that is a key.
  template <typename Use>
  void ForEachKey(const std::vector<Slice>& arguments, Use use) const {
    if (first_key == 0) return;
    const int count = static_cast<int>(arguments.size());
    const int last = std::min(last_key >= 0 ? last_key : count + last_key, count - 1);
    for (int i = first_key; i <= last; i += step) use(arguments[static_cast<size_t>(i)]);
  }
  std::vector<Slice> KeysOf(const std::vector<Slice>& arguments) const;
};

// Null if there is none.
const Command* FindCommand(const Slice& name);
const std::vector<const Command*>& AllCommands();

// Each in its own file.
extern const std::vector<Command> kStringCommands;
extern const std::vector<Command> kKeyCommands;
extern const std::vector<Command> kHashCommands;
extern const std::vector<Command> kSetCommands;
extern const std::vector<Command> kSortedSetCommands;
extern const std::vector<Command> kListCommands;
extern const std::vector<Command> kConnectionCommands;
extern const std::vector<Command> kTransactionCommands;
extern const std::vector<Command> kServerCommands;
extern const std::vector<Command> kWaitCommands;
extern const std::vector<Command> kSaveCommands;
extern const std::vector<Command> kAclCommands;
extern const std::vector<Command> kLatencyCommands;
extern const std::vector<Command> kConfigCommands;
extern const std::vector<Command> kClientCommands;

// A command of which argument 1 says what it does.
struct Subcommand {
  static constexpr size_t kAny = SIZE_MAX;

  const char* name;  // In lower case.
  Command::Run run;
  size_t count_min;  // Of arguments, the names among them.
  size_t count_max;
};
// Runs the one that argument 1 names, or answers with Redis' error.
void RunSubcommand(Call& call, const std::vector<Subcommand>& subcommands);

inline constexpr const char* kNotAClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";
bool IsClientName(const Slice& text);

// What an unknown command, or a wrong number of arguments, is answered with.
std::string UnknownCommand(const std::vector<Slice>& arguments);
std::string WrongNumber(const std::string& name);

}  // namespace dlsm::serve
