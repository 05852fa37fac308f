#include "db/serve/acl_rules.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "db/serve/acl_categories.h"
#include "db/serve/command.h"

namespace dlsm::serve {
namespace {

constexpr size_t kHashCharacters = size_t{2} * SHA256_DIGEST_LENGTH;
constexpr const char* kUnknownCommand = "Unknown command or category name in ACL";
constexpr const char* kSyntax = "Syntax error";

std::string LowerCase(const Slice& text) {
  std::string lower = text.ToString();
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsHash(const std::string& text) {
  return text.size() == kHashCharacters && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string PasswordHash(const Slice& password) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(password.data()), password.size(), digest.data());
  std::string text;
  text.reserve(kHashCharacters);
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

bool AclRules::Accepts(const Slice& password) const {
  const std::string hash = PasswordHash(password);
  bool found = any_password;
  for (const std::string& known : hashes) {
    found |= CRYPTO_memcmp(known.data(), hash.data(), kHashCharacters) == 0;
  }
  return found;
}

std::string AclRules::Apply(const Slice& rule) {
  const std::string word = LowerCase(rule);
  if (word.empty()) return kSyntax;
  if (word == "on" || word == "off") {
    enabled = word == "on";
  } else if (word == "nopass" || word == "resetpass") {
    any_password = word == "nopass";
    hashes.clear();
  } else if (word == "allkeys" || word == "~*") {
    all_keys = true;
  } else if (word == "resetkeys") {
    all_keys = false;
  } else if (word == "allchannels" || word == "&*") {
    all_channels = true;
  } else if (word == "resetchannels") {
    all_channels = false;
  } else if (word == "allcommands" || word == "+@all") {
    AllowAll(true);
  } else if (word == "nocommands" || word == "-@all") {
    AllowAll(false);
  } else if (word == "reset") {
    *this = AclRules();
  } else if (word == "sanitize-payload" || word == "skip-sanitize-payload" ||
             word == "clearselectors") {
    // There are no payloads and no selectors.
  } else if (word[0] == '>' || word[0] == '<' || word[0] == '#' || word[0] == '!') {
    return ApplyPassword(rule);
  } else if (word[0] == '+' || word[0] == '-') {
    return ApplyToCommands(word);
  } else if (word[0] == '~' || word[0] == '%') {
    return "Patterns of keys are not supported: a user has all keys (~*) or none (resetkeys)";
  } else if (word[0] == '&') {
    return "Patterns of channels are not supported: use allchannels or resetchannels";
  } else if (word[0] == '(') {
    return "Selectors are not supported";
  } else {
    return kSyntax;
  }
  return "";
}

std::string AclRules::ApplyPassword(const Slice& rule) {
  const Slice rest(rule.data() + 1, rule.size() - 1);
  const bool is_plain = rule[0] == '>' || rule[0] == '<';
  const std::string hash = is_plain ? PasswordHash(rest) : rest.ToString();
  if (!IsHash(hash)) {
    return "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
           "characters";
  }
  const auto found = std::ranges::find(hashes, hash);
  if (rule[0] == '>' || rule[0] == '#') {
    if (found == hashes.end()) hashes.push_back(hash);
    any_password = false;
  } else if (found == hashes.end()) {
    return "The password you are trying to remove from the user does not exist";
  } else {
    hashes.erase(found);
  }
  return "";
}

void AclRules::AllowAll(bool allow) {
  allow ? allowed.set() : allowed.reset();
  command_rules = {allow ? "+@all" : "-@all"};
}

// `rule` is in lower case: "+get", "-@write".
std::string AclRules::ApplyToCommands(const Slice& rule) {
  const bool allow = rule[0] == '+';
  const Slice name(rule.data() + 1, rule.size() - 1);
  if (name.ToStringView().find('|') != std::string_view::npos) {
    return "Rules of subcommands are not supported: allow or forbid the command as a whole";
  }
  if (name.starts_with("@")) {
    const std::optional<AclCategory> category = FindCategory(name.ToStringView().substr(1));
    if (!category.has_value()) return kUnknownCommand;
    for (const Command* command : AllCommands()) {
      if (IsIn(*command, *category)) allowed.set(command->number, allow);
    }
  } else {
    const Command* const command = FindCommand(name);
    if (command == nullptr) return kUnknownCommand;
    allowed.set(command->number, allow);
  }
  std::erase_if(command_rules, [&name](const std::string& earlier) {
    return name == Slice(earlier.data() + 1, earlier.size() - 1);
  });
  command_rules.push_back(rule.ToString());
  return "";
}

std::string AclRules::DescribeCommands() const {
  std::string text;
  for (const std::string& rule : command_rules) text += (text.empty() ? "" : " ") + rule;
  return text;
}

std::string AclRules::Describe() const {
  std::string text = enabled ? "on" : "off";
  if (any_password) text += " nopass";
  for (const std::string& hash : hashes) text += " #" + hash;
  if (all_keys) text += " ~*";
  text += all_channels ? " &*" : " resetchannels";
  return text + " " + DescribeCommands();
}

}  // namespace dlsm::serve
