#include "db/background/flush_job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "db/nodes/flush_room.h"
#include "db/tree/leftovers.h"
#include "table/key_prefix.h"
#include "table/table_bounds.h"
#include "table/table_room.h"
#include "table/version_rule.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Where the order is the user's own, keys may be equal of which the bytes differ.
bool IsSameKey(const InternalKeyComparator& comparator, const Slice& a, const Slice& b) {
  return comparator.bytewise() ? SameBytes(a, b) : comparator.CompareUserKeys(a, b) == 0;
}

// One table at a time; usually one is enough, or one for each memory node of those that it is
// scattered over.
class FlushWriter {
 public:
  // Tables have up to `table_bytes`; but for the last one, fragments end at `fragment_bytes`.
  // Their metas say that tombstones with numbers up to `applied` have been applied.
  FlushWriter(const TableStore& store, RemoteTableWriter* output, uint64_t table_bytes,
              uint64_t fragment_bytes, SequenceNumber applied)
      : store_(store),
        output_(output),
        applied_(applied),
        table_bytes_(table_bytes),
        next_bytes_(table_bytes),
        fragment_bytes_(fragment_bytes),
        cuts_left_(store.memory()->scatter_width() - 1),
        empty_table_(NewTableBuilder(store.table_options(), nullptr)),
        bounds_(store.comparator()) {}

  // `same_key`: as the one before.
  Status Add(const Slice& internal_key, const Slice& value, bool same_key) {
    if (cuts_left_ > 0 && !same_key && builder_ != nullptr && room_.Has(fragment_bytes_)) {
      --cuts_left_;
      DLSM_RETURN_IF_ERROR(FinishTable(&internal_key));
    }
    const uint64_t bytes_bound = empty_table_->RecordBytesBound(internal_key.size(), value.size());
    if (builder_ != nullptr && !room_.Fits(bytes_bound)) {
      DLSM_RETURN_IF_ERROR(FinishTable(&internal_key));
    }
    if (builder_ == nullptr) DLSM_RETURN_IF_ERROR(StartTable(internal_key, value));
    room_.Take(bytes_bound);
    return builder_->Add(internal_key, value, same_key);
  }

  // `next`: the internal key with which the next table begins; null: there is none.
  Status FinishTable(const Slice* next) {
    if (builder_ == nullptr) return Status::OK();
    TableMeta meta;
    std::string resident;
    DLSM_RETURN_IF_ERROR(builder_->Finish(&meta, &resident));
    bounds_.Set(builder_->edges(), next, &meta);
    meta.tombstones_applied = applied_;
    builder_.reset();
    sink_.reset();
    return output_->TableDone(std::move(meta), resident);
  }

 private:
  Status StartTable(const Slice& internal_key, const Slice& value) {
    // What is left of a reserve is small pieces, and deletions must fit into them.
    const uint64_t least =
        LoneRecordImageBound(store_.table_options(), internal_key.size(), value.size());
    // Where the memory node has no piece for all, several smaller tables do.
    uint64_t bytes = std::max(next_bytes_, least);
    Status made = output_->NewTable(bytes, &sink_);
    while (made.IsBusy() && bytes > least) {
      bytes = std::max(bytes / 2, least);
      made = output_->NewTable(bytes, &sink_);
    }
    DLSM_RETURN_IF_ERROR(made);
    // Small pieces come in numbers: the next one is not looked for from the top.
    next_bytes_ = std::min(table_bytes_, 2 * bytes);
    builder_ = NewTableBuilder(store_.table_options(), sink_.get());
    room_ = TableRoom(builder_.get(), sink_->capacity());
    return Status::OK();
  }

  const TableStore& store_;
  RemoteTableWriter* const output_;
  const SequenceNumber applied_;
  const uint64_t table_bytes_;
  uint64_t next_bytes_;  // Of the next table, if there is such a piece.
  const uint64_t fragment_bytes_;
  size_t cuts_left_;
  // For bounds only: it is never given a record.
  const std::unique_ptr<TableBuilder> empty_table_;
  std::unique_ptr<TableSink> sink_;
  std::unique_ptr<TableBuilder> builder_;
  TableRoom room_;  // Of builder_.
  TableBounds bounds_;
};

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
  FlushWriter writer(store, &output, std::min(TableBytesFor(usage_of_each), table_bytes_max),
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
