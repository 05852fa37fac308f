#include "db/handle/table_nodes.h"

#include <algorithm>

#include "util/status_macros.h"

namespace dlsm {
namespace {

bool Contains(const std::vector<std::string>& nodes, const std::string& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

Status FitScatterWidth(Options* options) {
  if (options->scatter_width == 1) return Status::OK();
  std::vector<std::string> named;
  DLSM_RETURN_IF_ERROR(MemoryNodesOf(*options, &named));
  options->scatter_width = std::min(options->scatter_width, static_cast<int>(named.size()));
  return Status::OK();
}

Status OtherTableNodes(const Options& options, const std::vector<std::string>& named,
                       const std::string& home, const Slice& manifest,
                       std::vector<std::string>* others) {
  others->clear();
  const auto add = [&](const std::string& node) {
    if (node != home && !Contains(*others, node)) others->push_back(node);
  };
  if (!manifest.empty()) {
    Manifest header;
    DLSM_RETURN_IF_ERROR(ManifestCodec::DecodeHeader(manifest, &header));
    for (const TableNode& node : header.table_nodes) {
      if (node.address != home && !Contains(named, node.address)) {
        return Status::InvalidArgument("tables of the database may be on memory node " +
                                           node.address + ", which the options do not name",
                                       "name all memory nodes that it was last opened with");
      }
      add(node.address);
    }
  }
  if (options.placement == TablePlacement::kByShard) return Status::OK();
  for (const std::string& node : named) add(node);
  return Status::OK();
}

Status CheckDistinct(const std::vector<const MemoryNodeLink*>& links) {
  for (const MemoryNodeLink* const link : links) {
    for (const MemoryNodeLink* const other : links) {
      if (link == other) break;
      if (link->peer().node != other->peer().node) continue;
      return Status::InvalidArgument(
          "memory nodes " + other->name() + " and " + link->name() + " both have the number " +
              std::to_string(static_cast<uint32_t>(link->peer().node)),
          "start each Server with a NODEID of its own, and name each only once, to place tables "
          "on several of them");
    }
  }
  return Status::OK();
}

}  // namespace dlsm
