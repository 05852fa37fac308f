#include "db/serve/executor.h"

#include <fmt/core.h>

#include <chrono>

#include "port/clock.h"

namespace dlsm::serve {
namespace {

void AddNeeds(const ServerState& server, int database, const Command& command,
              const std::vector<Slice>& arguments, Needs* needs) {
  needs->all_keys |= (command.flags & kAllKeys) != 0;
  needs->writes |= (command.flags & kWrites) != 0;
  needs->uses_data |= (command.flags & (kWrites | kReads)) != 0;
  const bool reads = (command.flags & kBlind) == 0 || server.store->has_collections();
  command.ForEachKey(arguments, [&](const Slice& key) {
    std::string head_key = HeadKey(database, key);
    if ((command.flags & kWrites) != 0) needs->locks.push_back(head_key);
    if (reads) needs->reads.push_back(std::move(head_key));
  });
}

bool IsExec(const Command& command) { return std::string_view(command.name) == "exec"; }
bool IsWatch(const Command& command) { return std::string_view(command.name) == "watch"; }

// The arguments of a command as others may see them.
std::vector<Slice> Shown(const Command& command, const std::vector<Slice>& arguments) {
  if ((command.flags & kHasSecrets) == 0) return arguments;
  std::vector<Slice> shown(arguments.size(), Slice("(redacted)"));
  shown[0] = arguments[0];
  return shown;
}

// Records how long a command took, which is returned in microseconds.
int64_t NoteTime(ServerState* server, const Command& command, int64_t now,
                 std::chrono::nanoseconds taken) {
  server->command_latency.Add(command.number, static_cast<uint64_t>(taken.count()));
  const int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
  // EXEC's time is that of its commands.
  if (!IsExec(command)) {
    const bool fast = (command.flags & kFast) != 0;
    server->latency_monitor.AddIfSlow(fast ? "fast-command" : "command", now, micros);
  }
  return micros;
}

std::string NotPermitted(Permission permission, const Command& command) {
  switch (permission) {
    case Permission::kGranted:
      return "";
    case Permission::kNotThisCommand:
      return fmt::format("NOPERM this user has no permissions to run the '{}' command",
                         command.name);
    case Permission::kNoKeys:
      return "NOPERM this user has no permissions to access one of the keys used as arguments";
  }
  return "";
}

// What a request waits for, or is refused for, before its command is run; empty if it may be run.
std::string Refusal(const Session& session, const Command* command,
                    const std::vector<Slice>& arguments) {
  if (command == nullptr) return UnknownCommand(arguments);
  if (!command->TakesCount(arguments.size())) return WrongNumber(command->name);
  if (!session.authenticated && (command->flags & kBeforeAuthentication) == 0) {
    return "NOAUTH Authentication required.";
  }
  return NotPermitted(PermissionFor(*session.user, *command), *command);
}

}  // namespace

Permission PermissionFor(const UserPermissions& user, const Command& command) {
  if ((command.flags & kBeforeAuthentication) != 0) return Permission::kGranted;
  if (!user.MayRun(command.number)) return Permission::kNotThisCommand;
  const bool needs_keys = (command.flags & (kReads | kWrites)) != 0 || command.first_key != 0;
  return needs_keys && !user.has_keys() ? Permission::kNoKeys : Permission::kGranted;
}

void FindNeeds(const ServerState& server, const Session& session,
               const std::vector<Slice>& arguments, Needs* needs) {
  const Command* const command = FindCommand(arguments[0]);
  needs->command = command;
  needs->locks.clear();
  needs->reads.clear();
  needs->all_keys = needs->alone = needs->writes = needs->uses_data = needs->refused = false;
  if (!Refusal(session, command, arguments).empty()) {
    needs->refused = true;
    return;
  }
  needs->alone = (command->flags & kChangesSession) != 0;
  if (IsExec(*command) && session.queues) {
    for (const auto& queued : session.queued) {
      const std::vector<Slice> slices(queued.begin(), queued.end());
      AddNeeds(server, session.database, *FindCommand(slices[0]), slices, needs);
    }
    if (session.watch != nullptr) {
      for (const auto& [head_key, expired] : session.watch->head_keys) {
        needs->locks.push_back(head_key);
      }
    }
    return;
  }
  if (session.queues && (command->flags & kNotQueued) == 0) return;
  AddNeeds(server, session.database, *command, arguments, needs);
  // Whoever writes the key from now on finds the watch.
  if (IsWatch(*command)) needs->locks = needs->reads;
}

void AddElementKeys(const Round& round, const Session& session, const Command& command,
                    const std::vector<Slice>& arguments, std::vector<std::string>* keys) {
  const ElementArguments& elements = command.elements;
  if (elements.first == 0) return;
  const std::optional<Slice> stored = round.Known(HeadKey(session.database, arguments[1]));
  if (!stored.has_value()) return;
  const std::optional<Head> head = DecodeHead(*stored);
  if (!head.has_value() || head->type == Type::kString || head->type == Type::kList) return;
  constexpr size_t kElementsMax = 1024;  // Of one request.
  const size_t step = elements.step > 0 ? static_cast<size_t>(elements.step) : arguments.size();
  size_t count = 0;
  for (size_t i = static_cast<size_t>(elements.first); i < arguments.size() && count < kElementsMax;
       i += step, ++count) {
    keys->push_back(ElementKey(head->collection, elements.prefix + arguments[i].ToString()));
  }
}

int64_t RunCommand(ServerState* server, Session* session, Round* round, const Command& command,
                   const std::vector<Slice>& arguments, Reply* reply) {
  const size_t begin = reply->position();
  const uint64_t changes_before = round->changes_made();
  const auto start = port::Clock::now();
  Call call{*server, *session, *round, *reply, command, arguments};
  command.run(call);
  const int64_t micros = NoteTime(server, command, round->now(), port::Clock::now() - start);
  const Status failure = round->TakeFailure();
  if (failure.ok()) [[likely]]
    return micros;
  ++server->errors;
  if (round->changes_made() != changes_before) round->GiveUp(failure);
  reply->Rewind(begin);
  reply->Error("ERR " + failure.ToString());
  return micros;
}

bool Execute(ServerState* server, Session* session, Round* round, const Command* command,
             const std::vector<Slice>& arguments, bool refused, Reply* reply) {
  ++server->commands;
  std::string refusal = Refusal(*session, command, arguments);
  if (refusal.empty() && refused) refusal = NotPermitted(Permission::kNotThisCommand, *command);
  if (!refusal.empty()) {
    session->closes |= session->user->is_gone();
    ++server->errors;
    session->queue_failed |= session->queues;
    reply->Error(refusal);
    return false;
  }
  session->last_command = command->name;
  if (session->queues && (command->flags & kNotQueued) == 0) {
    std::vector<std::string>& queued = session->queued.emplace_back();
    for (const Slice& argument : arguments) queued.push_back(argument.ToString());
    reply->Simple("QUEUED");
    return false;
  }
  const int64_t micros = RunCommand(server, session, round, *command, arguments, reply);
  const int64_t slower_than = server->slow_log.slower_than();
  if (slower_than >= 0 && micros >= slower_than) {
    server->slow_log.Add(*session, Shown(*command, arguments), round->now(), micros);
  }
  return true;
}

void EndTransaction(ServerState* server, Session* session) {
  session->queues = false;
  session->queue_failed = false;
  session->queued.clear();
  if (session->watch != nullptr) server->store->watches().Remove(session->watch);
  session->watch.reset();
}

void ResetSession(ServerState* server, Session* session) {
  EndTransaction(server, session);
  session->database = 0;
  session->protocol = 2;
  session->name.clear();
  session->user = server->acl.DefaultUser();
  session->authenticated = server->acl.DefaultIsOpen();
}

void TellClients(ServerState* server, const Session& session, int64_t now) {
  server->clients_by_id.Update(session.id, session.user->name(), session.Describe(now));
}

void CutOff(ServerState* server, const std::string& user, Session* own) {
  if (own != nullptr) own->closes |= own->user->is_gone();
  server->clients_by_id.Kill([&](uint64_t id, const Clients::Known& known) {
    return known.user == user && (own == nullptr || id != own->id);
  });
}

}  // namespace dlsm::serve
