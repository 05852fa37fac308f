// Commands that tell of the server, and what an ordered store has beyond Redis.
#include <fmt/core.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/serve/acl_categories.h"
#include "db/serve/command.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

std::string ServerSection(const Call& call) {
  const ServerState& server = call.server;
  return fmt::format(
      "# Server\r\nredis_version:7.0.0\r\nserver_name:dlsm_serve\r\nredis_mode:standalone\r\n"
      "arch_bits:64\r\nprocess_id:{}\r\nrun_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{}\r\nio_"
      "threads:{}\r\n",
      getpid(), server.run_id, server.port, (call.round.now() - server.started_at) / 1000,
      server.threads);
}
std::string ClientsSection(const Call& call) {
  return fmt::format("# Clients\r\nconnected_clients:{}\r\n", call.server.clients.load());
}
std::string StatsSection(const Call& call) {
  const ServerState& server = call.server;
  return fmt::format(
      "# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\n"
      "total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\nrejected_connections:{}\r\n"
      "expired_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\ntotal_error_replies:{}\r\n"
      "rounds:{}\r\n",
      server.connections.load(), server.commands.load(), server.bytes_in.load(),
      server.bytes_out.load(), server.rejected.load(), server.expired.load(), server.hits.load(),
      server.misses.load(), server.errors.load(), server.rounds.load());
}
std::string PersistenceSection(const Call& call) {
  const Backups::Progress progress = call.server.backups->progress();
  return fmt::format(
      "# Persistence\r\nrdb_bgsave_in_progress:{}\r\nrdb_last_save_time:{}\r\n"
      "rdb_last_bgsave_status:{}\r\n",
      progress.running ? 1 : 0, progress.last, progress.last_status.ok() ? "ok" : "err");
}
std::string ReplicationSection(const Call& /*call*/) {
  return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";
}
std::string ClusterSection(const Call& /*call*/) { return "# Cluster\r\ncluster_enabled:0\r\n"; }
// Which databases have keys; how many would take a while to count.
std::string KeyspaceSection(const Call& call) {
  std::string text = "# Keyspace\r\n";
  for (int database = 0; database < kDatabases; ++database) {
    int64_t keys = 0;
    int64_t expires = 0;
    constexpr int64_t kCounted = 10'000;
    call.round.Scan(HeadKey(database, Slice()), HeadKeyEnd(database), /*reverse=*/false,
                    [&](const Slice&, const Slice& value) {
                      const std::optional<Head> head = DecodeHead(value);
                      if (!head.has_value() || head->IsExpired(call.round.now())) return true;
                      if (head->expiry != 0) ++expires;
                      return ++keys < kCounted;
                    });
    if (keys > 0) {
      text += fmt::format("db{}:keys={},expires={},avg_ttl=0\r\n", database, keys, expires);
    }
  }
  return text;
}

void Info(Call& call) {
  using Section = std::string (*)(const Call&);
  static const std::vector<std::pair<const char*, Section>> sections = {
      {"server", ServerSection},           {"clients", ClientsSection},
      {"persistence", PersistenceSection}, {"stats", StatsSection},
      {"replication", ReplicationSection}, {"cluster", ClusterSection},
      {"keyspace", KeyspaceSection},
  };
  std::string text;
  for (const auto& [name, section] : sections) {
    bool wanted = call.count() == 1;
    for (size_t i = 1; i < call.count(); ++i) {
      wanted |= call.Is(i, name) || call.Is(i, "all") || call.Is(i, "default") ||
                call.Is(i, "everything");
    }
    if (!wanted) continue;
    if (!text.empty()) text += "\r\n";
    text += section(call);
  }
  call.reply.Verbatim(text);
}

void Describe(const Command& command, Reply* reply) {
  std::vector<const char*> flags;
  if ((command.flags & kWrites) != 0) flags.push_back("write");
  if ((command.flags & kReads) != 0) flags.push_back("readonly");
  if ((command.flags & kFast) != 0) flags.push_back("fast");
  if ((command.flags & kAdmin) != 0) flags.push_back("admin");
  if ((command.flags & kBeforeAuthentication) != 0) flags.push_back("no_auth");
  reply->Array(10);
  reply->Bulk(command.name);
  reply->Integer(command.arity);
  reply->Set(flags.size());
  for (const char* flag : flags) reply->Simple(flag);
  reply->Integer(command.first_key);
  reply->Integer(command.last_key);
  reply->Integer(command.step);
  std::vector<std::string> categories;
  for (const std::string_view name : CategoryNames()) {
    if (IsIn(command, *FindCategory(name))) categories.push_back(fmt::format("@{}", name));
  }
  reply->Set(categories.size());
  for (const std::string& category : categories) reply->Simple(category);
  for (int i = 0; i < 3; ++i) reply->Set(0);  // Tips, key specifications, subcommands.
}

// COMMAND LIST [FILTERBY (ACLCAT category | PATTERN pattern | MODULE name)]
void ListCommands(Call& call) {
  std::function<bool(const Command&)> wanted = [](const Command&) { return true; };
  if (call.count() == 5 && call.Is(2, "filterby") && call.Is(3, "aclcat")) {
    const std::optional<AclCategory> category = FindCategory(call[4].ToStringView());
    wanted = [category](const Command& command) {
      return category.has_value() && IsIn(command, *category);
    };
  } else if (call.count() == 5 && call.Is(2, "filterby") && call.Is(3, "pattern")) {
    wanted = [&call](const Command& command) { return MatchesPattern(call[4], command.name); };
  } else if (call.count() == 5 && call.Is(2, "filterby") && call.Is(3, "module")) {
    wanted = [](const Command&) { return false; };  // There are no modules.
  } else if (call.count() > 2) {
    return call.reply.Error(kSyntaxError);
  }
  std::vector<const char*> names;
  for (const Command* command : AllCommands()) {
    if (wanted(*command)) names.push_back(command->name);
  }
  call.reply.Array(names.size());
  for (const char* name : names) call.reply.Bulk(name);
}

void GetKeys(Call& call) {
  const std::vector<Slice> arguments(call.arguments.begin() + 2, call.arguments.end());
  const Command* const command = FindCommand(arguments[0]);
  if (command == nullptr) return call.reply.Error("ERR Invalid command specified");
  if (command->first_key == 0) return call.reply.Error("ERR The command has no key arguments");
  if (!command->TakesCount(arguments.size())) {
    return call.reply.Error("ERR Invalid number of arguments specified for command");
  }
  const std::vector<Slice> keys = command->KeysOf(arguments);
  call.reply.Array(keys.size());
  for (const Slice& key : keys) call.reply.Bulk(key);
}

void CommandCommand(Call& call) {
  if (call.count() == 1) {
    call.reply.Array(AllCommands().size());
    for (const Command* command : AllCommands()) Describe(*command, &call.reply);
  } else if (call.Is(1, "count") && call.count() == 2) {
    call.reply.Integer(static_cast<int64_t>(AllCommands().size()));
  } else if (call.Is(1, "docs")) {
    call.reply.Map(0);
  } else if (call.Is(1, "info")) {
    call.reply.Array(call.count() - 2);
    for (size_t i = 2; i < call.count(); ++i) {
      const Command* const command = FindCommand(call[i]);
      command != nullptr ? Describe(*command, &call.reply) : call.reply.NullArray();
    }
  } else if (call.Is(1, "list")) {
    ListCommands(call);
  } else if (call.Is(1, "getkeys") && call.count() > 2) {
    GetKeys(call);
  } else {
    call.reply.Error(
        fmt::format("ERR unknown subcommand '{}'. Try COMMAND HELP.", call[1].ToStringView()));
  }
}

void SlowLogCommand(Call& call) {
  SlowLog& log = call.server.slow_log;
  if (call.Is(1, "len") && call.count() == 2) {
    return call.reply.Integer(static_cast<int64_t>(log.length()));
  }
  if (call.Is(1, "reset") && call.count() == 2) {
    log.Clear();
    return call.reply.Ok();
  }
  if (!call.Is(1, "get") || call.count() > 3) {
    return call.reply.Error(
        fmt::format("ERR unknown subcommand '{}'. Try SLOWLOG HELP.", call[1].ToStringView()));
  }
  int64_t count = 10;
  if (call.count() == 3 && (!ParseInteger(call[2], &count) || count < -1)) {
    return call.reply.Error("ERR count should be greater than or equal to -1");
  }
  const std::vector<SlowLog::Entry> entries = log.Newest(count);
  call.reply.Array(entries.size());
  for (const SlowLog::Entry& entry : entries) {
    call.reply.Array(6);
    call.reply.Integer(static_cast<int64_t>(entry.number));
    call.reply.Integer(entry.at);
    call.reply.Integer(entry.micros);
    call.reply.Array(entry.arguments.size());
    for (const std::string& argument : entry.arguments) call.reply.Bulk(argument);
    call.reply.Bulk(entry.peer);
    call.reply.Bulk(entry.name);
  }
}

// What clients ask to find out whether they talk to a part of something larger.
void Role(Call& call) {
  call.reply.Array(3);
  call.reply.Bulk("master");
  call.reply.Integer(0);
  call.reply.Array(0);
}
void Cluster(Call& call) { call.reply.Error("ERR This instance has cluster support disabled"); }

// -------- Beyond Redis

// DLSM.RANGE start end [LIMIT n] [REV]: the strings with keys in [start, end), with their keys; an
// empty end is behind the last.
void RangeOfKeys(Call& call) {
  int64_t limit = -1;
  bool reverse = false;
  for (size_t i = 3; i < call.count(); ++i) {
    if (call.Is(i, "rev")) {
      reverse = true;
    } else if (call.Is(i, "limit") && i + 1 < call.count()) {
      if (!ParseInteger(call[++i], &limit)) return call.reply.Error(kNotAnInteger);
    } else {
      return call.reply.Error(kSyntaxError);
    }
  }
  const int database = call.session.database;
  const std::string end = call[2].empty() ? HeadKeyEnd(database) : HeadKey(database, call[2]);
  std::vector<std::string> found;
  if (limit != 0) {
    call.round.Scan(HeadKey(database, call[1]), end, reverse,
                    [&](const Slice& head_key, const Slice& value) {
                      const std::optional<Head> head = DecodeHead(value);
                      if (!head.has_value() || head->IsExpired(call.round.now()) ||
                          head->type != Type::kString) {
                        return true;
                      }
                      found.push_back(KeyOfHead(head_key).ToString());
                      found.push_back(head->value.ToString());
                      return limit < 0 || static_cast<int64_t>(found.size()) < 2 * limit;
                    });
  }
  call.reply.Array(found.size());
  for (const std::string& each : found) call.reply.Bulk(each);
}

// DLSM.DELRANGE start end: deletes all keys in [start, end).
void DeleteRange(Call& call) {
  const int database = call.session.database;
  const std::string end = call[2].empty() ? HeadKeyEnd(database) : HeadKey(database, call[2]);
  int64_t deleted = 0;
  DeleteKeysBetween(call, HeadKey(database, call[1]), end, &deleted);
  call.reply.Integer(deleted);
}

void Property(Call& call) {
  std::string value;
  if (!call.server.store->db().GetProperty(call[1], &value)) return call.reply.Null();
  call.reply.Verbatim(value);
}

}  // namespace

const std::vector<Command> kServerCommands = {
    {"info", Info, -1, 0, 0, 0, 0},
    {"slowlog", SlowLogCommand, -2, kAdmin, 0, 0, 0},
    {"command", CommandCommand, -1, 0, 0, 0, 0},
    {"role", Role, 1, kAdmin | kFast, 0, 0, 0},
    {"cluster", Cluster, -2, 0, 0, 0, 0},
    {"readonly", Cluster, 1, kFast, 0, 0, 0},
    {"readwrite", Cluster, 1, kFast, 0, 0, 0},
    {"dlsm.range", RangeOfKeys, -3, kReads, 0, 0, 0},
    {"dlsm.delrange", DeleteRange, 3, kWrites | kAllKeys, 0, 0, 0},
    {"dlsm.property", Property, 2, kReads, 0, 0, 0},
};

}  // namespace dlsm::serve
