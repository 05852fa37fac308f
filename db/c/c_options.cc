// Options of the C interface.
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "db/c/c_handles.h"
#include "util/status_macros.h"

using dlsm::Slice;
using dlsm::Status;
using dlsm::c::Check;
using dlsm::c::CheckBytes;
using dlsm::c::DeleteHandle;
using dlsm::c::Keeping;
using dlsm::c::NewHandle;
using dlsm::c::ToSlice;

namespace {

// What the enum does not know must stay something that it does not know: Open() refuses it.
template <typename Enum>
Enum ToEnum(int value) {
  constexpr int kUnknown = std::numeric_limits<unsigned char>::max();
  return static_cast<Enum>(value < 0 || value > kUnknown ? kUnknown : value);
}

// Of a handle that could not be made nothing is set: the calls that it is given to say so.
template <typename Handle, typename Options, typename Option>
void Set(Handle* handle, Option Options::*option, std::type_identity_t<Option> value) {
  if (handle != nullptr) handle->options.*option = value;
}

void SetString(dlsm_options_t* options, std::string dlsm::Options::*option, const char* value) {
  if (options == nullptr) return;
  Keeping(&options->failure, [&] {
    options->options.*option = value == nullptr ? "" : value;
    return Status::OK();
  });
}

void SetStrings(dlsm_options_t* options, std::vector<std::string> dlsm::Options::*option, int count,
                const char* const* keys, const size_t* keys_len) {
  if (options == nullptr) return;
  Keeping(&options->failure, [&] {
    std::vector<std::string> strings;
    strings.reserve(static_cast<size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) {
      DLSM_RETURN_IF_ERROR(Check(keys, "keys"));
      DLSM_RETURN_IF_ERROR(Check(keys_len, "keys_len"));
      DLSM_RETURN_IF_ERROR(CheckBytes(keys[i], keys_len[i], "a key"));
      strings.push_back(ToSlice(keys[i], keys_len[i]).ToString());
    }
    options->options.*option = std::move(strings);
    return Status::OK();
  });
}

template <typename Object>
void SetObject(const std::shared_ptr<Object>& object, std::weak_ptr<Object>* counted,
               Object** option) {
  *counted = object;
  *option = object.get();
}

// `named`: the options have one that is counted.
template <typename Object>
Status TakeObject(const std::weak_ptr<Object>& counted, bool named, const char* what,
                  std::shared_ptr<Object>* taken) {
  if (!named) return Status::OK();
  *taken = counted.lock();
  if (*taken != nullptr) return Status::OK();
  return Status::InvalidArgument(std::string("the ") + what + " of the options was destroyed",
                                 "destroy it after the last dlsm_open() that is given it");
}

// A time beyond what the clock can say is no deadline.
std::chrono::steady_clock::time_point ToDeadline(uint64_t microseconds) {
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::duration::max());
  if (microseconds > static_cast<uint64_t>(kMost.count())) return dlsm::kNoDeadline;
  return dlsm::kNoDeadline + std::chrono::microseconds(microseconds);
}

struct Bound {
  std::string dlsm_readoptions_t::*bytes;
  Slice dlsm_readoptions_t::*slice;
  const Slice* dlsm::ReadOptions::*option;
};

void SetBound(dlsm_readoptions_t* options, const char* key, size_t bytes, const Bound& bound) {
  if (options == nullptr) return;
  options->options.*bound.option = nullptr;
  if (key == nullptr) return;
  Keeping(&options->failure, [&] {
    (options->*bound.bytes).assign(key, bytes);
    options->*bound.slice = Slice(options->*bound.bytes);
    options->options.*bound.option = &(options->*bound.slice);
    return Status::OK();
  });
}

}  // namespace

Status dlsm::c::TakeObjects(const dlsm_options_t& options, Objects* objects) {
  const Options& of = options.options;
  const ObjectsOfOptions& counted = options.objects;
  const bool own_order = of.comparator != nullptr && of.comparator != BytewiseComparator();
  DLSM_RETURN_IF_ERROR(
      TakeObject(counted.comparator, own_order, "comparator", &objects->comparator));
  DLSM_RETURN_IF_ERROR(TakeObject(counted.filter_policy, of.filter_policy != nullptr,
                                  "filter policy", &objects->filter_policy));
  return TakeObject(counted.cache, of.block_cache != nullptr, "cache", &objects->cache);
}

extern "C" {

dlsm_options_t* dlsm_options_create(void) { return NewHandle<dlsm_options_t>(); }
void dlsm_options_destroy(dlsm_options_t* options) { DeleteHandle(options); }
void dlsm_options_set_comparator(dlsm_options_t* options, dlsm_comparator_t* comparator) {
  if (options == nullptr) return;
  SetObject(comparator == nullptr ? nullptr : comparator->comparator, &options->objects.comparator,
            &options->options.comparator);
}
void dlsm_options_set_filter_policy(dlsm_options_t* options, dlsm_filterpolicy_t* policy) {
  if (options == nullptr) return;
  SetObject(policy == nullptr ? nullptr : policy->policy, &options->objects.filter_policy,
            &options->options.filter_policy);
}
void dlsm_options_set_prefix_extractor(dlsm_options_t* options,
                                       const dlsm_slicetransform_t* transform) {
  if (options == nullptr) return;
  options->options.prefix_extractor = transform == nullptr ? nullptr : transform->transform;
}
void dlsm_options_set_create_if_missing(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::create_if_missing, value != 0);
}
void dlsm_options_set_error_if_exists(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::error_if_exists, value != 0);
}
void dlsm_options_set_take_over(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::take_over, value != 0);
}
void dlsm_options_set_paranoid_checks(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::paranoid_checks, value != 0);
}
void dlsm_options_set_write_buffer_size(dlsm_options_t* options, size_t bytes) {
  Set(options, &dlsm::Options::write_buffer_size, bytes);
}
void dlsm_options_set_max_open_files(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_open_files, value);
}
void dlsm_options_set_cache(dlsm_options_t* options, dlsm_cache_t* cache) {
  if (options == nullptr) return;
  SetObject(cache == nullptr ? nullptr : cache->cache, &options->objects.cache,
            &options->options.block_cache);
}
void dlsm_options_set_block_size(dlsm_options_t* options, size_t bytes) {
  Set(options, &dlsm::Options::block_size, bytes);
}
void dlsm_options_set_block_restart_interval(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::block_restart_interval, value);
}
void dlsm_options_set_max_file_size(dlsm_options_t* options, size_t bytes) {
  Set(options, &dlsm::Options::max_file_size, bytes);
}
void dlsm_options_set_compression(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::compression, ToEnum<dlsm::CompressionType>(value));
}
void dlsm_options_set_memory_nodes(dlsm_options_t* options, const char* nodes) {
  SetString(options, &dlsm::Options::memory_nodes, nodes);
}
void dlsm_options_set_config(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::config, path);
}
void dlsm_options_set_log(dlsm_options_t* options, int level) {
  Set(options, &dlsm::Options::log, ToEnum<dlsm::LogLevel>(level));
}
void dlsm_options_set_log_bytes_max(dlsm_options_t* options, uint64_t bytes) {
  Set(options, &dlsm::Options::log_bytes_max, bytes);
}
void dlsm_options_set_log_sync_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::log_sync_interval_ms, milliseconds);
}
void dlsm_options_set_accept_log_loss(dlsm_options_t* options, unsigned char accept) {
  Set(options, &dlsm::Options::accept_log_loss, accept != 0);
}
void dlsm_options_set_publish_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::publish_interval_ms, milliseconds);
}
void dlsm_options_set_follow_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::follow_interval_ms, milliseconds);
}
void dlsm_options_set_shards(dlsm_options_t* options, int count) {
  Set(options, &dlsm::Options::shards, count);
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
  Set(options, &dlsm::Options::placement, ToEnum<dlsm::TablePlacement>(value));
}
void dlsm_options_set_power_of_d(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::power_of_d, value);
}
void dlsm_options_set_scatter_width(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::scatter_width, value);
}
void dlsm_options_set_compute_node_id(dlsm_options_t* options, uint32_t id) {
  Set(options, &dlsm::Options::compute_node_id, id);
}
void dlsm_options_set_fabric(dlsm_options_t* options, const char* fabric) {
  SetString(options, &dlsm::Options::fabric, fabric);
}
void dlsm_options_set_tcp_poll_us(dlsm_options_t* options, uint32_t microseconds) {
  Set(options, &dlsm::Options::tcp_poll_us, microseconds);
}
void dlsm_options_set_tcp_share_reads(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::tcp_share_reads, value != 0);
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
  Set(options, &dlsm::Options::tls, value != 0);
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
void dlsm_options_set_embedded_dir(dlsm_options_t* options, const char* path) {
  SetString(options, &dlsm::Options::embedded_dir, path);
}
void dlsm_options_set_embedded_memory_bytes(dlsm_options_t* options, uint64_t bytes) {
  Set(options, &dlsm::Options::embedded_memory_bytes, bytes);
}
void dlsm_options_set_numa_node(dlsm_options_t* options, int node) {
  Set(options, &dlsm::Options::numa_node, node);
}

void dlsm_options_set_open_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::open_timeout_ms, milliseconds);
}
void dlsm_options_set_operation_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::operation_timeout_ms, milliseconds);
}
void dlsm_options_set_value_cache_size(dlsm_options_t* options, uint64_t bytes) {
  Set(options, &dlsm::Options::value_cache_size, bytes);
}
void dlsm_options_set_memory_budget(dlsm_options_t* options, uint64_t bytes) {
  Set(options, &dlsm::Options::memory_budget, bytes);
}
void dlsm_options_set_max_write_buffer_number(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_write_buffer_number, value);
}
void dlsm_options_set_max_background_flushes(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_background_flushes, value);
}
void dlsm_options_set_max_background_compactions(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_background_compactions, value);
}
void dlsm_options_set_max_subcompactions(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_subcompactions, value);
}
void dlsm_options_set_table_format(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::table_format, ToEnum<dlsm::TableFormat>(value));
}
void dlsm_options_set_compaction_place(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::compaction_place, ToEnum<dlsm::CompactionPlace>(value));
}
void dlsm_options_set_compaction_style(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::compaction_style, ToEnum<dlsm::CompactionStyle>(value));
}
void dlsm_options_set_max_tables_per_guard(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_tables_per_guard, value);
}
void dlsm_options_set_guard_bits(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::guard_bits, value);
}
void dlsm_options_set_max_size_amplification_percent(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_size_amplification_percent, value);
}
void dlsm_options_set_level0_file_num_compaction_trigger(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::level0_file_num_compaction_trigger, value);
}
void dlsm_options_set_level0_stop_writes_trigger(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::level0_stop_writes_trigger, value);
}
void dlsm_options_set_max_bytes_for_level_base(dlsm_options_t* options, uint64_t bytes) {
  Set(options, &dlsm::Options::max_bytes_for_level_base, bytes);
}
void dlsm_options_set_max_bytes_for_level_multiplier(dlsm_options_t* options, double value) {
  Set(options, &dlsm::Options::max_bytes_for_level_multiplier, value);
}
void dlsm_options_set_num_levels(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::num_levels, value);
}
void dlsm_options_set_idle_size_amplification_percent(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::idle_size_amplification_percent, value);
}
void dlsm_options_set_merge_scheduler(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::merge_scheduler, ToEnum<dlsm::MergeSchedule>(value));
}
void dlsm_options_set_compaction_bandwidth(dlsm_options_t* options, uint64_t bytes_per_second) {
  Set(options, &dlsm::Options::compaction_bandwidth, bytes_per_second);
}
void dlsm_options_set_component_constraint(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::component_constraint, ToEnum<dlsm::ComponentConstraint>(value));
}
void dlsm_options_set_max_components(dlsm_options_t* options, int value) {
  Set(options, &dlsm::Options::max_components, value);
}
void dlsm_options_set_bulk_load(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::bulk_load, value != 0);
}

void dlsm_options_set_slow_down_writes(dlsm_options_t* options, uint8_t value) {
  Set(options, &dlsm::Options::slow_down_writes, value != 0);
}
void dlsm_options_set_write_stall_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  Set(options, &dlsm::Options::write_stall_timeout_ms, milliseconds);
}

dlsm_readoptions_t* dlsm_readoptions_create(void) { return NewHandle<dlsm_readoptions_t>(); }
void dlsm_readoptions_destroy(dlsm_readoptions_t* options) { DeleteHandle(options); }
void dlsm_readoptions_set_verify_checksums(dlsm_readoptions_t* options, uint8_t value) {
  Set(options, &dlsm::ReadOptions::verify_checksums, value != 0);
}
void dlsm_readoptions_set_fill_cache(dlsm_readoptions_t* options, uint8_t value) {
  Set(options, &dlsm::ReadOptions::fill_cache, value != 0);
}
void dlsm_readoptions_set_snapshot(dlsm_readoptions_t* options, const dlsm_snapshot_t* snapshot) {
  Set(options, &dlsm::ReadOptions::snapshot, snapshot == nullptr ? nullptr : snapshot->snapshot);
}
void dlsm_readoptions_set_iterate_lower_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(options, key, keylen,
           {&dlsm_readoptions_t::lower_bytes, &dlsm_readoptions_t::lower,
            &dlsm::ReadOptions::iterate_lower_bound});
}
void dlsm_readoptions_set_iterate_upper_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(options, key, keylen,
           {&dlsm_readoptions_t::upper_bytes, &dlsm_readoptions_t::upper,
            &dlsm::ReadOptions::iterate_upper_bound});
}
void dlsm_readoptions_set_prefix_same_as_start(dlsm_readoptions_t* options, uint8_t value) {
  Set(options, &dlsm::ReadOptions::prefix_same_as_start, value != 0);
}
// A number that is no tier counts as the one that asks for less.
void dlsm_readoptions_set_read_tier(dlsm_readoptions_t* options, int value) {
  Set(options, &dlsm::ReadOptions::read_tier,
      value == dlsm_read_all_tier ? dlsm::kReadAllTier : dlsm::kBlockCacheTier);
}
void dlsm_readoptions_set_deadline(dlsm_readoptions_t* options, uint64_t microseconds) {
  Set(options, &dlsm::ReadOptions::deadline, ToDeadline(microseconds));
}

dlsm_writeoptions_t* dlsm_writeoptions_create(void) { return NewHandle<dlsm_writeoptions_t>(); }
void dlsm_writeoptions_destroy(dlsm_writeoptions_t* options) { DeleteHandle(options); }
void dlsm_writeoptions_set_sync(dlsm_writeoptions_t* options, uint8_t value) {
  Set(options, &dlsm::WriteOptions::sync, value != 0);
}
void dlsm_writeoptions_set_no_slowdown(dlsm_writeoptions_t* options, uint8_t value) {
  Set(options, &dlsm::WriteOptions::no_slowdown, value != 0);
}
void dlsm_writeoptions_set_deadline(dlsm_writeoptions_t* options, uint64_t microseconds) {
  Set(options, &dlsm::WriteOptions::deadline, ToDeadline(microseconds));
}

}  // extern "C"
