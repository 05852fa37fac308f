#include "db/merge/merge_job.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "db/merge/merge_outputs.h"
#include "db/tree/leftovers.h"
#include "db/tree/table_runs.h"
#include "port/allocation_point.h"
#include "port/thread.h"
#include "table/internal_key.h"
#include "table/merge_messages.h"
#include "table/version_rule.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Runs = std::vector<std::vector<TableRef>>;

// Newest first: inputs of the upper level, then those of the target.
Runs InputRuns(const InternalKeyComparator& comparator, const MergePick& pick) {
  Runs runs = RunsOf(comparator, pick.inputs);
  for (std::vector<TableRef>& run : RunsOf(comparator, pick.target_inputs)) {
    runs.push_back(std::move(run));
  }
  return runs;
}

struct Part {
  MergeOptions options;
  Runs runs;                       // Only tables that the part's range overlaps.
  uint64_t bytes = 0;              // Of them, within the range; about.
  std::vector<uint64_t> bytes_at;  // The same by memory node.
};

bool Overlaps(const InternalKeyComparator& comparator, const MergeOptions& options,
              const Table& table) {
  const bool before = options.has_begin && comparator.CompareUserKeys(
                                               ExtractUserKey(table.largest()), options.begin) < 0;
  const bool behind = options.has_end && comparator.CompareUserKeys(
                                             ExtractUserKey(table.smallest()), options.end) >= 0;
  return !before && !behind;
}

uint64_t BytesWithin(const MergeOptions& options, const Table& table) {
  const auto offset_of = [&table](const std::string& user_key) {
    return table.reader().ApproximateOffsetOf(
        LookupKey(user_key, kSequenceNumberMax).internal_key());
  };
  const uint64_t begin = options.has_begin ? offset_of(options.begin) : 0;
  const uint64_t end = options.has_end ? offset_of(options.end) : table.meta().image.bytes;
  return end > begin ? end - begin : 0;
}

// Of the whole merge.
MergeOptions OptionsOf(const MergeContext& context, const MergePick& pick,
                       const RangeTombstones* tombstones,
                       const std::vector<SequenceNumber>& snapshots) {
  MergeOptions options;
  options.table = context.store.table_options();
  options.snapshots = snapshots;
  options.older = pick.older;
  options.table_bytes_max =
      std::min(pick.table_bytes_max > 0 ? pick.table_bytes_max : context.config.table_bytes_max,
               context.store.table_bytes_limit());
  options.cut_points = pick.cut_points;
  options.cut_candidates = pick.cut_candidates;
  options.cut_hash_bits = pick.cut_hash_bits;
  if (tombstones != nullptr) {
    options.tombstones_applied = AppliedUpTo(tombstones->newest(), snapshots);
  }
  options.filter = context.config.filter;
  options.filter_above = snapshots.empty() ? 0 : snapshots.back();
  options.level = static_cast<uint32_t>(pick.target_level);
  return options;
}

// Gives the part those of the tables that its range overlaps, and that have something that is not
// hidden from every reader.
void TakeOverlapping(const TableStore& store, const Runs& runs, const RangeTombstones* tombstones,
                     const std::vector<SequenceNumber>& snapshots, Part* part) {
  part->bytes_at.resize(store.memory()->nodes());
  for (const std::vector<TableRef>& run : runs) {
    std::vector<TableRef> overlapping;
    for (const TableRef& table : run) {
      if (!Overlaps(store.comparator(), part->options, *table)) continue;
      if (tombstones != nullptr && tombstones->HideAll(table->meta(), snapshots)) continue;
      overlapping.push_back(table);
      const uint64_t bytes = BytesWithin(part->options, *table);
      part->bytes += bytes;
      const size_t node = store.memory()->NumberOf(table->meta().image.node);
      if (node < part->bytes_at.size()) part->bytes_at[node] += std::max<uint64_t>(bytes, 1);
    }
    if (!overlapping.empty()) part->runs.push_back(std::move(overlapping));
  }
}

// Those that hide something in the part's tables.
void TakeTombstones(const InternalKeyComparator& comparator, const RangeTombstones& tombstones,
                    Part* part) {
  const MergeOptions& options = part->options;
  const auto hides_some = [&](const std::vector<TableRef>& run) {
    return std::ranges::any_of(
        run, [&](const TableRef& table) { return tombstones.NewestFor(table->meta()) != 0; });
  };
  if (!std::ranges::any_of(part->runs, hides_some)) return;
  std::vector<TableRef> all;
  for (const std::vector<TableRef>& run : part->runs) all.insert(all.end(), run.begin(), run.end());
  const KeyRange hull = HullOf(comparator, all);
  const Slice smallest(options.has_begin ? options.begin : hull.smallest);
  const Slice largest(options.has_end ? options.end : hull.largest);
  part->options.tombstones = tombstones.Overlapping(&smallest, &largest);
}

// By the sequence numbers of its tables and tombstones: a snapshot between a version and the
// tombstone that hides it sees the version.
void DropNeedlessSnapshots(Part* part) {
  SequenceNumber least = kSequenceNumberMax;
  SequenceNumber most = 0;
  for (const std::vector<TableRef>& run : part->runs) {
    for (const TableRef& table : run) {
      least = std::min(least, table->meta().sequence_min);
      most = std::max(most, table->meta().sequence_max);
    }
  }
  for (const RangeFragment& fragment : part->options.tombstones) {
    most = std::max(most, fragment.sequences.front());
  }
  KeepDecidingSnapshots(least, most, &part->options.snapshots);
}

std::vector<Part> PartsOf(const MergeContext& context, const MergePick& pick,
                          const RangeTombstones* tombstones,
                          const std::vector<SequenceNumber>& snapshots) {
  const TableStore& store = context.store;
  size_t parts_min = store.memory()->PartsToFit(pick.input_bytes());
  if (!pick.undivided) parts_min = std::max(parts_min, store.memory()->scatter_width());
  const size_t parts_max =
      pick.undivided ? parts_min : std::max(context.config.parts_max, parts_min);
  const std::vector<std::string> boundaries =
      PartBoundaries(store.comparator(), pick, parts_max, parts_min);
  const Runs runs = InputRuns(store.comparator(), pick);
  const MergeOptions whole = OptionsOf(context, pick, tombstones, snapshots);
  std::vector<Part> parts(boundaries.size() + 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    MergeOptions& options = parts[i].options;
    options = whole;
    options.has_begin = i > 0;
    if (options.has_begin) options.begin = boundaries[i - 1];
    options.has_end = i < boundaries.size();
    if (options.has_end) options.end = boundaries[i];
    TakeOverlapping(store, runs, tombstones, snapshots, &parts[i]);
    if (tombstones != nullptr) TakeTombstones(store.comparator(), *tombstones, &parts[i]);
    DropNeedlessSnapshots(&parts[i]);
  }
  return parts;
}

class MergeRunner {
 public:
  explicit MergeRunner(const MergeContext& context) : context_(context) {}

  Status Run(const Part& part, MergeOutcome* outcome) const {
    if (part.runs.empty()) return Status::OK();
    PlacedMemory::MergeForecast forecast(context_.store.memory(), part.bytes_at);
    const std::vector<size_t> order = forecast.Order();
    MergeRequest request = RequestOf(part);
    const PlaceChoice choice = Place(part, request, context_.nodes[order.front()].load);
    if (choice.local) {
      forecast.RunsAt(context_.nodes.size());
      Count(choice.reason);
      return RunLocally(part, outcome);
    }
    outcome->remote = true;
    Status status;
    for (const size_t node : order) {
      if (node != order.front()) context_.nodes[node].load->NoteSent(part.bytes);
      forecast.RunsAt(node);
      status = RunRemotely(part, node, &request, outcome);
      if (!status.IsBusy() && !status.IsNotSupported()) {
        forecast.Done(outcome->statistics.bytes_read, outcome->statistics.bytes_written);
        Count(choice.reason);
        return status;
      }
      context_.nodes[node].load->NoteRefused(part.bytes);
    }
    // Where no single memory node has all of the input, to insist on memory nodes would be to wait
    // for all of them.
    // A memory node may not know the compaction filter.
    if (context_.config.place != CompactionPlace::kAutomatic && context_.nodes.size() == 1 &&
        !(status.IsNotSupported() && part.options.filter != nullptr)) {
      Count(choice.reason);
      return status;
    }
    forecast.RunsAt(context_.nodes.size());
    Count(PlaceReason::kRefused);
    outcome->remote = false;
    return RunLocally(part, outcome);
  }

 private:
  static bool HasTooManyPeers(const Part& part) {
    const auto has_inputs = [](uint64_t bytes) { return bytes > 0; };
    return std::ranges::count_if(part.bytes_at, has_inputs) > ptrdiff_t{kMergePeersMax};
  }

  PlaceChoice Place(const Part& part, const MergeRequest& request, MergeLoadMonitor* load) const {
    PlaceChoice choice;
    if (!MergeRequest::CanShip(context_.store.table_options())) {
      choice.local = true;
      choice.reason = PlaceReason::kOwnCode;
    } else if (context_.config.place == CompactionPlace::kComputeNode) {
      choice.local = true;
      choice.reason = PlaceReason::kFixed;
    } else if (!request.Fits() || HasTooManyPeers(part)) {
      choice.local = true;
      choice.reason = PlaceReason::kRefused;
    } else if (context_.config.place == CompactionPlace::kAutomatic) {
      choice = load->Place(part.bytes);
    } else {
      choice.reason = PlaceReason::kFixed;
      load->NoteSent(part.bytes);
    }
    return choice;
  }

  void Count(PlaceReason reason) const {
    constexpr std::array<Ticker, kPlaceReasonCount> kTickers = {
        Ticker::kPlacedFixed,          Ticker::kPlacedNearData, Ticker::kPlacedUnknown,
        Ticker::kPlacedMemoryNodeBusy, Ticker::kPlacedRefused,  Ticker::kPlacedOwnCode};
    context_.store.statistics()->Add(kTickers[static_cast<size_t>(reason)]);
  }

  Status RunLocally(const Part& part, MergeOutcome* outcome) const {
    std::vector<TableRun> runs;
    for (const std::vector<TableRef>& tables : part.runs) {
      TableRun& run = runs.emplace_back();
      for (const TableRef& table : tables) run.push_back(&table->reader());
    }
    MergeScheduler::Turn turn(context_.scheduler, part.bytes, context_.cancelled);
    DLSM_RETURN_IF_ERROR(turn.Proceed(0));  // Before it takes memory for its outputs.
    TableReadOptions read_options;
    read_options.purpose = Purpose::kCompaction;
    read_options.fill_cache = false;
    read_options.timeout = context_.store.timeout();
    read_options.prefetch_bytes = read_options.prefetch_bytes_max;
    RemoteTableWriter output(&context_.store, Purpose::kCompaction,
                             PlacedMemory::WhenFull::kRoomForMerges, context_.new_table_number);
    // Blocks of inputs and outputs are large.
    DLSM_RETURN_IF_ERROR(WithinMemory([&] {
      port::AllocationPoint("merge: tables");
      return MergeTables(part.options, runs, read_options, context_.store.queue_pairs(), &turn,
                         &output, &outcome->statistics);
    }));
    turn.Finished(outcome->statistics.bytes_read);
    DLSM_RETURN_IF_ERROR(output.Release(&outcome->tables));
    // Records are verified where they lie. Once this session has ended, another may write there
    // before they are used.
    std::vector<TableMeta> made;
    for (const TableRef& table : outcome->tables) made.push_back(table->meta());
    return CheckMergeOutputs(context_.store.comparator(), part.options, part.runs, std::nullopt,
                             made);
  }

  // But for what depends on who is asked.
  static MergeRequest RequestOf(const Part& part) {
    MergeRequest request;
    request.options = part.options;
    request.input_bytes = part.bytes;
    for (const std::vector<TableRef>& tables : part.runs) {
      std::vector<TableMeta>& run = request.runs.emplace_back();
      for (const TableRef& table : tables) run.push_back(table->meta());
    }
    return request;
  }

  Status RunRemotely(const Part& part, size_t number, MergeRequest* request,
                     MergeOutcome* outcome) const {
    const MergeNode& node = context_.nodes[number];
    request->session = node.session;
    request->peers.clear();
    for (size_t i = 0; i < context_.nodes.size(); ++i) {
      if (i != number && part.bytes_at[i] > 0) request->peers.push_back(context_.nodes[i].as_peer);
    }
    ++outcome->calls;
    MergeReply reply;
    DLSM_RETURN_IF_ERROR(Ask(part, node, request, &reply));
    outcome->statistics = reply.statistics;
    return OpenOutputs(std::move(reply.outputs), &outcome->tables);
  }

  // Numbers the request. Where this fails, what comes of it is nobody's.
  Status Ask(const Part& part, const MergeNode& node, MergeRequest* request,
             MergeReply* reply) const {
    MergeNumbers::Awaited answer(node.numbers.get());
    DLSM_RETURN_IF_ERROR(answer.Begin(&request->number));
    const uint64_t sent_before = node.load->sent_bytes();
    std::string reply_bytes;
    DLSM_RETURN_IF_ERROR(node.rpc->Call(Method::kMerge, request->Encode(), &reply_bytes,
                                        node.load->MergeDeadline()));
    DLSM_RETURN_IF_ERROR(reply->Decode(reply_bytes));
    DLSM_RETURN_IF_ERROR(CheckMergeOutputs(context_.store.comparator(), part.options, part.runs,
                                           node.as_peer.node, reply->outputs));
    node.load->NoteReport(reply->load, sent_before);
    return answer.Arrived();  // Last: from here on its tables are the caller's to look after.
  }

  // The outputs are ours from here on, and freed if one of them cannot be opened.
  Status OpenOutputs(std::vector<TableMeta> outputs, std::vector<TableRef>* tables) const {
    for (TableMeta& meta : outputs) meta.number = context_.new_table_number();
    const Status status = context_.store.OpenAll(outputs, Purpose::kCompaction, tables);
    if (status.ok()) return status;
    tables->clear();
    for (const TableMeta& meta : outputs) context_.store.memory()->Free(AllocatedSpan(meta.image));
    return status;
  }

  const MergeContext& context_;
};

void Append(const MergeOutcome& part, MergeOutcome* whole) {
  whole->tables.insert(whole->tables.end(), part.tables.begin(), part.tables.end());
  whole->statistics.records_read += part.statistics.records_read;
  whole->statistics.records_written += part.statistics.records_written;
  whole->statistics.bytes_read += part.statistics.bytes_read;
  whole->statistics.bytes_written += part.statistics.bytes_written;
  whole->statistics.micros += part.statistics.micros;
  whole->statistics.hidden += part.statistics.hidden;
  whole->statistics.filtered += part.statistics.filtered;
  whole->statistics.allocations += part.statistics.allocations;
  whole->calls += part.calls;
  whole->remote |= part.remote;
}

// Runs the parts side by side if `in_threads`, and those for which there are none one after the
// other. Returns the first error.
Status RunParts(const MergeRunner& runner, const std::vector<Part>& parts, bool in_threads,
                std::vector<MergeOutcome>* outcomes) {
  std::vector<Status> statuses(parts.size());
  std::vector<port::Thread> threads;
  threads.reserve(parts.size());
  const auto run = [&](size_t i) {
    statuses[i] = OrEndForLackOfMemory([&] { return runner.Run(parts[i], &(*outcomes)[i]); });
  };
  // From here on, for want of threads, one part after the other.
  size_t alone = in_threads ? parts.size() : 1;
  for (size_t i = 1; i < alone; ++i) {
    const Status made = OrEndForLackOfMemory([&] {
      return StartingThreads([&] {
        threads.emplace_back([&run, i] { run(i); });
        return Status::OK();
      });
    });
    if (!made.ok()) alone = i;
  }
  run(0);
  for (size_t i = alone; i < parts.size(); ++i) run(i);
  for (port::Thread& thread : threads) thread.join();
  Status first_error;
  for (Status& status : statuses) {
    KeepFirstError(std::move(status), &first_error);
  }
  return first_error;
}

}  // namespace

Status RunMerge(const MergeContext& context, const MergePick& pick,
                const RangeTombstones* tombstones, const std::vector<SequenceNumber>& snapshots,
                MergeOutcome* outcome) {
  const std::vector<Part> parts = PartsOf(context, pick, tombstones, snapshots);
  const MergeRunner runner(context);
  std::vector<MergeOutcome> outcomes(parts.size());
  Status first_error = RunParts(runner, parts, !context.in_this_thread, &outcomes);
  if (first_error.ok()) {
    for (const MergeOutcome& part : outcomes) Append(part, outcome);
    NoteKeepers(outcome->tables, snapshots);
    return first_error;
  }
  for (const MergeOutcome& part : outcomes) {
    for (const TableRef& table : part.tables) table->MarkObsolete();
  }
  return first_error;
}

}  // namespace dlsm
