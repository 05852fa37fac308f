#include "db/background/memtable_budget.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "db/memtable/memtable.h"
#include "db/tree/tree.h"

namespace dlsm {
namespace {

// Of a view's memtables; what waits for its flush is bounded by bytes long before.
constexpr size_t kImmutablesMax = 127;

size_t GuaranteeFor(size_t memtable_bytes, size_t memtables_max, size_t shards) {
  return memtable_bytes * memtables_max / 2 / shards;
}

size_t Excess(size_t bytes, size_t guaranteed) {
  return bytes > guaranteed ? bytes - guaranteed : 0;
}

}  // namespace

MemtableBudget::MemtableBudget(size_t memtable_bytes, size_t memtables_max)
    : memtable_bytes_(memtable_bytes), memtables_max_(memtables_max) {
  assert(memtable_bytes <= Memtable::kBytesMax);
}

Status MemtableBudget::Check(size_t memtable_bytes, size_t memtables_max, size_t shards) {
  if (shards <= 1 || GuaranteeFor(memtable_bytes, memtables_max, shards) >= 2 * kMemtableBytesMin) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      std::to_string(shards) + " shards share too little memory for memtables",
      "write_buffer_size * max_write_buffer_number must be at least " +
          std::to_string(4 * kMemtableBytesMin >> 10) + " KiB for each shard");
}

size_t MemtableBudget::MostOfOneShard(size_t memtable_bytes, size_t memtables_max, size_t shards) {
  const size_t all = memtable_bytes * memtables_max;
  return shards <= 1 ? all : all / 2 + GuaranteeFor(memtable_bytes, memtables_max, shards);
}

void MemtableBudget::Share(std::vector<Tree*> shards) {
  guaranteed_ = GuaranteeFor(memtable_bytes_, memtables_max_, std::max<size_t>(shards.size(), 1));
  shards_ = std::move(shards);
}

bool MemtableBudget::UsedUp() const {
  size_t excess = 0;
  for (Tree* shard : shards_) {
    const Tree::MemtableUsage usage = shard->Usage();
    excess += Excess(usage.active_bytes + usage.immutable_bytes, guaranteed_);
  }
  return excess >= excess_max();
}

MemtableBudget::Ruling MemtableBudget::RulingFor(Tree& shard) const {
  Ruling ruling;
  ruling.switch_at = memtable_bytes_;
  ruling.look_again_at = memtable_bytes_;
  ruling.look_at_next = memtable_bytes_;
  if (shards_.size() <= 1) {
    ruling.immutables_max = memtables_max_ - 1;
    return ruling;
  }
  ruling.immutables_max = kImmutablesMax;
  const size_t least = std::min(guaranteed_ / 2, memtable_bytes_);
  const bool used_up = UsedUp();
  if (used_up) ruling.switch_at = least;
  const Tree::MemtableUsage usage = shard.Usage();
  const bool immutable = usage.immutables > 0 || usage.active_bytes >= ruling.switch_at;
  ruling.must_wait =
      used_up && immutable && usage.active_bytes + usage.immutable_bytes >= guaranteed_;
  ruling.look_at_next = least;
  const size_t step = std::max<size_t>(guaranteed_ / 8, 4096);
  ruling.look_again_at =
      usage.active_bytes < least ? least : std::min(memtable_bytes_, usage.active_bytes + step);
  return ruling;
}

size_t MemtableBudget::ShardToSwitch() const {
  if (shards_.size() <= 1 || !UsedUp()) return kNone;
  size_t largest = 0;
  size_t largest_bytes = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const size_t bytes = shards_[i]->Usage().active_bytes;
    if (bytes > largest_bytes) {
      largest = i;
      largest_bytes = bytes;
    }
  }
  return largest_bytes >= guaranteed_ / 2 ? largest : kNone;
}

double MemtableBudget::Pressure(Tree& shard) const {
  const Tree::MemtableUsage usage = shard.Usage();
  if (shards_.size() <= 1) {
    return static_cast<double>(usage.immutables) /
           static_cast<double>(std::max<size_t>(memtables_max_ - 1, 1));
  }
  size_t excess = 0;
  for (Tree* each : shards_) excess += Excess(each->Usage().immutable_bytes, guaranteed_);
  return static_cast<double>(excess) / static_cast<double>(excess_max());
}

}  // namespace dlsm
