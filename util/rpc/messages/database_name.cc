#include "util/rpc/messages/database_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace dlsm {
namespace {

constexpr std::array<DatabasePart, 3> kParts = {DatabasePart::kRange, DatabasePart::kShard,
                                                DatabasePart::kShardTables};

// Each begins with kPartMark, and has no other.
std::string_view EndingOf(DatabasePart part) {
  switch (part) {
    case DatabasePart::kRange:
      return "#range-";
    case DatabasePart::kShard:
      return "#shard-";
    case DatabasePart::kShardTables:
      return "#tables-of-shard-";
  }
  return {};
}

}  // namespace

std::string PartName(std::string_view database, DatabasePart part, uint64_t number) {
  return fmt::format("{}{}{}", database, EndingOf(part), number);
}

bool IsPartName(std::string_view name, DatabasePart part) {
  const size_t mark = name.rfind(kPartMark);
  if (mark == std::string_view::npos) return false;
  std::string_view number = name.substr(mark);
  if (!number.starts_with(EndingOf(part))) return false;
  number.remove_prefix(EndingOf(part).size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view NameOfUsers(std::string_view name) {
  const auto is_part = [&name](DatabasePart part) { return IsPartName(name, part); };
  while (std::any_of(kParts.begin(), kParts.end(), is_part)) {
    name = name.substr(0, name.rfind(kPartMark));
  }
  return name;
}

}  // namespace dlsm
