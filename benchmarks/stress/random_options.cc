#include "benchmarks/stress/random_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "dLSM/filter_policy.h"

namespace dlsm::stress {
namespace {

template <typename Value, size_t count>
Value PickOf(const std::array<Value, count>& values, Random* random) {
  return values[random->Uniform(count)];
}

const char* NameOf(CompactionStyle style) {
  switch (style) {
    case CompactionStyle::kLeveled:
      return "leveled";
    case CompactionStyle::kGuards:
      return "guards";
    case CompactionStyle::kLeveledChooseBest:
      return "leveled_choose_best";
    case CompactionStyle::kFullLeveling:
      return "full_leveling";
    case CompactionStyle::kTiered:
      return "tiered";
    case CompactionStyle::kSizeTiered:
      return "size_tiered";
  }
  return "?";
}

// A user's comparator, of which indexes and memory nodes know nothing: by the number at the front,
// of any length, and by the bytes behind it. The order of KeySpace's keys is the same.
class NumberFirst final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    const size_t a_digits = Digits(a);
    const size_t b_digits = Digits(b);
    const int numbers = Number(a, a_digits).compare(Number(b, b_digits));
    return numbers != 0 ? numbers : a.compare(b);
  }
  const char* Name() const override { return "stress.NumberFirst"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  static constexpr size_t kDigitsMax = 8;
  static size_t Digits(const Slice& key) {
    size_t digits = 0;
    while (digits < std::min(key.size(), kDigitsMax) && IsDigit(key[digits])) ++digits;
    return digits;
  }
  static bool IsDigit(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
  }
  // Numbers of fewer digits are smaller ones.
  static std::string Number(const Slice& key, size_t digits) {
    return std::string(kDigitsMax - digits, '0') + std::string(key.data(), digits);
  }
};

const Comparator* OwnOrder() {
  static const NumberFirst order;
  return &order;
}

// Keys that OwnOrder() finds equal are the same bytes, so this suits it; but it is no default
// there.
const FilterPolicy* Bloom() {
  static const std::unique_ptr<const FilterPolicy> bloom(NewBloomFilterPolicy(10));
  return bloom.get();
}

bool HasFilters(const Options& options) {
  if (options.filter_policy == nullptr) return options.comparator != OwnOrder();
  return options.filter_policy != Options::kNoFilter;
}

std::string Describe(const Options& options) {
  return fmt::format(
      "order={} style={} shards={} format={} block={} compression={} filter={} memtable={}x{} "
      "table={} "
      "level0={}/{} base={} per_guard={} place={} schedule={} constraint={} slow_down={} "
      "flushes={} merges={} parts={} placement={} scatter={} publish_ms={} budget={} values={} "
      "log={}",
      options.comparator->Name(), NameOf(options.compaction_style),
      options.shard_boundaries.size() + 1,
      options.table_format == TableFormat::kBlockBased ? "block" : "byte", options.block_size,
      options.compression == kSnappyCompression ? "snappy" : "none",
      HasFilters(options) ? "bloom" : "none", options.write_buffer_size,
      options.max_write_buffer_number, options.max_file_size,
      options.level0_file_num_compaction_trigger, options.level0_stop_writes_trigger,
      options.max_bytes_for_level_base, options.max_tables_per_guard,
      static_cast<int>(options.compaction_place), static_cast<int>(options.merge_scheduler),
      static_cast<int>(options.component_constraint), options.slow_down_writes,
      options.max_background_flushes, options.max_background_compactions,
      options.max_subcompactions, static_cast<int>(options.placement), options.scatter_width,
      options.publish_interval_ms, options.memory_budget, options.value_cache_size,
      static_cast<int>(options.log));
}

void DrawSizes(Options* options, Random* random) {
  constexpr size_t kKiB = 1024;
  options->write_buffer_size =
      PickOf(std::array{64 * kKiB, 128 * kKiB, 512 * kKiB, 4096 * kKiB}, random);
  options->max_write_buffer_number = PickOf(std::array{2, 3, 4, 8}, random);
  // Every shard needs its part of the memory.
  const size_t shards = options->shard_boundaries.size() + 1;
  options->write_buffer_size = std::max(options->write_buffer_size, 64 * kKiB * shards);
  options->max_file_size = PickOf(std::array{64 * kKiB, 128 * kKiB, 1024 * kKiB}, random);
  options->level0_file_num_compaction_trigger = PickOf(std::array{1, 2, 4, 8}, random);
  options->level0_stop_writes_trigger =
      options->level0_file_num_compaction_trigger * PickOf(std::array{2, 4}, random);
  options->max_bytes_for_level_base =
      PickOf(std::array<uint64_t, 3>{64 * kKiB, 512 * kKiB, 8192 * kKiB}, random);
  options->max_bytes_for_level_multiplier = PickOf(std::array{2.0, 4.0, 10.0}, random);
  options->max_tables_per_guard = PickOf(std::array{2, 4, 16}, random);
  // The least that is permitted, where records come and go all the time, or one that holds more.
  options->value_cache_size = PickOf(std::array<uint64_t, 3>{0, 64 * kKiB, 1024 * kKiB}, random);
  // The least that is permitted, or no limit.
  options->memory_budget = 0;
  if (random->OneIn(2)) return;
  const auto memtables = static_cast<uint64_t>(options->max_write_buffer_number);
  const size_t cache = options->table_format == TableFormat::kBlockBased ? 8192 * kKiB : 0;
  options->memory_budget =
      options->write_buffer_size * memtables + cache + options->value_cache_size + 64 * kKiB;
}

void DrawWork(Options* options, Random* random) {
  options->compaction_place =
      PickOf(std::array{CompactionPlace::kMemoryNode, CompactionPlace::kComputeNode,
                        CompactionPlace::kAutomatic},
             random);
  options->merge_scheduler =
      PickOf(std::array{MergeSchedule::kSingle, MergeSchedule::kFair, MergeSchedule::kGreedy,
                        MergeSchedule::kSpringAndGear},
             random);
  options->component_constraint =
      PickOf(std::array{ComponentConstraint::kLocal, ComponentConstraint::kGlobal}, random);
  options->slow_down_writes = random->OneIn(3);
  options->max_background_flushes = PickOf(std::array{1, 2, 3}, random);
  options->max_background_compactions = PickOf(std::array{1, 2, 3}, random);
  options->max_subcompactions = PickOf(std::array{1, 2, 4}, random);
  options->placement = PickOf(
      std::array{TablePlacement::kByShard, TablePlacement::kRoundRobin, TablePlacement::kPowerOfD},
      random);
  options->publish_interval_ms = PickOf(std::array<uint64_t, 4>{0, 0, 10, 200}, random);
  options->scatter_width =
      options->placement == TablePlacement::kByShard ? 1 : PickOf(std::array{1, 2, 3}, random);
}

void DrawFormat(Options* options, Random* random) {
  options->table_format =
      random->OneIn(3) ? TableFormat::kBlockBased : TableFormat::kByteAddressable;
  options->block_size = PickOf(std::array<size_t, 2>{2048, 8192}, random);
  options->compression = options->table_format == TableFormat::kBlockBased && random->OneIn(2)
                             ? kSnappyCompression
                             : kNoCompression;
}

}  // namespace

DrawnOptions DrawDatabase(const KeySpace& space, int shards_max, Random* random) {
  DrawnOptions drawn;
  Options& options = drawn.options;
  options.create_if_missing = true;
  options.compaction_style = PickOf(
      std::array{CompactionStyle::kGuards, CompactionStyle::kGuards, CompactionStyle::kLeveled,
                 CompactionStyle::kLeveledChooseBest, CompactionStyle::kFullLeveling,
                 CompactionStyle::kTiered, CompactionStyle::kSizeTiered},
      random);
  if (random->OneIn(5)) options.comparator = OwnOrder();
  if (space.descending()) options.comparator = ReverseBytewiseComparator();
  if (options.comparator == OwnOrder() && random->OneIn(2)) options.filter_policy = Bloom();
  if (random->OneIn(5)) options.filter_policy = Options::kNoFilter;
  const int shards = random->OneIn(2)
                         ? 1
                         : 1 + static_cast<int>(random->Uniform(static_cast<uint64_t>(shards_max)));
  for (int i = 1; i < shards; ++i) {
    options.shard_boundaries.push_back(
        space.LowerBound(space.count() * static_cast<uint64_t>(i) / static_cast<uint64_t>(shards)));
  }
  if (shards > 1) options.shards = shards;
  // The same at every opening: whether a killed process may leave a torn batch depends on it.
  options.log = PickOf(std::array{LogLevel::kNone, LogLevel::kMemory, LogLevel::kDisk}, random);
  options.log_sync_interval_ms = PickOf(std::array<uint64_t, 4>{0, 1, 50, 1000}, random);
  DrawFormat(&options, random);
  DrawSizes(&options, random);
  DrawWork(&options, random);
  drawn.text = Describe(options);
  return drawn;
}

DrawnOptions DrawReopening(const DrawnOptions& before, Random* random) {
  DrawnOptions drawn = before;
  DrawFormat(&drawn.options, random);
  DrawSizes(&drawn.options, random);
  DrawWork(&drawn.options, random);
  drawn.text = Describe(drawn.options);
  return drawn;
}

}  // namespace dlsm::stress
