#include "db/serve/command.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <unordered_map>

#include "db/serve/acl_categories.h"
#include "db/serve/command_numbers.h"

namespace dlsm::serve {
namespace {

std::string LowerCase(const Slice& text) {
  std::string lower = text.ToString();
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

struct CommandTable {
  const std::vector<Command>* commands;
  AclCategory category;
};
std::vector<CommandTable> CommandTables() {
  return {{&kStringCommands, AclCategory::kString},
          {&kKeyCommands, AclCategory::kKeyspace},
          {&kHashCommands, AclCategory::kHash},
          {&kSetCommands, AclCategory::kSet},
          {&kSortedSetCommands, AclCategory::kSortedSet},
          {&kListCommands, AclCategory::kList},
          {&kConnectionCommands, AclCategory::kConnection},
          {&kTransactionCommands, AclCategory::kTransaction},
          {&kServerCommands, AclCategory::kNone},
          {&kWaitCommands, AclCategory::kConnection},
          {&kSaveCommands, AclCategory::kNone},
          {&kAclCommands, AclCategory::kNone},
          {&kLatencyCommands, AclCategory::kNone},
          {&kConfigCommands, AclCategory::kNone},
          {&kClientCommands, AclCategory::kConnection}};
}

}  // namespace

bool Call::Is(size_t i, std::string_view word) const {
  return arguments[i].size() == word.size() &&
         strncasecmp(arguments[i].data(), word.data(), word.size()) == 0;
}

std::vector<Slice> Command::KeysOf(const std::vector<Slice>& arguments) const {
  std::vector<Slice> keys;
  ForEachKey(arguments, [&keys](const Slice& key) { keys.push_back(key); });
  return keys;
}

const std::vector<const Command*>& AllCommands() {
  static const std::vector<Command> numbered = [] {
    std::vector<Command> commands;
    for (const CommandTable& table : CommandTables()) {
      for (Command command : *table.commands) {
        command.number = commands.size();
        command.categories = CategoriesOf(command, table.category);
        commands.push_back(command);
      }
    }
    assert(commands.size() <= kCommandNumbers);
    return commands;
  }();
  static const std::vector<const Command*> all = [] {
    std::vector<const Command*> commands;
    commands.reserve(numbered.size());
    for (const Command& command : numbered) commands.push_back(&command);
    return commands;
  }();
  return all;
}

const Command* FindCommand(const Slice& name) {
  static const std::unordered_map<std::string, const Command*> by_name = [] {
    std::unordered_map<std::string, const Command*> map;
    for (const Command* command : AllCommands()) map.emplace(command->name, command);
    return map;
  }();
  constexpr size_t kNameBytesMax = 32;
  if (name.size() > kNameBytesMax) return nullptr;
  const auto found = by_name.find(LowerCase(name));
  return found == by_name.end() ? nullptr : found->second;
}

void RunSubcommand(Call& call, const std::vector<Subcommand>& subcommands) {
  for (const Subcommand& subcommand : subcommands) {
    if (!call.Is(1, subcommand.name)) continue;
    if (call.count() < subcommand.count_min || call.count() > subcommand.count_max) {
      return call.reply.Error(
          WrongNumber(fmt::format("{}|{}", call.command.name, subcommand.name)));
    }
    return subcommand.run(call);
  }
  std::string name = call.command.name;
  for (char& each : name) each = static_cast<char>(std::toupper(each));
  call.reply.Error(
      fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", call[1].ToStringView(), name));
}

std::string UnknownCommand(const std::vector<Slice>& arguments) {
  constexpr size_t kShownBytes = 128;
  std::string shown;
  for (size_t i = 1; i < arguments.size() && shown.size() < kShownBytes; ++i) {
    shown +=
        fmt::format("'{}' ", arguments[i].ToStringView().substr(0, kShownBytes - shown.size()));
  }
  return fmt::format("ERR unknown command '{}', with args beginning with: {}",
                     arguments[0].ToStringView().substr(0, kShownBytes), shown);
}

std::string WrongNumber(const std::string& name) {
  return fmt::format("ERR wrong number of arguments for '{}' command", name);
}

}  // namespace dlsm::serve
