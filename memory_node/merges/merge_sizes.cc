#include "memory_node/merges/merge_sizes.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace dlsm {

uint64_t TableBytes(const MergeRequest& request, NodeId node, uint64_t capacity_bytes) {
  uint64_t here = 0;
  uint64_t elsewhere = 0;
  for (const std::vector<TableMeta>& run : request.runs) {
    for (const TableMeta& table : run) {
      const uint64_t bytes = table.image.bytes;
      if (table.image.node == node) {
        here += bytes;
      } else {
        elsewhere += std::min(bytes, capacity_bytes - elsewhere);
      }
    }
  }
  return here + elsewhere;
}

uint64_t InputBytes(const MergeRequest& request, uint64_t table_bytes) {
  const bool whole = !request.options.has_begin && !request.options.has_end;
  if (whole || request.input_bytes == 0) return table_bytes;
  return std::clamp(request.input_bytes, table_bytes / kMergePartsMax, table_bytes);
}

uint64_t BytesBeside(const MergeRequest& request) {
  uint64_t bytes = 0;
  const auto add = [&bytes](uint64_t more) {
    bytes += std::min(more, std::numeric_limits<uint64_t>::max() - bytes);
  };
  const auto add_string = [&add](const std::string& each) {
    add(sizeof(std::string) + each.size());
  };
  const MergeOptions& options = request.options;
  add(options.snapshots.size() * sizeof(SequenceNumber));
  for (const KeyRange& range : options.older) {
    add_string(range.smallest);
    add_string(range.largest);
  }
  add_string(options.begin);
  add_string(options.end);
  for (const std::string& key : options.cut_points) add_string(key);
  for (const std::string& key : options.cut_candidates) add_string(key);
  for (const std::vector<TableMeta>& run : request.runs) {
    add(sizeof(std::vector<TableMeta>));
    for (const TableMeta& table : run) {
      add(sizeof(table) + table.smallest.size() + table.largest.size());
      add(table.index_bytes);
      add(table.filter_bytes);
    }
  }
  for (const MergePeer& peer : request.peers) add(sizeof(peer) + peer.host.size());
  return bytes;
}

}  // namespace dlsm
