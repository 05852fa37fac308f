// ACL: the users, and what each of them may do.
#include <fmt/core.h>

#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/serve/acl_categories.h"
#include "db/serve/command.h"
#include "db/serve/executor.h"
#include "db/serve/keys.h"
#include "util/log.h"
#include "util/secret_proof.h"

namespace dlsm::serve {
namespace {

void WhoAmI(Call& call) { call.reply.Bulk(call.session.user->name()); }

void Users(Call& call) {
  const std::map<std::string, AclRules> all = call.server.acl.All();
  call.reply.Array(all.size());
  for (const auto& [name, rules] : all) call.reply.Bulk(name);
}

void List(Call& call) {
  const std::map<std::string, AclRules> all = call.server.acl.All();
  call.reply.Array(all.size());
  for (const auto& [name, rules] : all) {
    call.reply.Bulk(fmt::format("user {} {}", name, rules.Describe()));
  }
}

void GetUser(Call& call) {
  const std::unique_ptr<AclRules> rules = call.server.acl.Find(call[2].ToString());
  if (rules == nullptr) return call.reply.Null();
  Reply& reply = call.reply;
  reply.Map(6);
  reply.Bulk("flags");
  reply.Set(rules->any_password ? 2 : 1);
  reply.Bulk(rules->enabled ? "on" : "off");
  if (rules->any_password) reply.Bulk("nopass");
  reply.Bulk("passwords");
  reply.Array(rules->hashes.size());
  for (const std::string& hash : rules->hashes) reply.Bulk(hash);
  reply.Bulk("commands");
  reply.Bulk(rules->DescribeCommands());
  reply.Bulk("keys");
  reply.Bulk(rules->all_keys ? "~*" : "");
  reply.Bulk("channels");
  reply.Bulk(rules->all_channels ? "&*" : "");
  reply.Bulk("selectors");
  reply.Array(0);
}

void SetUser(Call& call) {
  if (!IsUserName(call[2])) {
    return call.reply.Error("ERR Usernames can't contain spaces or null characters");
  }
  const std::vector<Slice> rules(call.arguments.begin() + 3, call.arguments.end());
  const std::string wrong = call.server.acl.SetUser(call[2].ToString(), rules);
  wrong.empty() ? call.reply.Ok() : call.reply.Error(wrong);
}

void DeleteUsers(Call& call) {
  for (size_t i = 2; i < call.count(); ++i) {
    if (call[i] == Slice(kDefaultUser)) {
      return call.reply.Error("ERR The 'default' user cannot be removed");
    }
  }
  int64_t deleted = 0;
  for (size_t i = 2; i < call.count(); ++i) {
    const std::string name = call[i].ToString();
    if (!call.server.acl.Delete(name)) continue;
    CutOff(&call.server, name, &call.session);
    ++deleted;
  }
  call.reply.Integer(deleted);
}

std::string LowerCase(const Slice& text) {
  std::string lower = text.ToString();
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// ACL CAT: the categories; ACL CAT category: its commands.
void Categories(Call& call) {
  if (call.count() == 2) {
    const std::vector<std::string_view> names = CategoryNames();
    call.reply.Array(names.size());
    for (const std::string_view name : names) call.reply.Bulk(Slice(name.data(), name.size()));
    return;
  }
  const std::optional<AclCategory> category = FindCategory(LowerCase(call[2]));
  if (!category.has_value()) {
    return call.reply.Error(
        fmt::format("ERR Unknown category '{}'", call[2].ToStringView().substr(0, 128)));
  }
  std::vector<const char*> names;
  for (const Command* command : AllCommands()) {
    if (IsIn(*command, *category)) names.push_back(command->name);
  }
  call.reply.Array(names.size());
  for (const char* name : names) call.reply.Bulk(name);
}

void GeneratePassword(Call& call) {
  constexpr int64_t kBitsMost = 4096;
  constexpr int64_t kBitsOfDigit = 4;
  int64_t bits = 256;
  if (call.count() == 3 && (!ParseInteger(call[2], &bits) || bits <= 0 || bits > kBitsMost)) {
    return call.reply.Error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
        "number up to 4096");
  }
  const auto digits = static_cast<size_t>((bits + kBitsOfDigit - 1) / kBitsOfDigit);
  std::string random;
  const Status made = RandomBytes((digits + 1) / 2, &random);
  if (!made.ok()) return call.round.Report(made);
  std::string password;
  for (const char byte : random) password += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  call.reply.Bulk(Slice(password.data(), digits));
}

// Returns false if an error has been answered.
bool CheckFile(Call& call) {
  if (call.server.acl.has_file()) return true;
  call.reply.Error(
      "ERR This Redis instance is not configured to use an ACL file. You may want to specify users "
      "via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis "
      "configuration file set) in order to store users in the Redis configuration.");
  return false;
}

void Load(Call& call) {
  if (!CheckFile(call)) return;
  std::vector<std::string> cut_off;
  const Status loaded = call.server.acl.Load(&cut_off);
  if (!loaded.ok()) {
    return call.reply.Error(
        fmt::format("ERR {}. WARNING: ACL errors detected, no change to the previously active ACL "
                    "rules was performed",
                    loaded.message().ToStringView()));
  }
  for (const std::string& user : cut_off) CutOff(&call.server, user, &call.session);
  call.reply.Ok();
}

void Save(Call& call) {
  if (!CheckFile(call)) return;
  const Status saved = call.server.acl.Save();
  if (saved.ok()) return call.reply.Ok();
  Log().Error("the ACL file could not be written: {}", saved.ToString());
  call.reply.Error(
      "ERR There was an error trying to save the ACLs. Please check the server logs for more "
      "information");
}

void DryRun(Call& call) {
  const Acl::User user = call.server.acl.PermissionsOf(call[2].ToString());
  if (user == nullptr) {
    return call.reply.Error(fmt::format("ERR User '{}' not found", call[2].ToStringView()));
  }
  const Command* const command = FindCommand(call[3]);
  if (command == nullptr) {
    return call.reply.Error(fmt::format("ERR Command '{}' not found", call[3].ToStringView()));
  }
  const std::vector<Slice> arguments(call.arguments.begin() + 3, call.arguments.end());
  if (!command->TakesCount(arguments.size())) return call.reply.Error(WrongNumber(command->name));
  switch (PermissionFor(*user, *command)) {
    case Permission::kGranted:
      return call.reply.Ok();
    case Permission::kNotThisCommand:
      return call.reply.Bulk(
          fmt::format("This user has no permissions to run the '{}' command", command->name));
    case Permission::kNoKeys: {
      const std::vector<Slice> keys = command->KeysOf(arguments);
      return call.reply.Bulk(fmt::format("This user has no permissions to access the '{}' key",
                                         keys.empty() ? "" : keys[0].ToStringView()));
    }
  }
}

void Help(Call& call) {
  static const std::vector<const char*> kLines = {
      "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CAT [<category>]",
      "    The categories of commands, or the commands of one.",
      "DELUSER <username> [<username> ...]",
      "    Deletes users and closes their connections.",
      "DRYRUN <username> <command> [<arg> ...]",
      "    Whether the user may run the command, which is not run.",
      "GENPASS [<bits>]",
      "    A random password, of 256 bits if no other number is given.",
      "GETUSER <username>",
      "    The rules of a user.",
      "LIST",
      "    All users with their rules, as the ACL file has them.",
      "LOAD",
      "    Takes the users from the ACL file.",
      "SAVE",
      "    Writes the users to the ACL file.",
      "SETUSER <username> <rule> [<rule> ...]",
      "    Makes or changes a user.",
      "USERS",
      "    The names of all users.",
      "WHOAMI",
      "    The user of this connection.",
      "HELP",
      "    This text."};
  call.reply.Array(kLines.size());
  for (const char* line : kLines) call.reply.Simple(line);
}

void AclCommand(Call& call) {
  constexpr size_t kAny = Subcommand::kAny;
  static const std::vector<Subcommand> kSubcommands = {
      {"whoami", WhoAmI, 2, 2},      {"users", Users, 2, 2},
      {"list", List, 2, 2},          {"getuser", GetUser, 3, 3},
      {"setuser", SetUser, 3, kAny}, {"deluser", DeleteUsers, 3, kAny},
      {"cat", Categories, 2, 3},     {"genpass", GeneratePassword, 2, 3},
      {"load", Load, 2, 2},          {"save", Save, 2, 2},
      {"dryrun", DryRun, 4, kAny},   {"help", Help, 2, 2},
  };
  RunSubcommand(call, kSubcommands);
}

}  // namespace

// Requests behind it in a pipeline are judged by what the users may do then.
const std::vector<Command> kAclCommands = {
    {"acl", AclCommand, -2, kAdmin | kChangesSession | kHasSecrets, 0, 0, 0},
};

}  // namespace dlsm::serve
