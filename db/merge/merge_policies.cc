#include "db/merge/merge_policies.h"

#include <algorithm>
#include <limits>

namespace dlsm {
namespace {

// Triggers are for flushes; a scattered one makes several tables.
size_t TablesInFlushes(int flushes, const Options& options) {
  return static_cast<size_t>(flushes) * static_cast<size_t>(options.scatter_width);
}

LeveledPolicyConfig LeveledConfig(const Options& options) {
  LeveledPolicyConfig config;
  config.level0_trigger = TablesInFlushes(options.level0_file_num_compaction_trigger, options);
  config.base_bytes = options.max_bytes_for_level_base;
  config.multiplier = options.max_bytes_for_level_multiplier;
  config.choose_best = options.compaction_style == CompactionStyle::kLeveledChooseBest;
  return config;
}

// Who never wants level 0 to be merged asks for more than fits into 64 bits.
uint64_t BytesOfMemtables(uint64_t count, uint64_t memtable_bytes) {
  return std::min(count, std::numeric_limits<uint64_t>::max() / memtable_bytes) * memtable_bytes;
}

GuardsPolicyConfig GuardsConfig(const Options& options) {
  GuardsPolicyConfig config;
  config.level0_trigger = Level0TriggersOf(options).merge;
  const uint64_t memtables = config.level0_trigger / static_cast<uint64_t>(options.scatter_width);
  config.base_bytes = std::max<uint64_t>(options.max_bytes_for_level_base,
                                         BytesOfMemtables(memtables, options.write_buffer_size));
  config.runs_max = static_cast<size_t>(options.max_tables_per_guard);
  config.newer_percent_max = static_cast<uint64_t>(options.max_size_amplification_percent);
  config.idle_newer_percent_max = static_cast<uint64_t>(options.idle_size_amplification_percent);
  config.table_bytes_max = TableBytesMax(options);
  config.hash_bits = static_cast<uint32_t>(options.guard_bits);
  return config;
}

TieredPolicyConfig TieredConfig(const Options& options) {
  TieredPolicyConfig config;
  config.level0_trigger = TablesInFlushes(options.level0_file_num_compaction_trigger, options);
  config.runs_max = static_cast<size_t>(options.max_bytes_for_level_multiplier);
  return config;
}

}  // namespace

uint64_t TableBytesMax(const Options& options) {
  constexpr uint64_t kLeast = uint64_t{64} << 10;
  return std::max(kLeast, options.max_file_size / static_cast<uint64_t>(options.scatter_width));
}

// With guards, level 0 is one of them: were it merged sooner, everything would be written once
// more.
Level0Triggers Level0TriggersOf(const Options& options) {
  Level0Triggers triggers{TablesInFlushes(options.level0_file_num_compaction_trigger, options),
                          TablesInFlushes(options.level0_stop_writes_trigger, options)};
  if (options.compaction_style != CompactionStyle::kGuards) return triggers;
  triggers.merge = std::max(triggers.merge, TablesInFlushes(options.max_tables_per_guard, options));
  triggers.stop = std::max(triggers.stop, 2 * triggers.merge);
  return triggers;
}

std::unique_ptr<MergePolicy> NewMergePolicy(const Options& options) {
  switch (options.compaction_style) {
    case CompactionStyle::kLeveled:
    case CompactionStyle::kLeveledChooseBest:
      return NewLeveledPolicy(LeveledConfig(options));
    case CompactionStyle::kGuards:
      return NewGuardsPolicy(GuardsConfig(options));
    case CompactionStyle::kFullLeveling:
      return NewFullLevelingPolicy(LeveledConfig(options));
    case CompactionStyle::kTiered:
      return NewTieredPolicy(TieredConfig(options));
    case CompactionStyle::kSizeTiered:
      return NewSizeTieredPolicy(SizeTieredPolicyConfig());
  }
  return nullptr;
}

}  // namespace dlsm
