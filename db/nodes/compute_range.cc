#include "db/nodes/compute_range.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "db/nodes/shard_map.h"
#include "util/cluster_config.h"
#include "util/rpc/messages/database_name.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kBoundariesMax = 4096;

Status ComputeNodesOf(const Options& options, std::vector<std::string>* addresses) {
  addresses->clear();
  if (options.config.empty()) return Status::OK();
  ClusterConfig config;
  DLSM_RETURN_IF_ERROR(ReadClusterConfig(options.config, &config));
  for (const HostPort& node : config.compute_nodes) addresses->push_back(node.ToString());
  return Status::OK();
}

std::string Shown(const std::vector<std::string>& boundaries) {
  if (boundaries.empty()) return "none";
  std::string shown;
  for (const std::string& boundary : boundaries) {
    shown += fmt::format("{}\"{}\"", shown.empty() ? "" : ", ", ShownKey(boundary));
  }
  return shown;
}

}  // namespace

std::string NameAtMemoryNodes(const Options& options, const std::string& database) {
  if (options.compute_boundaries.empty()) return database;
  return PartName(database, DatabasePart::kRange, options.compute_node_id);
}

Status CheckComputeBoundaries(const Options& options) {
  const std::vector<std::string>& boundaries = options.compute_boundaries;
  if (boundaries.empty()) return Status::OK();
  if (boundaries.size() > kBoundariesMax) {
    return Status::InvalidArgument("Options::compute_boundaries are too many",
                                   fmt::format("use {} at most", kBoundariesMax));
  }
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (options.comparator->Compare(boundaries[i - 1], boundaries[i]) < 0) continue;
    return Status::InvalidArgument(
        fmt::format("Options::compute_boundaries: \"{}\" does not come after \"{}\"",
                    ShownKey(boundaries[i]), ShownKey(boundaries[i - 1])),
        "give them in the order of keys, each once");
  }
  if (options.compute_node_id > boundaries.size()) {
    return Status::InvalidArgument(
        fmt::format("Options::compute_node_id {} has no range", options.compute_node_id),
        fmt::format("{} boundaries divide a database among compute nodes 0 to {}",
                    boundaries.size(), boundaries.size()));
  }
  std::vector<std::string> addresses;
  DLSM_RETURN_IF_ERROR(ComputeNodesOf(options, &addresses));
  if (!addresses.empty() && addresses.size() != boundaries.size() + 1) {
    return Status::InvalidArgument(
        fmt::format("Options::compute_boundaries divide the database among {} compute nodes, and "
                    "{} names {}",
                    boundaries.size() + 1, options.config, addresses.size()),
        "give one boundary less than there are compute nodes");
  }
  return Status::OK();
}

Status CheckSameBoundaries(const std::vector<std::string>& stored,
                           const std::vector<std::string>& wanted) {
  if (stored == wanted) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("the database was divided among compute nodes at {}, and "
                  "Options::compute_boundaries are {}",
                  Shown(stored), Shown(wanted)),
      "open it with its own");
}

ComputeRange::ComputeRange(const Options& options)
    : comparator_(options.comparator),
      boundaries_(options.compute_boundaries),
      compute_node_(options.compute_node_id),
      divided_(!boundaries_.empty()) {
  // Without addresses messages say less.
  if (divided_ && !ComputeNodesOf(options, &addresses_).ok()) addresses_.clear();
}

Status ComputeRange::CheckDivided(const Slice& key) const {
  const bool above =
      compute_node_ == 0 || comparator_->Compare(boundaries_[compute_node_ - 1], key) <= 0;
  const bool below = compute_node_ == boundaries_.size() ||
                     comparator_->Compare(key, boundaries_[compute_node_]) < 0;
  if (above && below) return Status::OK();
  const auto next = std::upper_bound(
      boundaries_.begin(), boundaries_.end(), key,
      [this](const Slice& a, const std::string& b) { return comparator_->Compare(a, b) < 0; });
  const auto owner = static_cast<size_t>(next - boundaries_.begin());
  return Status::InvalidArgument(
      fmt::format("key \"{}\" belongs to compute node {}{}, and this is compute node {}; ask there",
                  ShownKey(key), owner,
                  owner < addresses_.size() ? " (" + addresses_[owner] + ")" : "", compute_node_));
}

Status ComputeRange::CheckDividedRange(const Slice& begin, const Slice& end) const {
  DLSM_RETURN_IF_ERROR(CheckDivided(begin));
  const bool ends_here = compute_node_ == boundaries_.size() ||
                         comparator_->Compare(end, boundaries_[compute_node_]) <= 0;
  return ends_here ? Status::OK() : CheckDivided(end);
}

void ComputeRange::ExplainDivided(std::span<const Slice> keys, Status* statuses) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!statuses[i].IsNotFound()) continue;
    Status mine = CheckDivided(keys[i]);
    if (!mine.ok()) statuses[i] = std::move(mine);
  }
}

}  // namespace dlsm
