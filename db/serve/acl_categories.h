// Categories of commands, as rules of users name them: "+@read", "-@dangerous".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dlsm::serve {

struct Command;

// Bits of Command::categories.
enum class AclCategory : uint32_t {
  kNone = 0,
  kKeyspace = 1 << 0,
  kRead = 1 << 1,
  kWrite = 1 << 2,
  kSet = 1 << 3,
  kSortedSet = 1 << 4,
  kList = 1 << 5,
  kHash = 1 << 6,
  kString = 1 << 7,
  kAdmin = 1 << 8,
  kFast = 1 << 9,
  kSlow = 1 << 10,
  kDangerous = 1 << 11,
  kConnection = 1 << 12,
  kTransaction = 1 << 13,
  // Of commands that are not served: rules may name them.
  kOfOthers = 1 << 14,
};

// The names of all, as ACL CAT lists them.
std::vector<std::string_view> CategoryNames();
// The category with this name in lower case; none if there is no such category. "all" is not one.
std::optional<AclCategory> FindCategory(std::string_view name);

// Returns whether the command belongs to the category.
bool IsIn(const Command& command, AclCategory category);
// The bits of a command that belongs to a table of category `of_table`.
uint32_t CategoriesOf(const Command& command, AclCategory of_table);

}  // namespace dlsm::serve
