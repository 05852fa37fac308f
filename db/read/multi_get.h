// Point lookups of many keys at once: the fetches of all of them overlap, and so do the cache
// misses on the way to them.
#pragma once

#include <optional>
#include <span>

#include "db/read/table_lookup.h"

namespace dlsm {

// Answers the requests, of which none is empty, whatever shards they are of. The fetches are made
// in rounds: one for the first candidate tables of all requests, one for the next candidates of
// those that met a false positive, and so on. A memory node that fails fails its own requests.
void RunMultiGet(std::span<std::optional<LookupRequest>> requests, const TableReadOptions& options);

}  // namespace dlsm
