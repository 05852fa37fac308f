// What a memory node reckons with when it is asked for a merge. How large tables on other memory
// nodes are, and how much of the tables is merged, it has from its client alone, and other clients
// choose by the sum where their merges run: so nobody counts for less, or more, than what he names
// may be.
#pragma once

#include <cstdint>

#include "table/merge_messages.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// Of the tables that are merged. Those at `node`, whose memory has `capacity_bytes`, are held by
// the request's session, each once. All others count for no more than that memory: their merge is
// to find room in it.
uint64_t TableBytes(const MergeRequest& request, NodeId node, uint64_t capacity_bytes);

// How much of these `table_bytes` is merged, for the schedule, and for the load that other clients
// are told. Where there is a range its client is believed, but for less than one of kMergePartsMax
// equal parts. An honest part may be smaller, because parts begin where tables of the target do, or
// because there are more of them; it counts for that much then, which is little more.
uint64_t InputBytes(const MergeRequest& request, uint64_t table_bytes);

// What a merge takes beside the memory node's memory while it waits and runs: its request, and what
// is copied of its tables before they are merged. What would be more than can be counted is the
// most.
uint64_t BytesBeside(const MergeRequest& request);

}  // namespace dlsm
