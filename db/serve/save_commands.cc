// SAVE, BGSAVE and LASTSAVE: backups that clients ask for.
#include <fmt/core.h>

#include "db/serve/command.h"

namespace dlsm::serve {
namespace {

// Returns false if an error has been answered.
bool CheckNoTransaction(Call& call) {
  if (!call.session.queues) return true;
  call.reply.Error("ERR Command not allowed inside a transaction");
  return false;
}

void AnswerFailure(Call& call, const Status& status) {
  if (status.IsBusy()) return call.reply.Error("ERR Background save already in progress");
  call.reply.Error(fmt::format("ERR {}", status.message().ToStringView()));
}

// The event loop does nothing else meanwhile.
void Save(Call& call) {
  if (!CheckNoTransaction(call)) return;
  const Status written = call.server.backups->Write();
  written.ok() ? call.reply.Ok() : AnswerFailure(call, written);
}

void BackgroundSave(Call& call) {
  if (!CheckNoTransaction(call)) return;
  if (call.count() > 2 || (call.count() == 2 && !call.Is(1, "schedule"))) {
    return call.reply.Error("ERR syntax error");
  }
  const Status begun = call.server.backups->Begin();
  begun.ok() ? call.reply.Simple("Background saving started") : AnswerFailure(call, begun);
}

void LastSave(Call& call) { call.reply.Integer(call.server.backups->progress().last); }

}  // namespace

// What the client has written before is in the database when they run.
const std::vector<Command> kSaveCommands = {
    {"save", Save, 1, kAdmin | kNotQueued | kChangesSession, 0, 0, 0},
    {"bgsave", BackgroundSave, -1, kAdmin | kNotQueued | kChangesSession, 0, 0, 0},
    {"lastsave", LastSave, 1, kFast | kAdmin, 0, 0, 0},
};

}  // namespace dlsm::serve
