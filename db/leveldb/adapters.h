// Objects that a program gives a database, behind the interface that the database calls. Adapters
// are destroyed after the database. The program's own objects outlive it; built-in ones may go
// earlier, because an adapter has its own, or a share.
#pragma once

#include <memory>

#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/filter_policy.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/filter_policy.h"

namespace dlsm::compat {

// Null for the built-in comparator, whose counterpart is dlsm::BytewiseComparator().
std::unique_ptr<const dlsm::Comparator> AdaptComparator(const leveldb::Comparator& comparator);

// Bits for each key of a built-in policy; 0 for one of the program's own.
int BitsOfBuiltIn(const leveldb::FilterPolicy& policy);

// The name of the policy that AnyFilter() makes.
inline constexpr const char* kAnyFilterName = "leveldb.AnyFilter";
// LevelDB opens a database with any policy, or none, whatever it was made with: filters of another
// policy than the present one are of no use, and no error. So each filter begins with the name of
// the policy that made it. Without a policy (null) new filters are empty, and match everything.
std::unique_ptr<const dlsm::FilterPolicy> AnyFilter(const leveldb::FilterPolicy* policy);

// The cache that is behind a built-in one, to which `cache` stays the owner; or an adapter, which
// *adapter gets.
dlsm::Cache* AdaptCache(leveldb::Cache* cache, std::unique_ptr<dlsm::Cache>* adapter);

}  // namespace dlsm::compat
