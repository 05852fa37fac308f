// What a user may do, as rules say it: "on >secret ~* +@read".
//
// The rules are Redis', with two limits: a user may use all keys (~*) or none, and commands are
// allowed as a whole, without regard to their subcommands.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/command_numbers.h"

namespace dlsm::serve {

// By Command::number.
using CommandSet = std::bitset<kCommandNumbers>;

// A value. Nothing is allowed at the beginning, and nobody can be such a user.
struct AclRules {
  bool enabled = false;
  bool any_password = false;
  std::vector<std::string> hashes;  // Of passwords, as hexadecimal numbers.
  bool all_keys = false;
  bool all_channels = false;
  CommandSet allowed;

  bool operator==(const AclRules&) const = default;

  // Applies one rule. Returns what is wrong with it, in Redis' words where Redis has some, or "".
  std::string Apply(const Slice& rule);

  // Whether the password is one of the user's. Takes a time that does not depend on which.
  bool Accepts(const Slice& password) const;

  // All rules, as files and ACL LIST have them; and those of commands alone.
  std::string Describe() const;
  std::string DescribeCommands() const;

  // Rules of commands since the last one for all, which is the first of them.
  std::vector<std::string> command_rules = {"-@all"};

 private:
  std::string ApplyPassword(const Slice& rule);
  std::string ApplyToCommands(const Slice& rule);
  void AllowAll(bool allow);
};

// SHA-256 as a hexadecimal number.
std::string PasswordHash(const Slice& password);

}  // namespace dlsm::serve
