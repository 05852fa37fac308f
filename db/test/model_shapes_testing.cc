#include "db/test/model_shapes_testing.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "dLSM/comparator.h"
#include "dLSM/filter_policy.h"
#include "dLSM/slice.h"
#include "db/test/shape_changes_testing.h"
#include "util/hash.h"

namespace dlsm {
namespace {

// By length first. A merge of these can only run in this process.
class ShortFirst final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  const char* Name() const override { return "test.ShortFirst"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

// One byte of hash for each key.
class ByteFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "test.ByteFilter"; }
  void CreateFilter(const Slice* keys, int n, std::string* filter) const override {
    for (int i = 0; i < n; ++i) filter->push_back(HashOf(keys[i]));
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return filter.ToStringView().find(HashOf(key)) != std::string_view::npos;
  }

 private:
  static char HashOf(const Slice& key) { return static_cast<char>(Hash64(key) & 0xff); }
};

const Comparator* TestComparator() {
  static const ShortFirst comparator;
  return &comparator;
}
const FilterPolicy* TestFilter() {
  static const ByteFilter filter;
  return &filter;
}

void Blocks(Options* options) {
  options->table_format = TableFormat::kBlockBased;
  options->block_size = 2048;
}
void SnappyBlocks(Options* options) {
  Blocks(options);
  options->block_size = 8192;
  options->compression = kSnappyCompression;
}

// Boundaries that are keys of the test, lie between keys, and leave a shard empty.
void Shards(Options* options) {
  options->shard_boundaries = {"aaaaaaaa", "aaaaaaaab", "k1", "k2375700"};
  options->write_buffer_size = 128 << 10;
}

template <TablePlacement placement>
void PlaceTables(Options* options) {
  options->placement = placement;
}

}  // namespace

std::vector<ModelShape> AllModelShapes() {
  return {
      {"Shards", "", Shards},
      {"ShardsEven", "",
       [](Options* o) {
         o->shards = 3;
         o->compaction_place = CompactionPlace::kComputeNode;
       }},
      {"ShardsGuards", "",
       [](Options* o) {
         Shards(o);
         Guards(o);
       }},
      {"ShardsReverseBlocks", "",
       [](Options* o) {
         Shards(o);
         Blocks(o);
         o->comparator = ReverseBytewiseComparator();
         std::reverse(o->shard_boundaries.begin(), o->shard_boundaries.end());
       }},
      {"ShardsUserOrder", "",
       [](Options* o) {
         Guards(o);
         o->comparator = TestComparator();
         o->shard_boundaries = {"", "k00", "k0000000", "prefix/100"};
         o->write_buffer_size = 128 << 10;
       }},
      {"ShardsShm", "shm", Shards},
      {"ShardsTcp", "tcp", Shards},
      {"ShardsShmTwoNodes", "shm", Shards, 2},
      {"ShardsTcpThreeNodesMergedAnywhere", "tcp",
       [](Options* o) {
         Shards(o);
         o->compaction_place = CompactionPlace::kAutomatic;
       },
       3},
      {"RoundRobinShm", "shm", PlaceTables<TablePlacement::kRoundRobin>, 3},
      {"PowerOfDTcpGuardsMergedAnywhere", "tcp",
       [](Options* o) {
         PlaceTables<TablePlacement::kPowerOfD>(o);
         Guards(o);
         o->compaction_place = CompactionPlace::kAutomatic;
       },
       3},
      {"ScatteredTcpGuards", "tcp",
       [](Options* o) {
         PlaceTables<TablePlacement::kPowerOfD>(o);
         Guards(o);
         o->scatter_width = 2;
       },
       3},
      {"ScatteredShmMergedHere", "shm",
       [](Options* o) {
         PlaceTables<TablePlacement::kRoundRobin>(o);
         MergeHere(o);
         o->scatter_width = 3;
       },
       3},
      {"ScatteredShardsTcpBlocks", "tcp",
       [](Options* o) {
         Shards(o);
         Blocks(o);
         PlaceTables<TablePlacement::kPowerOfD>(o);
         o->scatter_width = 2;
       },
       3},
      {"ShardsTcpSmallMemtables", "tcp",
       [](Options* o) {
         o->shards = 8;
         o->write_buffer_size = 128 << 10;
         o->max_background_flushes = o->max_background_compactions = 1;
       }},
      {"Guards", "", Guards},
      {"GuardsMergedHere", "",
       [](Options* o) {
         Guards(o);
         MergeHere(o);
       }},
      {"GuardsReverse", "",
       [](Options* o) {
         Guards(o);
         o->comparator = ReverseBytewiseComparator();
       }},
      {"GuardsUserOrder", "",
       [](Options* o) {
         Guards(o);
         o->comparator = TestComparator();
       }},
      {"GuardsManyLevels", "",
       [](Options* o) {
         Guards(o);
         o->max_tables_per_guard = 2;
         o->max_bytes_for_level_base = 16 << 10;
         o->num_levels = 7;
       }},
      {"GuardsSnappyBlocks", "",
       [](Options* o) {
         Guards(o);
         SnappyBlocks(o);
       }},
      {"GuardsTcp", "tcp", Guards},
      {"ChooseBest", "", Style<CompactionStyle::kLeveledChooseBest>},
      {"FullLeveling", "", Style<CompactionStyle::kFullLeveling>},
      {"Tiered", "", Style<CompactionStyle::kTiered>},
      {"TieredMergedHere", "",
       [](Options* o) {
         Style<CompactionStyle::kTiered>(o);
         MergeHere(o);
       }},
      {"SizeTiered", "", Style<CompactionStyle::kSizeTiered>},
      {"SizeTieredTcp", "tcp", Style<CompactionStyle::kSizeTiered>},
      {.name = "LongKeys", .long_keys = true},
      {.name = "LongKeysGuardsShards",
       .change =
           [](Options* o) {
             Shards(o);
             Guards(o);
           },
       .long_keys = true},
      {.name = "LongKeysReverseBlocksGuardsTcp",
       .fabric = "tcp",
       .change =
           [](Options* o) {
             Blocks(o);
             Guards(o);
             o->comparator = ReverseBytewiseComparator();
           },
       .long_keys = true},
      {"Bytes"},
      {"BytesMergedHere", "", MergeHere},
      {"BytesNoFilter", "", [](Options* o) { o->filter_policy = Options::kNoFilter; }},
      {"BytesUserFilter", "", [](Options* o) { o->filter_policy = TestFilter(); }},
      {"BytesReverse", "", [](Options* o) { o->comparator = ReverseBytewiseComparator(); }},
      {"BytesUserOrder", "", [](Options* o) { o->comparator = TestComparator(); }},
      {"BytesParanoid", "", [](Options* o) { o->paranoid_checks = true; }},
      {"BytesManyParts", "",
       [](Options* o) { o->max_subcompactions = o->max_background_compactions = 4; }},
      {"Blocks", "", Blocks},
      {"BlocksMergedHere", "",
       [](Options* o) {
         Blocks(o);
         MergeHere(o);
       }},
      {"SnappyBlocks", "", SnappyBlocks},
      {"BlocksUserOrder", "",
       [](Options* o) {
         Blocks(o);
         o->comparator = TestComparator();
         o->filter_policy = TestFilter();
       }},
      {"ShmBytes", "shm"},
      {"ShmSnappyBlocksMergedHere", "shm",
       [](Options* o) {
         SnappyBlocks(o);
         MergeHere(o);
       }},
      {"TcpBytes", "tcp"},
      {"TcpBytesMergedHere", "tcp", MergeHere},
      {"TcpBytesMergedAnywhere", "tcp",
       [](Options* o) { o->compaction_place = CompactionPlace::kAutomatic; }},
      {"TcpBlocks", "tcp", Blocks},
      {"TcpReverseMergedHere", "tcp",
       [](Options* o) {
         o->comparator = ReverseBytewiseComparator();
         MergeHere(o);
       }},
      {"VerbsBytes", "verbs"},
      {"VerbsBlocksMergedHere", "verbs",
       [](Options* o) {
         Blocks(o);
         MergeHere(o);
       }},
  };
}

}  // namespace dlsm
