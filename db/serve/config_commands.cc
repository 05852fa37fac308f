// CONFIG: settings that clients ask for. Few can be changed.
#include <fmt/core.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

std::map<std::string, std::string> Settings(const Call& call) {
  const ServerState& server = call.server;
  std::map<std::string, std::string> settings = {
      {"appendonly", "yes"},
      {"appendfsync", server.store->sync() ? "always" : "everysec"},
      {"save", ""},
      {"databases", std::to_string(kDatabases)},
      {"maxmemory", "0"},
      {"port", std::to_string(server.port)},
      {"latency-monitor-threshold", std::to_string(server.latency_monitor.threshold())},
      {"slowlog-log-slower-than", std::to_string(server.slow_log.slower_than())},
      {"slowlog-max-len", std::to_string(server.slow_log.max_length())},
  };
  settings.merge(call.server.hints.All());
  return settings;
}

void Get(Call& call) {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : Settings(call)) {
    for (size_t i = 2; i < call.count(); ++i) {
      if (MatchesPattern(call[i], name)) found[name] = value;
    }
  }
  call.reply.Map(found.size());
  for (const auto& [name, value] : found) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  }
}

// The default user's password, whatever it was before; "": none.
void SetPassword(Acl* acl, const Slice& password) {
  const std::string rule = fmt::format(">{}", password.ToStringView());
  acl->SetUser(kDefaultUser, password.empty() ? std::vector<Slice>{"nopass"}
                                              : std::vector<Slice>{"resetpass", rule});
}

using Change = std::function<void()>;

// How argument i is set to the one behind it. Returns what is wrong, or "".
std::string Prepare(const Call& call, size_t i, Change* change) {
  ServerState& server = call.server;
  const std::string name = call[i].ToString();
  const std::string value = call[i + 1].ToString();
  int64_t number = 0;
  const bool is_number = ParseInteger(value, &number);
  if (call.Is(i, "appendfsync") && (call.Is(i + 1, "always") || call.Is(i + 1, "everysec"))) {
    *change = [&server, sync = call.Is(i + 1, "always")] { server.store->set_sync(sync); };
  } else if (call.Is(i, "slowlog-log-slower-than") && is_number) {
    *change = [&server, number] { server.slow_log.set_slower_than(number); };
  } else if (call.Is(i, "slowlog-max-len") && is_number && number >= 0) {
    *change = [&server, number] { server.slow_log.set_max_length(static_cast<size_t>(number)); };
  } else if (call.Is(i, "latency-monitor-threshold") && is_number && number >= 0) {
    *change = [&server, number] { server.latency_monitor.set_threshold(number); };
  } else if (call.Is(i, "requirepass")) {
    *change = [&server, value] { SetPassword(&server.acl, value); };
  } else if (server.hints.All().contains(name)) {
    *change = [&server, name, value] { server.hints.Set(name, value); };
  } else if (Settings(call).contains(name)) {
    return fmt::format(
        "ERR CONFIG SET failed (possibly related to argument '{}') - can't set immutable config",
        name);
  } else {
    return fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'", name);
  }
  return "";
}

// All of them, or none if one is wrong.
void Set(Call& call) {
  if (call.count() % 2 != 0) return call.reply.Error(WrongNumber("config|set"));
  std::vector<Change> changes;
  for (size_t i = 2; i < call.count(); i += 2) {
    const std::string wrong = Prepare(call, i, &changes.emplace_back());
    if (!wrong.empty()) return call.reply.Error(wrong);
  }
  for (const Change& change : changes) change();
  call.reply.Ok();
}

void ResetStatistics(Call& call) {
  for (std::atomic<uint64_t>* counter :
       {&call.server.commands, &call.server.connections, &call.server.hits, &call.server.misses,
        &call.server.expired, &call.server.errors, &call.server.bytes_in, &call.server.bytes_out,
        &call.server.rejected, &call.server.slow_clients, &call.server.idle_clients,
        &call.server.rounds}) {
    counter->store(0);
  }
  call.server.command_latency.Clear();
  call.reply.Ok();
}

void Config(Call& call) {
  if (call.Is(1, "get") && call.count() >= 3) return Get(call);
  if (call.Is(1, "set") && call.count() >= 4) return Set(call);
  if (call.Is(1, "resetstat") && call.count() == 2) return ResetStatistics(call);
  call.reply.Error(
      fmt::format("ERR unknown subcommand '{}'. Try CONFIG HELP.", call[1].ToStringView()));
}

}  // namespace

const std::vector<Command> kConfigCommands = {
    {"config", Config, -2, kAdmin | kHasSecrets, 0, 0, 0},
};

}  // namespace dlsm::serve
