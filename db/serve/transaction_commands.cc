// MULTI and EXEC, WATCH and what ends them. A transaction is one round: its writes are one batch.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

void Multi(Call& call) {
  if (call.session.queues) return call.reply.Error("ERR MULTI calls can not be nested");
  call.session.queues = true;
  call.reply.Ok();
}

void Discard(Call& call) {
  if (!call.session.queues) return call.reply.Error("ERR DISCARD without MULTI");
  EndTransaction(&call.server, &call.session);
  call.reply.Ok();
}

bool HasExpired(const Call& call, const std::string& head_key) {
  const std::optional<Slice> stored = call.round.Get(head_key);
  const std::optional<Head> head = stored.has_value() ? DecodeHead(*stored) : std::nullopt;
  return head.has_value() && head->IsExpired(call.round.now());
}

// A key that has expired since its watch began has changed.
bool HasChanged(const Call& call, const Watch& watch) {
  if (watch.changed.load()) return true;
  for (const auto& [head_key, had_expired] : watch.head_keys) {
    if (!had_expired && HasExpired(call, head_key)) return true;
  }
  return false;
}

void Exec(Call& call) {
  Session& session = call.session;
  if (!session.queues) return call.reply.Error("ERR EXEC without MULTI");
  const std::vector<std::vector<std::string>> queued = std::move(session.queued);
  const bool failed = session.queue_failed;
  const bool changed = session.watch != nullptr && HasChanged(call, *session.watch);
  EndTransaction(&call.server, &session);
  if (failed) {
    return call.reply.Error("EXECABORT Transaction discarded because of previous errors.");
  }
  if (changed) return call.reply.NullArray();
  call.reply.Array(queued.size());
  for (const std::vector<std::string>& request : queued) {
    const std::vector<Slice> arguments(request.begin(), request.end());
    const Command& command = *FindCommand(arguments[0]);
    if (PermissionFor(*session.user, command) != Permission::kGranted) {
      call.reply.Error(
          "NOPERM ACLs rules changed between the moment the transaction was accumulated and the "
          "EXEC call. This command is no longer allowed for the following reason: can't run this "
          "command or subcommand");
      continue;
    }
    RunCommand(&call.server, &session, &call.round, command, arguments, &call.reply);
  }
}

void WatchKeys(Call& call) {
  Session& session = call.session;
  if (session.queues) return call.reply.Error("ERR WATCH inside MULTI is not allowed");
  if (session.watch == nullptr) session.watch = std::make_shared<Watch>();
  for (size_t i = 1; i < call.count(); ++i) {
    const std::string head_key = HeadKey(session.database, call[i]);
    call.server.store->watches().Add(session.watch, head_key, HasExpired(call, head_key));
  }
  call.reply.Ok();
}

void Unwatch(Call& call) {
  if (call.session.watch != nullptr) call.server.store->watches().Remove(call.session.watch);
  call.session.watch.reset();
  call.reply.Ok();
}

}  // namespace

const std::vector<Command> kTransactionCommands = {
    {"multi", Multi, 1, kChangesSession | kFast | kNotQueued, 0, 0, 0},
    {"exec", Exec, 1, kChangesSession | kNotQueued, 0, 0, 0},
    {"discard", Discard, 1, kChangesSession | kFast | kNotQueued, 0, 0, 0},
    {"watch", WatchKeys, -2, kChangesSession | kFast | kNotQueued, 1, -1, 1},
    {"unwatch", Unwatch, 1, kChangesSession | kFast, 0, 0, 0},
};

}  // namespace dlsm::serve
