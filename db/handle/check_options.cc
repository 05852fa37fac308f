#include "db/handle/check_options.h"

#include <algorithm>
#include <string>

#include "db/log/log_frame.h"
#include "db/memtable/memtable.h"
#include "db/nodes/compute_range.h"
#include "db/nodes/shard_map.h"
#include "db/tree/memory_budget.h"
#include "table/compaction_filters.h"
#include "table/merge_messages.h"
#include "table/merge_scheduler.h"
#include "util/bloom_filter.h"
#include "util/built_in_comparator.h"
#include "util/cache/value_cache.h"
#include "util/numa.h"
#include "util/rpc/messages/database_name.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Memory nodes know its parts by longer names: of a range, and of a shard's tables.
constexpr size_t kNameBytesMax = OpenDatabaseRequest::kNameBytesMax - 64;

Status Refuse(const std::string& option, const std::string& remedy) {
  return Status::InvalidArgument("Options::" + option, remedy);
}

Status CheckPlacement(const Options& options) {
  if (options.placement > TablePlacement::kPowerOfD) {
    return Refuse("placement is unknown", "use kByShard, kRoundRobin or kPowerOfD");
  }
  if (options.power_of_d < 1 || options.power_of_d > 1024) {
    return Refuse("power_of_d is out of range", "use 1 to 1024; 2 is nearly as good as all");
  }
  if (options.scatter_width < 1 || options.scatter_width > 64) {
    return Refuse("scatter_width is out of range", "use 1 to 64");
  }
  if (options.scatter_width > 1 && options.placement == TablePlacement::kByShard) {
    return Refuse("scatter_width needs a placement over several memory nodes",
                  "set placement to kRoundRobin or kPowerOfD");
  }
  return Status::OK();
}

bool IsReserved(const char* name) { return Slice(name).starts_with("dlsm."); }

// By its name a database knows the order of its keys, and how its filters are to be read: what has
// the name of a built-in one must be that.
Status CheckNames(const Options& options) {
  const Comparator* const comparator = options.comparator;
  if (comparator->Name() == nullptr) return Refuse("comparator has no name", "give it one");
  if (IsReserved(comparator->Name()) && !IsBuiltIn(comparator)) {
    return Refuse(std::string("comparator has a name of the library's: ") + comparator->Name(),
                  "give it one that does not start with dlsm.");
  }
  const FilterPolicy* const policy = options.filter_policy;
  if (policy != nullptr && policy->Name() == nullptr) {
    return Refuse("filter_policy has no name", "give it one");
  }
  if (policy != nullptr && policy != Options::kNoFilter && IsReserved(policy->Name()) &&
      AsBuiltIn(policy) == nullptr) {
    return Refuse(std::string("filter_policy has a name of the library's: ") + policy->Name(),
                  "give it one that does not start with dlsm.");
  }
  return Status::OK();
}

Status CheckMemory(const Options& options) {
  if (options.write_buffer_size < (size_t{64} << 10)) {
    return Refuse("write_buffer_size is too small", "use at least 64 KiB");
  }
  if (options.write_buffer_size > Memtable::kBytesMax) {
    return Refuse("write_buffer_size is too large", "use at most 1 TiB");
  }
  if (options.max_write_buffer_number < 2 || options.max_write_buffer_number > 128) {
    return Refuse("max_write_buffer_number is out of range", "use 2 to 128");
  }
  if (options.value_cache_size != 0 && (options.value_cache_size < ValueCache::kBytesMin ||
                                        options.value_cache_size > ValueCache::kBytesMax)) {
    return Refuse("value_cache_size is out of range", "use 64 KiB to 16 TiB, or 0 for none");
  }
  return MemoryBudget::Check(options);  // Needs the others' bounds.
}

Status CheckTables(const Options& options) {
  if (options.max_file_size < (size_t{64} << 10) || options.max_file_size > (size_t{2} << 30)) {
    return Refuse("max_file_size is out of range", "use 64 KiB to 2 GiB");
  }
  if (options.table_format != TableFormat::kByteAddressable &&
      options.table_format != TableFormat::kBlockBased) {
    return Refuse("table_format is unknown", "use kByteAddressable or kBlockBased");
  }
  if (options.block_size < 256 || options.block_size > (size_t{4} << 20)) {
    return Refuse("block_size is out of range", "use 256 bytes to 4 MiB");
  }
  // Hardly a block has as many entries, and memory nodes refuse merges with far more.
  if (options.block_restart_interval < 1 || options.block_restart_interval > 1'000'000) {
    return Refuse("block_restart_interval is out of range", "use 1 to 1000000; 16 suits most");
  }
  if (options.compression != kNoCompression && options.compression != kSnappyCompression) {
    return Refuse("compression is unknown", "use kNoCompression or kSnappyCompression");
  }
  if (options.compression != kNoCompression &&
      options.table_format == TableFormat::kByteAddressable) {
    return Refuse("compression needs blocks", "set table_format to kBlockBased");
  }
  return Status::OK();
}

Status CheckGuards(const Options& options) {
  if (options.max_tables_per_guard < 2 || options.max_tables_per_guard > 1000) {
    return Refuse("max_tables_per_guard is out of range", "use 2 to 1000");
  }
  if (options.guard_bits < 0 || options.guard_bits > 48) {
    return Refuse("guard_bits is out of range", "use 0 to 48");
  }
  if (options.max_size_amplification_percent < 1 ||
      options.max_size_amplification_percent > 10000) {
    return Refuse("max_size_amplification_percent is out of range", "use 1 to 10000");
  }
  if (options.idle_size_amplification_percent < 0 ||
      options.idle_size_amplification_percent > 10000) {
    return Refuse("idle_size_amplification_percent is out of range", "use 0 to 10000");
  }
  return Status::OK();
}

Status CheckLevels(const Options& options) {
  if (options.num_levels < 2 || options.num_levels > 32) {
    return Refuse("num_levels is out of range", "use 2 to 32");
  }
  if (options.level0_file_num_compaction_trigger < 1 ||
      options.level0_stop_writes_trigger <= options.level0_file_num_compaction_trigger) {
    return Refuse("level0_stop_writes_trigger is not above level0_file_num_compaction_trigger",
                  "raise it");
  }
  if (options.component_constraint > ComponentConstraint::kGlobal || options.max_components < 0) {
    return Refuse("component_constraint is unknown or max_components is negative",
                  "use kLocal or kGlobal, and 0 for twice the expected number");
  }
  if (options.max_bytes_for_level_base == 0 || !(options.max_bytes_for_level_multiplier >= 1)) {
    return Refuse("max_bytes_for_level_base or _multiplier is too small",
                  "use a size above 0 and a multiplier of at least 1");
  }
  if (options.compaction_style == CompactionStyle::kTiered &&
      !(options.max_bytes_for_level_multiplier >= 2 &&
        options.max_bytes_for_level_multiplier <= 1000)) {
    return Refuse("max_bytes_for_level_multiplier is out of range for kTiered",
                  "use 2 to 1000, the sorted runs of a level that become one of the next");
  }
  return Status::OK();
}

// Both are in every request for a merge.
Status CheckCompactionFilter(const Options& options) {
  const CompactionFilter* const filter = options.compaction_filter.get();
  if (filter == nullptr) return Status::OK();
  constexpr size_t kFilterNameBytesMax = 256;
  const Slice name(filter->Name());
  if (name.empty() || name.size() > kFilterNameBytesMax) {
    return Refuse("compaction_filter has no name, or one of more than 256 bytes", "give it one");
  }
  if (filter->Parameters().size() > kFilterParametersBytesMax) {
    return Refuse("compaction_filter has parameters of more than 64 KiB", "give it shorter ones");
  }
  return Status::OK();
}

Status CheckMerges(const Options& options) {
  if (options.compaction_style > CompactionStyle::kSizeTiered) {
    return Refuse("compaction_style is unknown", "use one of CompactionStyle");
  }
  if (options.compaction_place > CompactionPlace::kAutomatic) {
    return Refuse("compaction_place is unknown", "use kMemoryNode, kComputeNode or kAutomatic");
  }
  if (MergeScheduleName(options.merge_scheduler) == std::string("unknown")) {
    return Refuse("merge_scheduler is unknown", "use kSingle, kFair, kGreedy or kSpringAndGear");
  }
  if (options.max_background_flushes < 1 || options.max_background_flushes > 64 ||
      options.max_background_compactions < 1 || options.max_background_compactions > 64 ||
      options.max_subcompactions < 1 ||
      static_cast<uint64_t>(options.max_subcompactions) > kMergePartsMax) {
    return Refuse("number of background threads is out of range", "use 1 to 64");
  }
  return Status::OK();
}

Status CheckNode(const Options& options) {
  const Status there = CheckNumaNode(options.numa_node);
  if (there.ok()) return there;
  return Status::FromCode(there.code(), "Options::numa_node: " + there.message().ToString());
}

Status CheckLog(const Options& options) {
  constexpr uint64_t kLeast = uint64_t{256} << 10;
  if (options.log > LogLevel::kDefault) {
    return Refuse("log is unknown", "use kNone, kMemory, kDisk or kDefault");
  }
  if (options.log_bytes_max != 0 &&
      (options.log_bytes_max < kLeast || options.log_bytes_max > kLogFrameBytesMax)) {
    return Refuse("log_bytes_max is out of range",
                  "use 256 KiB to 2 GiB, or 0 for what memtables make of it");
  }
  return Status::OK();
}

}  // namespace

Status CheckOptions(const Options& options) {
  if (options.comparator == nullptr) return Refuse("comparator is null", "leave it as it is");
  DLSM_RETURN_IF_ERROR(CheckNames(options));
  DLSM_RETURN_IF_ERROR(CheckComputeBoundaries(options));
  DLSM_RETURN_IF_ERROR(CheckMemory(options));
  DLSM_RETURN_IF_ERROR(CheckTables(options));
  DLSM_RETURN_IF_ERROR(CheckMerges(options));
  DLSM_RETURN_IF_ERROR(CheckCompactionFilter(options));
  DLSM_RETURN_IF_ERROR(CheckGuards(options));
  DLSM_RETURN_IF_ERROR(CheckLevels(options));
  DLSM_RETURN_IF_ERROR(CheckPlacement(options));
  if (options.tcp_poll_us > 1'000'000) {
    return Refuse("tcp_poll_us is more than a second", "use 50, or 0 for no polling");
  }
  DLSM_RETURN_IF_ERROR(CheckNode(options));
  DLSM_RETURN_IF_ERROR(CheckLog(options));
  return CheckShardOptions(options);
}

Options WithFiniteTimeouts(Options options) {
  constexpr uint64_t kTimeoutMsMax = uint64_t{7} * 24 * 3600 * 1000;
  for (uint64_t* timeout :
       {&options.open_timeout_ms, &options.operation_timeout_ms, &options.write_stall_timeout_ms,
        &options.publish_interval_ms, &options.follow_interval_ms, &options.log_sync_interval_ms}) {
    *timeout = std::min(*timeout, kTimeoutMsMax);
  }
  return options;
}

Status CheckName(const std::string& name) {
  if (name.empty()) return Status::InvalidArgument("the database has no name", "give it one");
  if (name.size() > kNameBytesMax) {
    return Status::InvalidArgument(
        "the database's name exceeds " + std::to_string(kNameBytesMax) + " bytes",
        "use a shorter one");
  }
  if (name.find(kPartMark) == std::string::npos) return Status::OK();
  return Status::InvalidArgument(
      "the name " + name + " has a #, as memory nodes' names of a database's shards and ranges do",
      "use one without");
}

}  // namespace dlsm
