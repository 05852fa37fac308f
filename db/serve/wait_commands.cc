// WAIT and WAITAOF: how safe what the client has written is. A memory node's log is one memory, and
// its directory one disk; other copies there are none.
#include "db/serve/command.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

// Returns false if an error has been answered.
bool ParseTimeout(Call& call, const Slice& text) {
  int64_t milliseconds = 0;
  if (!ParseInteger(text, &milliseconds)) {
    call.reply.Error("ERR timeout is not an integer or out of range");
    return false;
  }
  if (milliseconds >= 0) return true;
  call.reply.Error("ERR timeout is negative");
  return false;
}

// What takes longer than the database's own time-out fails, so the client's is not needed.
bool Flush(Call& call, bool sync) {
  const Status flushed = call.server.store->db().FlushLog(sync);
  if (!flushed.ok()) call.round.Report(flushed);
  return flushed.ok();
}

void Wait(Call& call) {
  int64_t wanted = 0;
  if (!ParseInteger(call[1], &wanted)) return call.reply.Error(kNotAnInteger);
  if (!ParseTimeout(call, call[2])) return;
  if (!call.server.store->has_log()) return call.reply.Integer(0);
  if (wanted <= 0 || Flush(call, /*sync=*/false)) call.reply.Integer(1);
}

void WaitAof(Call& call) {
  int64_t disks = 0;
  int64_t replicas = 0;
  if (!ParseInteger(call[1], &disks) || disks < 0 || disks > 1) {
    return call.reply.Error("ERR value is out of range, must between 0 and 1");
  }
  if (!ParseInteger(call[2], &replicas) || replicas < 0) {
    return call.reply.Error("ERR value is out of range, must be positive");
  }
  if (!ParseTimeout(call, call[3])) return;
  const bool on_disk = call.server.store->is_on_disk();
  if (disks > 0 && !on_disk) {
    return call.reply.Error(
        "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
  }
  if (disks > 0 && !Flush(call, /*sync=*/true)) return;
  call.reply.Array(2);
  call.reply.Integer(disks);
  call.reply.Integer(0);
}

}  // namespace

const std::vector<Command> kWaitCommands = {
    {"wait", Wait, 3, kChangesSession, 0, 0, 0},
    {"waitaof", WaitAof, 4, kChangesSession, 0, 0, 0},
};

}  // namespace dlsm::serve
