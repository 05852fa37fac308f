#include "db/serve/acl_categories.h"

#include <array>
#include <utility>

#include "db/serve/command.h"

namespace dlsm::serve {
namespace {

constexpr std::array<std::pair<std::string_view, AclCategory>, 21> kNames = {{
    {"keyspace", AclCategory::kKeyspace},
    {"read", AclCategory::kRead},
    {"write", AclCategory::kWrite},
    {"set", AclCategory::kSet},
    {"sortedset", AclCategory::kSortedSet},
    {"list", AclCategory::kList},
    {"hash", AclCategory::kHash},
    {"string", AclCategory::kString},
    {"admin", AclCategory::kAdmin},
    {"fast", AclCategory::kFast},
    {"slow", AclCategory::kSlow},
    {"dangerous", AclCategory::kDangerous},
    {"connection", AclCategory::kConnection},
    {"transaction", AclCategory::kTransaction},
    {"bitmap", AclCategory::kOfOthers},
    {"hyperloglog", AclCategory::kOfOthers},
    {"geo", AclCategory::kOfOthers},
    {"stream", AclCategory::kOfOthers},
    {"pubsub", AclCategory::kOfOthers},
    {"blocking", AclCategory::kOfOthers},
    {"scripting", AclCategory::kOfOthers},
}};

// Commands that go through all keys, or tell much of the server.
constexpr std::array<std::string_view, 5> kDangerousNames = {"keys", "flushdb", "flushall", "info",
                                                             "dlsm.delrange"};

}  // namespace

std::vector<std::string_view> CategoryNames() {
  std::vector<std::string_view> names;
  names.reserve(kNames.size());
  for (const auto& [name, category] : kNames) names.push_back(name);
  return names;
}

std::optional<AclCategory> FindCategory(std::string_view name) {
  for (const auto& [known, category] : kNames) {
    if (known == name) return category;
  }
  return std::nullopt;
}

bool IsIn(const Command& command, AclCategory category) {
  return (command.categories & static_cast<uint32_t>(category)) != 0;
}

uint32_t CategoriesOf(const Command& command, AclCategory of_table) {
  uint32_t bits = 0;
  const auto add = [&bits](AclCategory category) { bits |= static_cast<uint32_t>(category); };
  const std::string_view name = command.name;
  add(name == "select" ? AclCategory::kConnection : of_table);
  if ((command.flags & kReads) != 0) add(AclCategory::kRead);
  if ((command.flags & kWrites) != 0) add(AclCategory::kWrite);
  add((command.flags & kFast) != 0 ? AclCategory::kFast : AclCategory::kSlow);
  if ((command.flags & kAdmin) != 0) {
    add(AclCategory::kAdmin);
    add(AclCategory::kDangerous);
  }
  for (const std::string_view dangerous : kDangerousNames) {
    if (name == dangerous) add(AclCategory::kDangerous);
  }
  return bits;
}

}  // namespace dlsm::serve
