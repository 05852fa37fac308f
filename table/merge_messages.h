// The request for a merge on a memory node and its reply.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/filter_policy.h"
#include "dLSM/status.h"
#include "table/merge_tables.h"
#include "table/table_meta.h"
#include "util/rpc/messages/merge_answers.h"
#include "util/rpc/messages/merge_load.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Another memory node, from which the one that merges reads inputs.
struct MergePeer {
  NodeId node{};
  BootId boot{};  // In which the tables were written: in another one the merge is void.
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const MergePeer&, const MergePeer&) = default;
};

// Of one merge.
inline constexpr uint32_t kMergePeersMax = 256;
// Into which a compute node may be asked to cut one by key range, to have them merged side by side.
// Where tables lie on more memory nodes than that, there may be as many parts as memory nodes.
inline constexpr uint64_t kMergePartsMax = 64;

struct MergeRequest {
  SessionId session{};
  // A memory node begins a merge of a number once. What it has made, or is about to make, goes when
  // the answer is told to be lost, with a later merge or a heartbeat.
  MergeNumber number;
  // In options.table, comparator and filter policy are shipped by name (and bits per key): only the
  // built-in ones can be, see CanShip().
  MergeOptions options;
  std::vector<std::vector<TableMeta>> runs;
  // Where inputs are that are not on the memory node that merges. Theirs is to stay until the
  // answer is there; the memory node that merges does not hold them.
  std::vector<MergePeer> peers;
  // About how many bytes of the tables lie in the range that is merged; for the schedule; 0: all.
  // Believed where there is a range; what is less than a part of kMergePartsMax equal ones counts
  // as one of those.
  uint64_t input_bytes = 0;
  // What options.table.filter_policy points to after Decode().
  std::shared_ptr<const FilterPolicy> filter_policy;

  // Whether a memory node can do merges with these options: it has no user-defined comparator or
  // filter policy.
  static bool CanShip(const TableOptions& options);
  // Whether neither it nor a list in it is longer than a memory node takes. Number and peers may be
  // filled in later: there is room for them.
  bool Fits() const;

  std::string Encode() const;
  Status Decode(const Slice& bytes);

 private:
  std::string EncodeWith(KeyWriter* keys) const;
};

struct MergeReply {
  std::vector<TableMeta> outputs;  // Placed, not numbered; owned by the session.
  MergeStatistics statistics;
  MergeLoad load;  // Of the memory node, now that this merge is done.

  std::string Encode() const;
  Status Decode(const Slice& bytes);
};

}  // namespace dlsm
