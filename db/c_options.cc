// Options of the C interface.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "db/c_handles.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::DeleteHandle;
using dlsm::c::Keeping;
using dlsm::c::NewHandle;

namespace {

// What the enum does not know must stay something that it does not know: Open() refuses it.
template <typename Enum>
Enum ToEnum(int value) {
  constexpr int kUnknown = std::numeric_limits<unsigned char>::max();
  return static_cast<Enum>(value < 0 || value > kUnknown ? kUnknown : value);
}

void SetString(dlsm_options_t* options, std::string dlsm::Options::*option, const char* value) {
  Keeping(&options->failure, [&] {
    options->options.*option = value;
    return Status::OK();
  });
}

void SetStrings(dlsm_options_t* options, std::vector<std::string> dlsm::Options::*option, int count,
                const char* const* keys, const size_t* keys_len) {
  Keeping(&options->failure, [&] {
    std::vector<std::string> strings;
    strings.reserve(static_cast<size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) strings.emplace_back(keys[i], keys_len[i]);
    options->options.*option = std::move(strings);
    return Status::OK();
  });
}

void SetBound(dlsm_readoptions_t* options, const char* key, size_t bytes, std::string* copy,
              Slice* slice, const Slice** option) {
  *option = nullptr;
  if (key == nullptr) return;
  Keeping(&options->failure, [&] {
    copy->assign(key, bytes);
    *slice = Slice(*copy);
    *option = slice;
    return Status::OK();
  });
}

}  // namespace

extern "C" {

dlsm_options_t* dlsm_options_create(void) { return NewHandle<dlsm_options_t>(); }
void dlsm_options_destroy(dlsm_options_t* options) { DeleteHandle(options); }
void dlsm_options_set_comparator(dlsm_options_t* options, dlsm_comparator_t* comparator) {
  options->options.comparator = comparator;
}
void dlsm_options_set_filter_policy(dlsm_options_t* options, dlsm_filterpolicy_t* policy) {
  options->options.filter_policy = policy == nullptr ? nullptr : policy->policy.get();
}
void dlsm_options_set_create_if_missing(dlsm_options_t* options, uint8_t value) {
  options->options.create_if_missing = value != 0;
}
void dlsm_options_set_error_if_exists(dlsm_options_t* options, uint8_t value) {
  options->options.error_if_exists = value != 0;
}
void dlsm_options_set_take_over(dlsm_options_t* options, uint8_t value) {
  options->options.take_over = value != 0;
}
void dlsm_options_set_paranoid_checks(dlsm_options_t* options, uint8_t value) {
  options->options.paranoid_checks = value != 0;
}
void dlsm_options_set_write_buffer_size(dlsm_options_t* options, size_t bytes) {
  options->options.write_buffer_size = bytes;
}
void dlsm_options_set_max_open_files(dlsm_options_t* options, int value) {
  options->options.max_open_files = value;
}
void dlsm_options_set_cache(dlsm_options_t* options, dlsm_cache_t* cache) {
  options->options.block_cache = cache == nullptr ? nullptr : cache->cache.get();
}
void dlsm_options_set_block_size(dlsm_options_t* options, size_t bytes) {
  options->options.block_size = bytes;
}
void dlsm_options_set_block_restart_interval(dlsm_options_t* options, int value) {
  options->options.block_restart_interval = value;
}
void dlsm_options_set_max_file_size(dlsm_options_t* options, size_t bytes) {
  options->options.max_file_size = bytes;
}
void dlsm_options_set_compression(dlsm_options_t* options, int value) {
  options->options.compression = ToEnum<dlsm::CompressionType>(value);
}
void dlsm_options_set_memory_nodes(dlsm_options_t* options, const char* nodes) {
  SetString(options, &dlsm::Options::memory_nodes, nodes);
}
void dlsm_options_set_config(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::config, path);
}
void dlsm_options_set_publish_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.publish_interval_ms = milliseconds;
}
void dlsm_options_set_follow_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.follow_interval_ms = milliseconds;
}
void dlsm_options_set_shards(dlsm_options_t* options, int count) {
  options->options.shards = count;
}
void dlsm_options_set_shard_boundaries(dlsm_options_t* options, int count, const char* const* keys,
                                       const size_t* keys_len) {
  SetStrings(options, &dlsm::Options::shard_boundaries, count, keys, keys_len);
}
void dlsm_options_set_compute_boundaries(dlsm_options_t* options, int count,
                                         const char* const* keys, const size_t* keys_len) {
  SetStrings(options, &dlsm::Options::compute_boundaries, count, keys, keys_len);
}
void dlsm_options_set_placement(dlsm_options_t* options, int value) {
  options->options.placement = ToEnum<dlsm::TablePlacement>(value);
}
void dlsm_options_set_power_of_d(dlsm_options_t* options, int value) {
  options->options.power_of_d = value;
}
void dlsm_options_set_scatter_width(dlsm_options_t* options, int value) {
  options->options.scatter_width = value;
}
void dlsm_options_set_compute_node_id(dlsm_options_t* options, uint32_t id) {
  options->options.compute_node_id = id;
}
void dlsm_options_set_fabric(dlsm_options_t* options, const char* fabric) {
  SetString(options, &dlsm::Options::fabric, fabric);
}
void dlsm_options_set_tcp_poll_us(dlsm_options_t* options, uint32_t microseconds) {
  options->options.tcp_poll_us = microseconds;
}
void dlsm_options_set_tcp_share_reads(dlsm_options_t* options, uint8_t value) {
  options->options.tcp_share_reads = value != 0;
}
void dlsm_options_set_rpc_transport(dlsm_options_t* options, const char* transport) {
  SetString(options, &dlsm::Options::rpc_transport, transport);
}
void dlsm_options_set_rdma_device(dlsm_options_t* options, const char* device) {
  SetString(options, &dlsm::Options::rdma_device, device);
}
void dlsm_options_set_access_name(dlsm_options_t* options, const char* name) {
  SetString(options, &dlsm::Options::access_name, name);
}
void dlsm_options_set_tls(dlsm_options_t* options, uint8_t value) {
  options->options.tls = value != 0;
}
void dlsm_options_set_tls_ca_file(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::tls_ca_file, path);
}
void dlsm_options_set_tls_certificate_file(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::tls_certificate_file, path);
}
void dlsm_options_set_tls_key_file(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::tls_key_file, path);
}
void dlsm_options_set_secret_file(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::secret_file, path);
}
void dlsm_options_set_embedded_memory_bytes(dlsm_options_t* options, uint64_t bytes) {
  options->options.embedded_memory_bytes = bytes;
}
void dlsm_options_set_open_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.open_timeout_ms = milliseconds;
}
void dlsm_options_set_operation_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.operation_timeout_ms = milliseconds;
}
void dlsm_options_set_value_cache_size(dlsm_options_t* options, uint64_t bytes) {
  options->options.value_cache_size = bytes;
}
void dlsm_options_set_memory_budget(dlsm_options_t* options, uint64_t bytes) {
  options->options.memory_budget = bytes;
}
void dlsm_options_set_max_write_buffer_number(dlsm_options_t* options, int value) {
  options->options.max_write_buffer_number = value;
}
void dlsm_options_set_max_background_flushes(dlsm_options_t* options, int value) {
  options->options.max_background_flushes = value;
}
void dlsm_options_set_max_background_compactions(dlsm_options_t* options, int value) {
  options->options.max_background_compactions = value;
}
void dlsm_options_set_max_subcompactions(dlsm_options_t* options, int value) {
  options->options.max_subcompactions = value;
}
void dlsm_options_set_table_format(dlsm_options_t* options, int value) {
  options->options.table_format = ToEnum<dlsm::TableFormat>(value);
}
void dlsm_options_set_compaction_place(dlsm_options_t* options, int value) {
  options->options.compaction_place = ToEnum<dlsm::CompactionPlace>(value);
}
void dlsm_options_set_compaction_style(dlsm_options_t* options, int value) {
  options->options.compaction_style = ToEnum<dlsm::CompactionStyle>(value);
}
void dlsm_options_set_max_tables_per_guard(dlsm_options_t* options, int value) {
  options->options.max_tables_per_guard = value;
}
void dlsm_options_set_guard_bits(dlsm_options_t* options, int value) {
  options->options.guard_bits = value;
}
void dlsm_options_set_max_size_amplification_percent(dlsm_options_t* options, int value) {
  options->options.max_size_amplification_percent = value;
}
void dlsm_options_set_level0_file_num_compaction_trigger(dlsm_options_t* options, int value) {
  options->options.level0_file_num_compaction_trigger = value;
}
void dlsm_options_set_level0_stop_writes_trigger(dlsm_options_t* options, int value) {
  options->options.level0_stop_writes_trigger = value;
}
void dlsm_options_set_max_bytes_for_level_base(dlsm_options_t* options, uint64_t bytes) {
  options->options.max_bytes_for_level_base = bytes;
}
void dlsm_options_set_max_bytes_for_level_multiplier(dlsm_options_t* options, double value) {
  options->options.max_bytes_for_level_multiplier = value;
}
void dlsm_options_set_num_levels(dlsm_options_t* options, int value) {
  options->options.num_levels = value;
}
void dlsm_options_set_idle_size_amplification_percent(dlsm_options_t* options, int value) {
  options->options.idle_size_amplification_percent = value;
}
void dlsm_options_set_merge_scheduler(dlsm_options_t* options, int value) {
  options->options.merge_scheduler = ToEnum<dlsm::MergeSchedule>(value);
}
void dlsm_options_set_compaction_bandwidth(dlsm_options_t* options, uint64_t bytes_per_second) {
  options->options.compaction_bandwidth = bytes_per_second;
}
void dlsm_options_set_component_constraint(dlsm_options_t* options, int value) {
  options->options.component_constraint = ToEnum<dlsm::ComponentConstraint>(value);
}
void dlsm_options_set_max_components(dlsm_options_t* options, int value) {
  options->options.max_components = value;
}
void dlsm_options_set_slow_down_writes(dlsm_options_t* options, uint8_t value) {
  options->options.slow_down_writes = value != 0;
}
void dlsm_options_set_write_stall_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.write_stall_timeout_ms = milliseconds;
}

dlsm_readoptions_t* dlsm_readoptions_create(void) { return NewHandle<dlsm_readoptions_t>(); }
void dlsm_readoptions_destroy(dlsm_readoptions_t* options) { DeleteHandle(options); }
void dlsm_readoptions_set_verify_checksums(dlsm_readoptions_t* options, uint8_t value) {
  options->options.verify_checksums = value != 0;
}
void dlsm_readoptions_set_fill_cache(dlsm_readoptions_t* options, uint8_t value) {
  options->options.fill_cache = value != 0;
}
void dlsm_readoptions_set_snapshot(dlsm_readoptions_t* options, const dlsm_snapshot_t* snapshot) {
  options->options.snapshot = snapshot == nullptr ? nullptr : snapshot->snapshot;
}
void dlsm_readoptions_set_iterate_lower_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(options, key, keylen, &options->lower_bytes, &options->lower,
           &options->options.iterate_lower_bound);
}
void dlsm_readoptions_set_iterate_upper_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(options, key, keylen, &options->upper_bytes, &options->upper,
           &options->options.iterate_upper_bound);
}

dlsm_writeoptions_t* dlsm_writeoptions_create(void) { return NewHandle<dlsm_writeoptions_t>(); }
void dlsm_writeoptions_destroy(dlsm_writeoptions_t* options) { DeleteHandle(options); }
void dlsm_writeoptions_set_sync(dlsm_writeoptions_t* options, uint8_t value) {
  options->options.sync = value != 0;
}
void dlsm_writeoptions_set_no_slowdown(dlsm_writeoptions_t* options, uint8_t value) {
  options->options.no_slowdown = value != 0;
}

}  // extern "C"
