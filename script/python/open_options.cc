#include "script/python/open_options.h"

#include <cstdint>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace dlsm::python {
namespace {

using Setter = std::function<void(Options*, nb::handle)>;

// Throws nb::cast_error for an object of another type, and for a number that does not fit.
template <typename T>
T ValueOf(nb::handle value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return TextOf(value);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    T texts;
    for (nb::handle text : value) texts.push_back(TextOf(text));
    return texts;
  } else {
    return nb::cast<T>(value);
  }
}

template <typename T>
Setter Member(T Options::*member) {
  return [member](Options* options, nb::handle value) { options->*member = ValueOf<T>(value); };
}

template <typename T>
Setter Choice(T Options::*member, std::map<std::string, T> choices) {
  return [member, choices = std::move(choices)](Options* options, nb::handle value) {
    const std::string name = TextOf(value);
    const auto found = choices.find(name);
    if (found != choices.end()) {
      options->*member = found->second;
      return;
    }
    std::string message = "'" + name + "' is none of";
    for (const auto& choice : choices) message += " " + choice.first;
    throw nb::value_error(message.c_str());
  };
}

const std::map<std::string, Setter>& Setters() {
  static const auto* const setters = new std::map<std::string, Setter>{
      {"accept_log_loss", Member(&Options::accept_log_loss)},
      {"access_name", Member(&Options::access_name)},
      {"block_restart_interval", Member(&Options::block_restart_interval)},
      {"block_size", Member(&Options::block_size)},
      {"compaction_bandwidth", Member(&Options::compaction_bandwidth)},
      {"compaction_place",
       Choice(&Options::compaction_place, {{"memory_node", CompactionPlace::kMemoryNode},
                                           {"compute_node", CompactionPlace::kComputeNode},
                                           {"automatic", CompactionPlace::kAutomatic}})},
      {"compaction_style", Choice(&Options::compaction_style,
                                  {{"leveled", CompactionStyle::kLeveled},
                                   {"guards", CompactionStyle::kGuards},
                                   {"leveled_choose_best", CompactionStyle::kLeveledChooseBest},
                                   {"full_leveling", CompactionStyle::kFullLeveling},
                                   {"tiered", CompactionStyle::kTiered},
                                   {"size_tiered", CompactionStyle::kSizeTiered}})},
      {"component_constraint",
       Choice(&Options::component_constraint,
              {{"local", ComponentConstraint::kLocal}, {"global", ComponentConstraint::kGlobal}})},
      {"compression",
       Choice(&Options::compression, {{"none", kNoCompression}, {"snappy", kSnappyCompression}})},
      {"compute_boundaries", Member(&Options::compute_boundaries)},
      {"compute_node_id", Member(&Options::compute_node_id)},
      {"config", Member(&Options::config)},
      {"embedded_memory_bytes", Member(&Options::embedded_memory_bytes)},
      {"error_if_exists", Member(&Options::error_if_exists)},
      {"fabric", Member(&Options::fabric)},
      {"follow_interval_ms", Member(&Options::follow_interval_ms)},
      {"guard_bits", Member(&Options::guard_bits)},
      {"idle_size_amplification_percent", Member(&Options::idle_size_amplification_percent)},
      {"level0_file_num_compaction_trigger", Member(&Options::level0_file_num_compaction_trigger)},
      {"level0_stop_writes_trigger", Member(&Options::level0_stop_writes_trigger)},
      {"log", Choice(&Options::log, {{"none", LogLevel::kNone},
                                     {"memory", LogLevel::kMemory},
                                     {"disk", LogLevel::kDisk},
                                     {"default", LogLevel::kDefault}})},
      {"log_bytes_max", Member(&Options::log_bytes_max)},
      {"log_sync_interval_ms", Member(&Options::log_sync_interval_ms)},
      {"max_background_compactions", Member(&Options::max_background_compactions)},
      {"max_background_flushes", Member(&Options::max_background_flushes)},
      {"max_bytes_for_level_base", Member(&Options::max_bytes_for_level_base)},
      {"max_bytes_for_level_multiplier", Member(&Options::max_bytes_for_level_multiplier)},
      {"max_components", Member(&Options::max_components)},
      {"max_file_size", Member(&Options::max_file_size)},
      {"max_open_files", Member(&Options::max_open_files)},
      {"max_size_amplification_percent", Member(&Options::max_size_amplification_percent)},
      {"max_subcompactions", Member(&Options::max_subcompactions)},
      {"max_tables_per_guard", Member(&Options::max_tables_per_guard)},
      {"max_write_buffer_number", Member(&Options::max_write_buffer_number)},
      {"memory_budget", Member(&Options::memory_budget)},
      {"merge_scheduler",
       Choice(&Options::merge_scheduler, {{"single", MergeSchedule::kSingle},
                                          {"fair", MergeSchedule::kFair},
                                          {"greedy", MergeSchedule::kGreedy},
                                          {"spring_and_gear", MergeSchedule::kSpringAndGear}})},
      {"num_levels", Member(&Options::num_levels)},
      {"numa_node", Member(&Options::numa_node)},
      {"open_timeout_ms", Member(&Options::open_timeout_ms)},
      {"operation_timeout_ms", Member(&Options::operation_timeout_ms)},
      {"paranoid_checks", Member(&Options::paranoid_checks)},
      {"placement", Choice(&Options::placement, {{"by_shard", TablePlacement::kByShard},
                                                 {"round_robin", TablePlacement::kRoundRobin},
                                                 {"power_of_d", TablePlacement::kPowerOfD}})},
      {"power_of_d", Member(&Options::power_of_d)},
      {"publish_interval_ms", Member(&Options::publish_interval_ms)},
      {"rdma_device", Member(&Options::rdma_device)},
      {"reuse_logs", Member(&Options::reuse_logs)},
      {"rpc_transport", Member(&Options::rpc_transport)},
      {"scatter_width", Member(&Options::scatter_width)},
      {"secret_file", Member(&Options::secret_file)},
      {"shard_boundaries", Member(&Options::shard_boundaries)},
      {"shards", Member(&Options::shards)},
      {"simulated_gbit_per_second", Member(&Options::simulated_gbit_per_second)},
      {"simulated_rtt_ns", Member(&Options::simulated_rtt_ns)},
      {"slow_down_writes", Member(&Options::slow_down_writes)},
      {"table_format",
       Choice(&Options::table_format, {{"byte_addressable", TableFormat::kByteAddressable},
                                       {"block_based", TableFormat::kBlockBased}})},
      {"take_over", Member(&Options::take_over)},
      {"tcp_poll_us", Member(&Options::tcp_poll_us)},
      {"tcp_share_reads", Member(&Options::tcp_share_reads)},
      {"tls", Member(&Options::tls)},
      {"tls_ca_file", Member(&Options::tls_ca_file)},
      {"tls_certificate_file", Member(&Options::tls_certificate_file)},
      {"tls_key_file", Member(&Options::tls_key_file)},
      {"value_cache_size", Member(&Options::value_cache_size)},
      {"write_buffer_size", Member(&Options::write_buffer_size)},
      {"write_stall_timeout_ms", Member(&Options::write_stall_timeout_ms)},
  };
  return *setters;
}

}  // namespace

std::string TextOf(nb::handle value) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) throw nb::python_error();
  nb::object bytes = path;
  if (PyUnicode_Check(path.ptr())) bytes = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  return std::string(PyBytes_AS_STRING(bytes.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

void SetOption(Options* options, const std::string& name, nb::handle value) {
  const auto found = Setters().find(name);
  if (found == Setters().end()) {
    throw nb::type_error(("open() has no option '" + name + "'").c_str());
  }
  try {
    found->second(options, value);
  } catch (const nb::cast_error&) {
    throw nb::type_error(
        ("option '" + name + "': a value of a wrong type, or out of range").c_str());
  }
}

}  // namespace dlsm::python
