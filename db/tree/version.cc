#include "db/tree/version.h"

#include <algorithm>
#include <utility>

#include "util/status_macros.h"

namespace dlsm {

std::vector<Level> Version::Indexed(const InternalKeyComparator& comparator,
                                    std::vector<Level> levels) {
  for (Level& level : levels) level.Index(comparator);
  return levels;
}

// A number of a fragment goes if no table that the fragment overlaps has older versions that it has
// not been applied to. Memtables are flushed in order, so all that is older is in tables.
std::shared_ptr<const RangeTombstones> Version::OfUse(const InternalKeyComparator& comparator,
                                                      const std::vector<Level>& levels,
                                                      std::shared_ptr<const RangeTombstones> all) {
  const RangeTombstones& tombstones = *all;
  const std::vector<RangeFragment>& fragments = tombstones.fragments();
  // By fragment: tombstones with numbers above it may hide something. The smaller of what a table's
  // oldest version and the tombstones applied to it say.
  std::vector<SequenceNumber> of_use_above(fragments.size(), kSequenceNumberMax);
  for (const Level& level : levels) {
    for (const TableRef& table : level.AllTables()) {
      const SequenceNumber newest = tombstones.NewestFor(table->meta());
      table->SetHiddenBelow(newest);
      if (newest == 0) continue;
      const SequenceNumber above =
          std::max(table->meta().sequence_min, table->meta().tombstones_applied);
      const Slice largest = ExtractUserKey(table->largest());
      for (size_t i = tombstones.FirstBehind(ExtractUserKey(table->smallest()));
           i < fragments.size() && comparator.CompareUserKeys(fragments[i].begin, largest) <= 0;
           ++i) {
        of_use_above[i] = std::min(of_use_above[i], above);
      }
    }
  }
  std::vector<RangeFragment> kept;
  size_t dropped = 0;
  for (size_t i = 0; i < fragments.size(); ++i) {
    RangeFragment fragment = fragments[i];
    dropped += std::erase_if(fragment.sequences,
                             [&](SequenceNumber number) { return number <= of_use_above[i]; });
    if (!fragment.sequences.empty()) kept.push_back(std::move(fragment));
  }
  if (dropped == 0) return all;
  if (kept.empty()) return nullptr;
  return std::make_shared<const RangeTombstones>(comparator, std::move(kept));
}

std::vector<const Level*> Version::Occupied(const std::vector<Level>& levels) {
  std::vector<const Level*> occupied;
  for (const Level& level : levels) {
    if (!level.empty()) occupied.push_back(&level);
  }
  return occupied;
}

std::shared_ptr<const Version> Version::With(const VersionEdit& edit) const {
  std::vector<Level> levels = levels_;
  for (size_t i = 0; i < edit.levels.size(); ++i) {
    const VersionEdit::LevelEdit& changes = edit.levels[i];
    if (changes.removed.empty() && changes.added.empty()) continue;
    std::vector<uint64_t> removed = changes.removed;
    std::sort(removed.begin(), removed.end());
    levels[i] = levels[i].With(comparator_, removed, changes.added, changes.in_place);
  }
  for (size_t i = 1; i < edit.levels.size(); ++i) {
    for (const std::string& guard : edit.levels[i].guards) AddGuard(guard, i, &levels);
    if (!edit.levels[i].removed.empty()) {
      DeleteEmptyGuards(edit.levels[i].guards_max, i, &levels);
    }
  }
  return std::make_shared<const Version>(
      comparator_, std::move(levels), edit.tombstones != nullptr ? edit.tombstones : tombstones_);
}

std::shared_ptr<const Version> Version::WithReaders(
    const std::unordered_map<uint64_t, TableRef>& tables) const {
  std::vector<Level> levels = levels_;
  for (Level& level : levels) level.ReplaceReaders(tables);
  return std::make_shared<const Version>(comparator_, std::move(levels), tombstones_);
}

void Version::AddGuard(const Slice& key, size_t first, std::vector<Level>* levels) const {
  for (size_t i = first; i < levels->size(); ++i) {
    if ((*levels)[i].DividesTable(comparator_, key)) return;
  }
  for (size_t i = first; i < levels->size(); ++i) {
    (*levels)[i] = (*levels)[i].WithGuard(comparator_, key);
  }
}

// A guard stays while a level above has it, and while levels below have tables in its range: more
// of them will come this way. The latter does not count for what is beyond guards_max.
void Version::DeleteEmptyGuards(size_t guards_max, size_t index, std::vector<Level>* levels) const {
  size_t left = (*levels)[index].guards().size();
  (*levels)[index] = (*levels)[index].WithoutEmptyGuards([&](const Guard& guard) {
    if ((*levels)[index - 1].HasGuard(comparator_, guard.key)) return false;
    const auto has_tables = [&](const Level& level) {
      return !level.GuardFor(comparator_, guard.key).tables.empty();
    };
    const auto below = levels->begin() + static_cast<ptrdiff_t>(index) + 1;
    if (left <= guards_max && std::any_of(below, levels->end(), has_tables)) return false;
    --left;
    return true;
  });
}

// In each guard that such a lookup visits.
void Version::CountLookups(const LookupKey& key, uint64_t lookups) const {
  for (const Level& level : levels_) {
    const Table* const oldest = level.IndexFor(comparator_, key.user_key()).oldest();
    if (oldest != nullptr) oldest->CountLooks(lookups);
  }
}

uint64_t Version::bytes() const {
  uint64_t total = 0;
  for (const Level& level : levels_) total += level.bytes();
  return total;
}

size_t Version::table_count() const {
  size_t count = 0;
  for (const Level& level : levels_) count += level.table_count();
  return count;
}

uint64_t Version::entries() const {
  uint64_t count = 0;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) count += table->meta().entries;
  }
  return count;
}

uint64_t Version::metadata_bytes() const {
  uint64_t total = 0;
  for (const Level& level : levels_) {
    for (const Guard* guard : level.AllGuards()) {
      for (const TableRef& table : guard->tables) total += table->reader().resident_bytes();
      total += guard->index->resident_bytes();
    }
  }
  return total;
}

SequenceNumber Version::sequence_max() const {
  SequenceNumber largest = 0;
  for (const Level& level : levels_) {
    for (const TableRef& table : level.AllTables()) {
      largest = std::max(largest, table->meta().sequence_max);
    }
  }
  return largest;
}

Status Version::CheckInvariants() const {
  for (const Level& level : levels_) DLSM_RETURN_IF_ERROR(level.CheckInvariants(comparator_));
  for (size_t i = 0; i + 1 < levels_.size(); ++i) {
    for (const Guard& guard : levels_[i].guards()) {
      if (!levels_[i + 1].HasGuard(comparator_, guard.key)) {
        return Status::Corruption("a guard is missing in the level below");
      }
    }
  }
  return Status::OK();
}

}  // namespace dlsm
