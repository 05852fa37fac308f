#include "db/background/flush_job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "db/background/run_writer.h"
#include "db/nodes/flush_room.h"
#include "db/tree/leftovers.h"
#include "table/key_prefix.h"
#include "table/version_rule.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Where the order is the user's own, keys may be equal of which the bytes differ.
bool IsSameKey(const InternalKeyComparator& comparator, const Slice& a, const Slice& b) {
  return comparator.bytewise() ? SameBytes(a, b) : comparator.CompareUserKeys(a, b) == 0;
}

// `next` is asked for one entry after the other, in order, and returns false at the end. The key of
// an entry stays where it is until `next` has been called twice more. `usage`: about what memory
// all entries have. `tombstones`: null: there are none among the entries.
template <typename Next>
Status WriteEntries(uint64_t usage, Next next, const std::vector<SequenceNumber>& snapshots,
                    const RangeTombstones* tombstones, const TableStore& store,
                    PlacedMemory::WhenFull when_full,
                    const std::function<uint64_t()>& new_table_number, FlushOutcome* outcome) {
  RemoteTableWriter output(&store, Purpose::kFlush, when_full, new_table_number);
  // A large batch may have made the memtable larger than any table may be: then one more follows.
  const uint64_t table_bytes_max = std::min(uint64_t{1} << 30, store.table_bytes_limit()) * 2;
  const uint64_t usage_of_each = usage / store.memory()->scatter_width();
  // A memtable needs more than a table for the same records, so that fragments even out below it.
  RunWriter writer(store, &output, std::min(TableBytesFor(usage_of_each), table_bytes_max),
                   usage_of_each - usage_of_each / 6,
                   tombstones == nullptr ? 0 : AppliedUpTo(tombstones->newest(), snapshots));
  Slice internal_key;
  Slice value;
  Slice user_key;  // Of the entry before.
  bool first = true;
  bool kept = false;  // A version of the key has been added.
  // Memtables older than this one may still be on their way: so deletions stay.
  VersionRule rule(store.comparator(), snapshots, /*older=*/nullptr, tombstones);
  while (next(&internal_key, &value)) {
    const bool same_key =
        !first && IsSameKey(store.comparator(), user_key, ExtractUserKey(internal_key));
    user_key = ExtractUserKey(internal_key);
    if (!same_key) kept = false;
    if (rule.Keep(internal_key, same_key)) [[likely]] {
      DLSM_RETURN_IF_ERROR(writer.Add(internal_key, value, /*same_key=*/kept));
      kept = true;
    }
    first = false;
  }
  DLSM_RETURN_IF_ERROR(writer.FinishTable(/*next=*/nullptr));
  outcome->bytes = output.bytes_written();
  DLSM_RETURN_IF_ERROR(output.Release(&outcome->tables));
  NoteKeepers(outcome->tables, snapshots);
  return Status::OK();
}

}  // namespace

Status FlushMemtable(const Memtable& memtable, const std::vector<SequenceNumber>& snapshots,
                     const TableStore& store, PlacedMemory::WhenFull when_full,
                     const std::function<uint64_t()>& new_table_number, FlushOutcome* outcome) {
  const std::unique_ptr<Iterator> entries = memtable.NewIterator(/*whole=*/true);
  bool begun = false;
  const auto next = [&](Slice* internal_key, Slice* value) {
    if (begun) [[likely]] {
      entries->Next();
    } else {
      entries->SeekToFirst();
      begun = true;
    }
    if (!entries->Valid()) return false;
    *internal_key = entries->key();
    *value = entries->value();
    return true;
  };
  std::optional<RangeTombstones> tombstones;
  if (!memtable.ranges().empty()) {
    tombstones.emplace(
        store.comparator(),
        RangeTombstones::Fragments(store.comparator(), /*older=*/nullptr,
                                   memtable.ranges().List(kSequenceNumberMax), snapshots));
  }
  return WriteEntries(memtable.MemoryUsage(), next, snapshots,
                      tombstones.has_value() ? &*tombstones : nullptr, store, when_full,
                      new_table_number, outcome);
}

// Nothing is visible yet, so no snapshot keeps older versions.
Status FlushReplayed(ReplayedEntries::Piece* piece, const RangeTombstones* tombstones,
                     const TableStore& store, PlacedMemory::WhenFull when_full,
                     const std::function<uint64_t()>& new_table_number, FlushOutcome* outcome) {
  return WriteEntries(
      piece->bytes(),
      [piece](Slice* internal_key, Slice* value) { return piece->Next(internal_key, value); },
      /*snapshots=*/{}, tombstones, store, when_full, new_table_number, outcome);
}

}  // namespace dlsm
