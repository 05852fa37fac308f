#include "db/merge_policies.h"

#include <algorithm>

namespace dlsm {
namespace {

LeveledPolicyConfig LeveledConfig(const Options& options) {
  LeveledPolicyConfig config;
  config.level0_trigger = static_cast<size_t>(options.level0_file_num_compaction_trigger);
  config.base_bytes = options.max_bytes_for_level_base;
  config.multiplier = options.max_bytes_for_level_multiplier;
  config.choose_best = options.compaction_style == CompactionStyle::kLeveledChooseBest;
  return config;
}

GuardsPolicyConfig GuardsConfig(const Options& options) {
  GuardsPolicyConfig config;
  config.level0_trigger = Level0TriggersOf(options).merge;
  config.base_bytes = std::max<uint64_t>(options.max_bytes_for_level_base,
                                         config.level0_trigger * options.write_buffer_size);
  config.runs_max = static_cast<size_t>(options.max_tables_per_guard);
  config.newer_percent_max = static_cast<uint64_t>(options.max_size_amplification_percent);
  config.table_bytes_max = options.max_file_size;
  config.hash_bits = static_cast<uint32_t>(options.guard_bits);
  return config;
}

TieredPolicyConfig TieredConfig(const Options& options) {
  TieredPolicyConfig config;
  config.level0_trigger = static_cast<size_t>(options.level0_file_num_compaction_trigger);
  config.runs_max =
      static_cast<size_t>(std::clamp(options.max_bytes_for_level_multiplier, 2.0, 1000.0));
  return config;
}

}  // namespace

// With guards, level 0 is one of them: were it merged sooner, everything would be written once
// more.
Level0Triggers Level0TriggersOf(const Options& options) {
  Level0Triggers triggers{static_cast<size_t>(options.level0_file_num_compaction_trigger),
                          static_cast<size_t>(options.level0_stop_writes_trigger)};
  if (options.compaction_style != CompactionStyle::kGuards) return triggers;
  triggers.merge = std::max(triggers.merge, static_cast<size_t>(options.max_tables_per_guard));
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
