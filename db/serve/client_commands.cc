// CLIENT: what the server knows of its connections, and what they tell of themselves.
#include <fmt/core.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

void SetName(Call& call) {
  if (!IsClientName(call[2])) return call.reply.Error(kNotAClientName);
  call.session.name = call[2].ToString();
  TellClients(&call.server, call.session, call.round.now());
  call.reply.Ok();
}

void SetInfo(Call& call) {
  Session& session = call.session;
  if (!IsClientName(call[3])) {
    return call.reply.Error(fmt::format(
        "ERR {} cannot contain spaces, newlines or special characters.", call[2].ToStringView()));
  }
  if (call.Is(2, "lib-name")) {
    session.library_name = call[3].ToString();
  } else if (call.Is(2, "lib-ver")) {
    session.library_version = call[3].ToString();
  } else {
    return call.reply.Error(fmt::format("ERR Unrecognized option '{}'", call[2].ToStringView()));
  }
  TellClients(&call.server, session, call.round.now());
  call.reply.Ok();
}

// The type of all clients is "normal": there are no replicas and no subscribers. Returns false if
// an error has been answered.
bool ParseType(Call& call, size_t i, bool* is_normal) {
  *is_normal = call.Is(i, "normal");
  if (*is_normal || call.Is(i, "master") || call.Is(i, "replica") || call.Is(i, "slave") ||
      call.Is(i, "pubsub")) {
    return true;
  }
  call.reply.Error(fmt::format("ERR Unknown client type '{}'", call[i].ToStringView()));
  return false;
}

// CLIENT LIST [TYPE type] [ID number...]
void List(Call& call) {
  bool is_normal = true;
  std::optional<std::set<uint64_t>> ids;
  if (call.count() == 4 && call.Is(2, "type")) {
    if (!ParseType(call, 3, &is_normal)) return;
  } else if (call.count() >= 4 && call.Is(2, "id")) {
    ids.emplace();
    for (size_t i = 3; i < call.count(); ++i) {
      int64_t id = 0;
      if (!ParseInteger(call[i], &id) || id <= 0) return call.reply.Error("ERR Invalid client ID");
      ids->insert(static_cast<uint64_t>(id));
    }
  } else if (call.count() > 2) {
    return call.reply.Error(kSyntaxError);
  }
  call.reply.Verbatim(call.server.clients_by_id.List(
      [&](uint64_t id) { return is_normal && (!ids.has_value() || ids->contains(id)); }));
}

struct KillFilter {
  std::optional<int64_t> id;
  std::optional<std::string> peer;
  std::optional<std::string> local;
  std::optional<std::string> user;
  bool is_normal = true;
  bool skips_own = true;

  bool Has(uint64_t number, const Clients::Known& known) const {
    return is_normal && (!id.has_value() || static_cast<int64_t>(number) == *id) &&
           (!peer.has_value() || known.peer == *peer) &&
           (!local.has_value() || known.local == *local) &&
           (!user.has_value() || known.user == *user);
  }
};

// Pairs of ID and a number, ADDR or LADDR and an address, USER and a name, TYPE and a type, SKIPME
// and yes or no. Returns false if an error has been answered.
bool ParseKillFilter(Call& call, KillFilter* filter) {
  for (size_t i = 2; i < call.count(); i += 2) {
    const bool has_value = i + 1 < call.count();
    if (has_value && call.Is(i, "id")) {
      if (!ParseInteger(call[i + 1], &filter->id.emplace()) || *filter->id <= 0) {
        call.reply.Error("ERR client-id should be greater than 0");
        return false;
      }
    } else if (has_value && call.Is(i, "addr")) {
      filter->peer = call[i + 1].ToString();
    } else if (has_value && call.Is(i, "laddr")) {
      filter->local = call[i + 1].ToString();
    } else if (has_value && call.Is(i, "type")) {
      if (!ParseType(call, i + 1, &filter->is_normal)) return false;
    } else if (has_value && call.Is(i, "user")) {
      filter->user = call[i + 1].ToString();
      if (call.server.acl.PermissionsOf(*filter->user) == nullptr) {
        call.reply.Error(fmt::format("ERR No such user '{}'", *filter->user));
        return false;
      }
    } else if (has_value && call.Is(i, "skipme") &&
               (call.Is(i + 1, "yes") || call.Is(i + 1, "no"))) {
      filter->skips_own = call.Is(i + 1, "yes");
    } else {
      call.reply.Error(kSyntaxError);
      return false;
    }
  }
  return true;
}

// A client that kills itself is told so first.
void Kill(Call& call) {
  KillFilter filter;
  const bool by_address = call.count() == 3;
  if (by_address) {
    filter.peer = call[2].ToString();
    filter.skips_own = false;
  } else if (!ParseKillFilter(call, &filter)) {
    return;
  }
  const uint64_t own = call.session.id;
  bool kills_own = false;
  int64_t killed =
      call.server.clients_by_id.Kill([&](uint64_t number, const Clients::Known& known) {
        if (!filter.Has(number, known)) return false;
        if (number != own) return true;
        kills_own = !filter.skips_own;
        return false;
      });
  if (kills_own) {
    call.session.closes = true;
    ++killed;
  }
  if (!by_address) return call.reply.Integer(killed);
  killed > 0 ? call.reply.Ok() : call.reply.Error("ERR No such client");
}

void Help(Call& call) {
  static const std::vector<const char*> kLines = {
      "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "GETNAME",
      "    The name of this connection.",
      "GETREDIR",
      "    -1: nothing is tracked.",
      "ID",
      "    The number of this connection.",
      "INFO",
      "    What the server knows of this connection.",
      "KILL <ip:port>",
      "    Closes the connection from that address.",
      "KILL <option> <value> [<option> <value> [...]]",
      "    Closes those to which all options apply: ADDR, LADDR, ID, TYPE, USER; SKIPME (yes|no).",
      "LIST [TYPE <type> | ID <number> ...]",
      "    What the server knows of all or some connections.",
      "SETINFO <lib-name|lib-ver> <text>",
      "    Tells the library of this connection.",
      "SETNAME <name>",
      "    Names this connection.",
      "UNBLOCK <number>",
      "    0: no client is ever blocked.",
      "HELP",
      "    This text."};
  call.reply.Array(kLines.size());
  for (const char* line : kLines) call.reply.Simple(line);
}

void ClientCommand(Call& call) {
  Session& session = call.session;
  const size_t count = call.count();
  if (call.Is(1, "id") && count == 2) return call.reply.Integer(static_cast<int64_t>(session.id));
  if (call.Is(1, "getname") && count == 2) {
    return session.name.empty() ? call.reply.Null() : call.reply.Bulk(session.name);
  }
  if (call.Is(1, "setname") && count == 3) return SetName(call);
  if (call.Is(1, "setinfo") && count == 4) return SetInfo(call);
  if (call.Is(1, "info") && count == 2) {
    return call.reply.Verbatim(session.Describe(call.round.now()) + "\n");
  }
  if ((call.Is(1, "no-evict") || call.Is(1, "no-touch")) && count == 3) return call.reply.Ok();
  if (call.Is(1, "list")) return List(call);
  if (call.Is(1, "kill")) {
    return count >= 3 ? Kill(call) : call.reply.Error(WrongNumber("client|kill"));
  }
  if (call.Is(1, "getredir") && count == 2) return call.reply.Integer(-1);
  if (call.Is(1, "unblock") && count >= 3) return call.reply.Integer(0);
  if (call.Is(1, "help") && count == 2) return Help(call);
  call.reply.Error(
      fmt::format("ERR unknown subcommand '{}'. Try CLIENT HELP.", call[1].ToStringView()));
}

}  // namespace

const std::vector<Command> kClientCommands = {
    {"client", ClientCommand, -2, 0, 0, 0, 0},
};

}  // namespace dlsm::serve
