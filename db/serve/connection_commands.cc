// Commands of a connection.
#include <fmt/core.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

constexpr const char* kVersion = "7.0.0";  // Of Redis, whose commands and replies these are.

void Ping(Call& call) {
  if (call.count() > 2) return call.reply.Error(WrongNumber("ping"));
  call.count() == 2 ? call.reply.Bulk(call[1]) : call.reply.Simple("PONG");
}

void Echo(Call& call) { call.reply.Bulk(call[1]); }

void Quit(Call& call) {
  call.session.closes = true;
  call.reply.Ok();
}

void Reset(Call& call) {
  ResetSession(&call.server, &call.session);
  TellClients(&call.server, call.session, call.round.now());
  call.reply.set_protocol(2);
  call.reply.Simple("RESET");
}

// Returns false if an error has been answered.
bool Authenticate(Call& call, const Slice& name, const Slice& password) {
  Session& session = call.session;
  Acl::User user = call.server.acl.Authenticate(name, password);
  if (user == nullptr) {
    call.reply.Error("WRONGPASS invalid username-password pair or user is disabled.");
    return false;
  }
  session.user = std::move(user);
  session.authenticated = true;
  TellClients(&call.server, session, call.round.now());
  // A thread that deletes the user cuts off the connections that are known as the user's. If it has
  // not seen this one, the user is gone by now.
  session.closes |= session.user->is_gone();
  return true;
}

void Auth(Call& call) {
  if (call.count() > 3) return call.reply.Error(kSyntaxError);
  if (call.count() == 2 && call.server.acl.DefaultIsOpen()) {
    return call.reply.Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const Slice user = call.count() == 3 ? call[1] : Slice(kDefaultUser);
  if (Authenticate(call, user, call[call.count() - 1])) call.reply.Ok();
}

// As a RESP client begins: which protocol it speaks, who it is.
void Hello(Call& call) {
  int64_t protocol = call.session.protocol;
  size_t next = 1;
  if (call.count() > 1) {
    if (!ParseInteger(call[1], &protocol)) {
      return call.reply.Error("ERR Protocol version is not an integer or out of range");
    }
    if (protocol < 2 || protocol > 3) {
      return call.reply.Error("NOPROTO unsupported protocol version");
    }
    next = 2;
  }
  std::string name = call.session.name;
  while (next < call.count()) {
    if (call.Is(next, "auth") && next + 2 < call.count()) {
      if (!Authenticate(call, call[next + 1], call[next + 2])) return;
      next += 3;
    } else if (call.Is(next, "setname") && next + 1 < call.count()) {
      if (!IsClientName(call[next + 1])) return call.reply.Error(kNotAClientName);
      name = call[next + 1].ToString();
      next += 2;
    } else {
      return call.reply.Error(
          fmt::format("ERR Syntax error in HELLO option '{}'", call[next].ToStringView()));
    }
  }
  if (!call.session.authenticated) {
    return call.reply.Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  call.session.name = name;
  call.session.protocol = static_cast<int>(protocol);
  TellClients(&call.server, call.session, call.round.now());
  call.reply.set_protocol(call.session.protocol);
  call.reply.Map(7);
  call.reply.Bulk("server");
  call.reply.Bulk("redis");
  call.reply.Bulk("version");
  call.reply.Bulk(kVersion);
  call.reply.Bulk("proto");
  call.reply.Integer(protocol);
  call.reply.Bulk("id");
  call.reply.Integer(static_cast<int64_t>(call.session.id));
  call.reply.Bulk("mode");
  call.reply.Bulk("standalone");
  call.reply.Bulk("role");
  call.reply.Bulk("master");
  call.reply.Bulk("modules");
  call.reply.Array(0);
}

void Time(Call& call) {
  using std::chrono::duration_cast;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = duration_cast<std::chrono::seconds>(now);
  call.reply.Array(2);
  call.reply.Bulk(std::to_string(seconds.count()));
  call.reply.Bulk(std::to_string(duration_cast<std::chrono::microseconds>(now - seconds).count()));
}

}  // namespace

bool IsClientName(const Slice& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '!' || text[i] > '~') return false;
  }
  return true;
}

const std::vector<Command> kConnectionCommands = {
    {"ping", Ping, -1, kFast, 0, 0, 0},
    {"echo", Echo, 2, kFast, 0, 0, 0},
    {"quit", Quit, -1, kChangesSession | kFast | kBeforeAuthentication | kNotQueued, 0, 0, 0},
    {"reset", Reset, 1, kChangesSession | kFast | kBeforeAuthentication | kNotQueued, 0, 0, 0},
    {"auth", Auth, -2, kChangesSession | kFast | kBeforeAuthentication | kHasSecrets, 0, 0, 0},
    {"hello", Hello, -1, kChangesSession | kFast | kBeforeAuthentication | kHasSecrets, 0, 0, 0},
    {"time", Time, 1, kFast, 0, 0, 0},
};

}  // namespace dlsm::serve
