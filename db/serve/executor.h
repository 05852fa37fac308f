// Carries requests out: finds their commands, checks what Redis checks before every command, and
// keeps those of a transaction until EXEC.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/command.h"
#include "db/serve/reply.h"
#include "db/serve/round.h"
#include "db/serve/server_state.h"
#include "db/serve/session.h"

namespace dlsm::serve {

// What a request needs of its round.
struct Needs {
  const Command* command = nullptr;  // Null if there is none of that name.
  std::vector<std::string> locks;    // Heads that it may write, or must not change meanwhile.
  std::vector<std::string> reads;    // Heads that it will read.
  bool all_keys = false;             // Nobody else writes meanwhile.
  bool alone = false;                // Its session's others come before or behind its round.
  bool writes = false;
  bool uses_data = false;  // Its answer depends on what the database has, or it writes.
  bool refused = false;    // It has no needs because it is not to be run.
};
// Of a request with at least one argument. *needs keeps its memory from one request to the next.
void FindNeeds(const ServerState& server, const Session& session,
               const std::vector<Slice>& arguments, Needs* needs);

// Appends the keys of the elements that the request names, if the round knows their collection. So
// the elements of all requests of a round are read together.
void AddElementKeys(const Round& round, const Session& session, const Command& command,
                    const std::vector<Slice>& arguments, std::vector<std::string>* keys);

// Answers the request, whose needs the round has. `command`, which may be null, and `refused`: as
// Needs has them. A request that was refused has no locks, so it stays refused whatever its user
// may do by now. Returns false if it was refused or queued.
bool Execute(ServerState* server, Session* session, Round* round, const Command* command,
             const std::vector<Slice>& arguments, bool refused, Reply* reply);

// Whether the user may run the command; if not, why.
enum class Permission { kGranted, kNotThisCommand, kNoKeys };
Permission PermissionFor(const UserPermissions& user, const Command& command);

// Runs a command that has passed all checks. What failed in the round is the answer then, instead
// of what the command said. Returns how many microseconds it took.
int64_t RunCommand(ServerState* server, Session* session, Round* round, const Command& command,
                   const std::vector<Slice>& arguments, Reply* reply);

// What of a session a connection begins with; RESET goes back to that.
void ResetSession(ServerState* server, Session* session);
// Has CLIENT LIST and the like know the session as it is now.
void TellClients(ServerState* server, const Session& session, int64_t now);
// Closes the connections of a user that is no more, but for that of `own`, which is closed when it
// has been answered. `own` is null if no session asks for it.
void CutOff(ServerState* server, const std::string& user, Session* own);
// Ends what the session watches and queues.
void EndTransaction(ServerState* server, Session* session);

}  // namespace dlsm::serve
