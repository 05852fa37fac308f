#include "benchmarks/own_keys_flags.h"

#include <gflags/gflags.h>

#include "benchmarks/flag_checks.h"
#include "benchmarks/key_generator.h"
#include "util/cluster_config.h"

// Of bench_flags.cc and engine_flags.cc.
DECLARE_uint64(num);
DECLARE_uint64(key_size);
DECLARE_string(config);
DECLARE_uint32(compute_node_id);

DEFINE_string(
    compute_boundaries, "",
    "dlsm: auto: one database for all compute nodes of --config, which own equal parts of "
    "the keys; each writes and reads its own. Empty: a database each");

namespace dlsm::bench {

// Parts begin at multiples of ten: with all keys that FormatAbsent() makes of theirs.
Status OwnKeysFromFlags(OwnKeys* own) {
  own->count = FLAGS_num;
  if (FLAGS_compute_boundaries.empty()) return Status::OK();
  if (FLAGS_compute_boundaries != "auto") {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries, "auto, or nothing");
  }
  if (FLAGS_config.empty()) {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries,
                 "only with --config, which names the compute nodes");
  }
  ClusterConfig config;
  const Status read = ReadClusterConfig(FLAGS_config, &config);
  if (!read.ok()) return read;
  const uint64_t nodes = config.compute_nodes.size();
  const auto first_of = [nodes](uint64_t node) { return FLAGS_num * node / nodes / 10 * 10; };
  if (FLAGS_compute_node_id >= nodes || FLAGS_num < 20 * nodes) {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries,
                 "for a --compute_node_id of --config, and 20 keys for each compute node");
  }
  own->first = first_of(FLAGS_compute_node_id);
  const bool last = FLAGS_compute_node_id + 1 == nodes;
  own->count = (last ? FLAGS_num : first_of(FLAGS_compute_node_id + 1)) - own->first;
  KeyFormatter keys(static_cast<size_t>(FLAGS_key_size));
  for (uint64_t i = 1; i < nodes; ++i) {
    own->boundaries.push_back(keys.FormatAbsent(first_of(i)).ToString());
  }
  return Status::OK();
}

}  // namespace dlsm::bench
