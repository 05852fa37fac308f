// What databases are called at memory nodes.
//
//   orders                        as users call it: without any #
//   orders#range-2                what compute node 2 has of it, where several share it
//   orders#shard-1                a shard, but the first, which has the database's own name
//   orders#tables-of-shard-1      a shard's tables where another memory node is its home
//   orders#range-2#shard-1        a part of a part
//
// Each is a database of its own there, and counts as its user's where rights and quotas are asked
// for. Only names of these forms do: another # makes nobody the owner of what comes before it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlsm {

inline constexpr char kPartMark = '#';

enum class DatabasePart { kRange, kShard, kShardTables };

std::string PartName(std::string_view database, DatabasePart part, uint64_t number);
// Whether `name` ends like those that PartName() makes.
bool IsPartName(std::string_view name, DatabasePart part);

// What users call the database that `name` is, or that it is a part of.
std::string_view NameOfUsers(std::string_view name);

}  // namespace dlsm
