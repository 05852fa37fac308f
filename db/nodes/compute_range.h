// The key range of a database that this compute node owns, where several share one.
//
//   compute node 0      compute node 1      compute node 2
//   [first, b0)         [b0, b1)            [b1, last]       Options::compute_boundaries: b0 < b1
//
// Each range is a database of its own to the memory nodes (util/rpc/messages/database_name.h): with
// shards, manifest and ownership of its own. So each has one writer, and one range is taken over
// without the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// The name under which memory nodes know what these options open: `database` itself if it is not
// divided among compute nodes.
std::string NameAtMemoryNodes(const Options& options, const std::string& database);

// Options::compute_boundaries by themselves, and compared with the compute nodes of the config.
Status CheckComputeBoundaries(const Options& options);
// Another database than the options say: names both sets.
Status CheckSameBoundaries(const std::vector<std::string>& stored,
                           const std::vector<std::string>& wanted);

// Immutable.
class ComputeRange {
 public:
  // `options` have passed CheckComputeBoundaries().
  explicit ComputeRange(const Options& options);

  // InvalidArgument naming the compute node that owns the key, if it is not this one.
  Status Check(const Slice& key) const {
    if (!divided_) [[likely]]
      return Status::OK();
    return CheckDivided(key);
  }
  // The same of all keys in [begin, end).
  Status CheckRange(const Slice& begin, const Slice& end) const {
    if (!divided_) [[likely]]
      return Status::OK();
    return CheckDividedRange(begin, end);
  }
  // After a MultiGet: statuses[i] is of keys[i]. Keys of other compute nodes were not found, for
  // nobody can have written them here; whose they are is said instead.
  void ExplainMissing(std::span<const Slice> keys, Status* statuses) const {
    if (divided_) [[unlikely]]
      ExplainDivided(keys, statuses);
  }

 private:
  Status CheckDivided(const Slice& key) const;
  Status CheckDividedRange(const Slice& begin, const Slice& end) const;
  void ExplainDivided(std::span<const Slice> keys, Status* statuses) const;

  const Comparator* const comparator_;
  const std::vector<std::string> boundaries_;
  const uint32_t compute_node_;
  const bool divided_;                  // False: every key is this compute node's.
  std::vector<std::string> addresses_;  // Of compute nodes; empty if no config names them.
};

}  // namespace dlsm
