// Runs a merge policy over tables that exist only as lists of keys: flushes and merges at random,
// several merges at a time, ended in any order. After every step each key must read as it should.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/merge/merge_chooser.h"
#include "db/merge/merge_pieces.h"
#include "db/merge/merge_policy.h"
#include "db/test/fake_table_testing.h"
#include "db/tree/components.h"
#include "db/tree/table_runs.h"
#include "table/merge_tables.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {

class PolicySimulation {
 public:
  struct Config {
    uint64_t seed = 1;
    size_t level_count = 4;
    Guard::Order deeper_order = Guard::Order::kNewestFirst;  // Of the levels below level 0.
    uint64_t key_count = 120;
    bool sequential = false;  // Keys are written in order, over and over.
    bool deletions = true;
    bool seeks = false;
    bool pauses = false;         // Now and then nobody writes.
    bool short_of_room = false;  // Now and then; merges that make room are picked, too.
    // Now and then a merge goes by steps (merge_pieces.h), which may be left half way.
    bool steps = false;
    size_t keys_per_flush = 12;
    uint64_t record_bytes = 10;
    size_t records_per_table_max = 12;
    size_t steps_per_check = 1;  // More where there are too many keys.
    // As a defective merge would do.
    bool drop_all_deletions = false;
  };

  PolicySimulation(const Config& config, std::unique_ptr<MergePolicy> policy)
      : config_(config), chooser_(std::move(policy)), random_(config.seed) {
    std::vector<Level> levels;
    for (size_t i = 0; i < config.level_count; ++i) {
      levels.emplace_back(i == 0 ? Guard::Order::kNewestFirst : config.deeper_order);
    }
    version_ = std::make_shared<const Version>(Comparator(), std::move(levels));
  }

  const Version& version() const { return *version_; }
  MergePolicy& policy() { return chooser_.policy(); }
  uint64_t records_merged() const { return records_merged_; }
  size_t merges_done() const { return merges_done_; }

  // Flushes and merges until `flushes` are done and no merge is due. False, with a test failure
  // unless `quiet`, when something reads wrong.
  bool Run(size_t flushes, bool quiet = false) {
    SetIdle(false);
    for (size_t step = 0; flushes > 0 || !running_.empty() || Start(); ++step) {
      if (step > 100000) {
        ADD_FAILURE() << "merges do not come to an end";
        return false;
      }
      if (config_.seeks && random_.OneIn(3)) Seek();
      if (config_.pauses) SetIdle(random_.OneIn(2));
      const uint64_t dice = random_.Uniform(3);
      if (dice == 0 && flushes > 0 &&
          CountRuns(Comparator(), version_->levels()[0].sentinel().tables) < 20) {
        Flush();
        --flushes;
      } else if (dice == 1 && running_.size() < 3) {
        if (!config_.short_of_room || random_.OneIn(2) || !StartForRoom(AnyRoom())) Start();
      } else if (!running_.empty()) {
        Finish(random_.Uniform(running_.size()));
      }
      if (step % config_.steps_per_check == 0 && !Check(quiet)) return false;
    }
    if (!Check(quiet)) return false;
    // Or writers that a limit on components has stopped would wait for merges that are not due.
    EXPECT_LE(CountComponents(*version_), policy().ExpectedComponents(*version_));
    EXPECT_EQ(policy().PendingBytes(*version_), 0u);
    return true;
  }

  // Merges that make room in a full memory node, until there are none.
  bool MakeAllRoom() {
    for (size_t step = 0; StartForRoom({0, 0, true}); ++step) {
      Finish(running_.size() - 1);
      if (!Check(false)) return false;
      if (step > 10000) {
        ADD_FAILURE() << "merges that make room do not come to an end";
        return false;
      }
    }
    return true;
  }

  // Writes new keys until there is no room for more, then deletes all of them. What is written,
  // and what a merge has read and not given back, is never more than `capacity`; of that,
  // `merge_room` is kept for merges and `flush_room` for deletions. False, with a test failure, if
  // it comes to a point where nothing can go on, or if anything is left in the end.
  bool FillAndEmpty(uint64_t capacity, uint64_t merge_room, uint64_t flush_room) {
    const uint64_t memtable = config_.keys_per_flush * config_.record_bytes;
    const auto stopped = [&] {
      return CountComponents(*version_) > 2 * policy().ExpectedComponents(*version_);
    };
    const auto room_beside = [&](uint64_t kept) {
      const uint64_t used = version_->bytes() + kept;
      return used < capacity ? capacity - used : 0;
    };
    const auto merge_some = [&](bool wanted) {
      const RoomLeft room{.for_merges = room_beside(0),
                          .for_data = room_beside(merge_room + flush_room),
                          .full = wanted};
      const auto pick = chooser_.Next(SituationWith(room), /*for_reads=*/false);
      if (!pick.has_value() || (!pick->trivial_move && !room.Fits(pick->input_bytes()))) {
        return false;
      }
      Begin(*pick);
      Finish(0);
      return true;
    };
    uint64_t next_key = 0;
    for (size_t step = 0; step < kStepsMax; ++step) {
      if (stopped() || room_beside(merge_room + flush_room) < memtable) {
        if (merge_some(/*wanted=*/true)) continue;
        if (stopped()) return Wedged("puts");
        break;
      }
      FlushAscending(&next_key, /*deletions=*/false);
      while (random_.OneIn(2) && merge_some(/*wanted=*/false)) continue;
      if (step % config_.steps_per_check == 0 && !Check(false)) return false;
    }
    const uint64_t written = next_key;
    for (uint64_t deleted = 0; deleted < written;) {
      if (stopped() || room_beside(merge_room) < memtable) {
        if (!merge_some(/*wanted=*/true)) return Wedged("deletions");
        if (merges_done_ % config_.steps_per_check == 0 && !Check(false)) return false;
        continue;
      }
      FlushAscending(&deleted, /*deletions=*/true);
    }
    return CompactWithin([&] { return RoomLeft{.for_merges = room_beside(0), .full = true}; }) &&
           ExpectEmpty();
  }

  // Flushes a deletion of every key.
  void DeleteEverything() {
    Contents contents;
    for (auto& [key, entry] : model_) {
      entry = Entry{++sequence_, true};
      contents[key] = entry;
    }
    VersionEdit edit(1);
    edit.levels[0].added = {MakeTable(contents)};
    version_ = version_->With(edit);
  }

  // Merges all down, as CompactRange does.
  bool CompactAll() {
    return CompactWithin([] { return RoomLeft(); });
  }

 private:
  struct Entry {
    SequenceNumber sequence;
    bool deletion;
  };
  using Contents = std::map<std::string, Entry>;

  // Knows where its keys would lie, all records being alike.
  class Reader final : public FakeTableReader {
   public:
    Reader(const TableMeta& meta, const Contents& contents, uint64_t record_bytes)
        : FakeTableReader(meta), record_bytes_(record_bytes) {
      for (const auto& item : contents) keys_.push_back(item.first);
    }
    OffsetBounds BoundOffset(const Slice& internal_key) const override {
      const auto at =
          std::lower_bound(keys_.begin(), keys_.end(), ExtractUserKey(internal_key).ToString());
      const uint64_t offset = static_cast<uint64_t>(at - keys_.begin()) * record_bytes_;
      return {offset, offset};
    }

   private:
    const uint64_t record_bytes_;
    std::vector<std::string> keys_;
  };

  static const InternalKeyComparator& Comparator() {
    static const InternalKeyComparator comparator(BytewiseComparator());
    return comparator;
  }

  static constexpr size_t kStepsMax = 100000;

  static std::string KeyOf(uint64_t number) {
    std::string digits = std::to_string(number);
    return std::string(5 - digits.size(), '0') + digits;
  }
  std::string NextKey() {
    return KeyOf(config_.sequential ? next_key_++ % config_.key_count
                                    : random_.Uniform(config_.key_count));
  }

  // `room` says what there is before each merge.
  template <typename Room>
  bool CompactWithin(const Room& room) {
    const size_t levels = policy().ManualLevels(*version_, nullptr, nullptr);
    for (size_t level = 0; level < levels; ++level) {
      for (size_t step = 0;; ++step) {
        bool done = false;
        bool whole = false;
        const RoomLeft left = room();
        auto pick = chooser_.NextManual(SituationWith(left), level, ManualScope{}, &done, &whole);
        if (done) break;
        // It may wait for one that is due.
        if (!pick.has_value()) {
          pick = chooser_.Next(SituationWith(left), /*for_reads=*/false);
          whole = false;
        }
        if (!pick.has_value() || step > 10000) {
          ADD_FAILURE() << "a manual merge neither starts nor is done";
          return false;
        }
        if (!pick->trivial_move && !left.Fits(pick->input_bytes())) return Wedged("compaction");
        Begin(*pick);
        Finish(running_.size() - 1);
        if (merges_done_ % config_.steps_per_check == 0 && !Check(false)) return false;
        if (level == 0 && whole) break;
      }
    }
    return Check(false);
  }

  MergeChooser::Situation SituationWith(const RoomLeft& room) const {
    return {.version = *version_, .busy = busy_, .room = room, .snapshots = snapshots_};
  }

  bool Wedged(const char* what) const {
    ADD_FAILURE() << "seed " << config_.seed << ": " << what
                  << " cannot go on: " << version_->bytes() << " bytes in "
                  << version_->table_count() << " tables, " << version_->levels()[0].table_count()
                  << " of them in level 0";
    return false;
  }

  bool ExpectEmpty() const {
    EXPECT_EQ(version_->table_count(), 0u) << "seed " << config_.seed;
    return version_->table_count() == 0;
  }

  // The next keys, in an order that spreads each flush over all of them.
  void FlushAscending(uint64_t* next, bool deletions) {
    Contents contents;
    while (contents.size() < config_.keys_per_flush) {
      const std::string key = KeyOf((*next)++ * 7919 % 99991);
      if (deletions && !model_.contains(key)) break;
      contents[key] = model_[key] = Entry{++sequence_, deletions};
    }
    VersionEdit edit(1);
    edit.levels[0].added = {MakeTable(contents)};
    version_ = version_->With(edit);
  }

  // So often, in some guard, that it would be merged if there is anything to gain.
  void Seek() {
    const Level& level = version_->levels()[random_.Uniform(version_->levels().size())];
    const std::vector<const Guard*> guards = level.AllGuards();
    const Guard& guard = *guards[random_.Uniform(guards.size())];
    if (!guard.tables.empty()) guard.tables.back()->CountLooks(1000 * kLooksPerSeek);
  }

  TableRef MakeTable(const Contents& contents) {
    FakeTable table{next_number_++, contents.begin()->first, contents.rbegin()->first};
    table.smallest_sequence = contents.begin()->second.sequence;
    table.largest_sequence = contents.rbegin()->second.sequence;
    table.bytes = contents.size() * config_.record_bytes;
    TableMeta meta = FakeMeta(table);
    meta.entries = contents.size();
    for (const auto& [key, entry] : contents) {
      meta.deletions += entry.deletion ? 1 : 0;
      meta.sequence_min = std::min(meta.sequence_min, entry.sequence);
      meta.sequence_max = std::max(meta.sequence_max, entry.sequence);
    }
    contents_[table.number] = contents;
    const auto made = std::make_shared<const Table>(
        std::make_unique<Reader>(meta, contents, config_.record_bytes), nullptr);
    made->SetKeepers(0);
    return made;
  }

  void Flush() {
    Contents contents;
    while (contents.size() < config_.keys_per_flush) {
      const bool deletion = config_.deletions && random_.OneIn(3);
      const std::string key = NextKey();
      contents[key] = Entry{++sequence_, deletion};
      model_[key] = Entry{sequence_, deletion};
    }
    VersionEdit edit(1);
    edit.levels[0].added = {MakeTable(contents)};
    version_ = version_->With(edit);
  }

  void SetIdle(bool idle) {
    idle_ = idle;
    policy().SetQuiet(idle);
  }

  bool Start() {
    auto pick = policy().Pick(*version_, busy_);
    if (!pick.has_value() && idle_) pick = policy().PickWhileIdle(*version_, busy_);
    if (!pick.has_value()) return false;
    // Whoever waits for merges must see that there are some.
    EXPECT_TRUE(pick->cause != MergeCause::kShape || policy().PendingBytes(*version_) > 0);
    if (config_.steps && busy_.empty() && random_.OneIn(2)) {
      if (random_.OneIn(10)) pieces_ = MergePieces();  // The database was opened anew.
      const auto step =
          pieces_.Next(*version_, *pick, random_.Uniform(pick->input_bytes() + 1), {});
      if (step.has_value()) pick = step;
    }
    Begin(*pick);
    return true;
  }

  RoomLeft AnyRoom() {
    const uint64_t most = 2 * version_->bytes() + 1;
    return {random_.Uniform(most), random_.Uniform(most), random_.OneIn(2)};
  }

  bool StartForRoom(const RoomLeft& room) {
    const auto pick = policy().PickForRoom(*version_, busy_, room);
    if (pick.has_value()) Begin(*pick);
    return pick.has_value();
  }

  void Begin(MergePick pick) {
    SeparateColumns(*version_, &pick);
    for (const auto* side : {&pick.inputs, &pick.target_inputs}) {
      for (const TableRef& table : *side) {
        EXPECT_TRUE(busy_.insert(table->number()).second) << "a table is in two merges";
      }
    }
    EXPECT_FALSE(pick.inputs.empty());
    running_.push_back(pick);
  }

  void Finish(size_t index) {
    const MergePick pick = running_[index];
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
    const std::vector<TableRef> outputs = pick.trivial_move ? std::vector<TableRef>() : Merge(pick);
    std::vector<const MergePick*> others;
    for (const MergePick& other : running_) others.push_back(&other);
    version_ = version_->With(EditOf(pick, *version_, outputs, others));
    for (const auto* side : {&pick.inputs, &pick.target_inputs}) {
      for (const TableRef& table : *side) busy_.erase(table->number());
    }
    ++merges_done_;
  }

  bool IsOlder(const MergePick& pick, const std::string& key) const {
    return std::any_of(pick.older.begin(), pick.older.end(), [&key](const KeyRange& range) {
      return range.smallest <= key && key <= range.largest;
    });
  }

  std::vector<TableRef> Merge(const MergePick& pick) {
    Contents merged;
    for (const auto* side : {&pick.inputs, &pick.target_inputs}) {
      for (const TableRef& table : *side) {
        for (const auto& [key, entry] : contents_[table->number()]) {
          const auto [at, added] = merged.emplace(key, entry);
          if (!added && at->second.sequence < entry.sequence) at->second = entry;
        }
      }
    }
    std::erase_if(merged, [&](const auto& item) {
      return item.second.deletion && (config_.drop_all_deletions || !IsOlder(pick, item.first));
    });
    records_merged_ += merged.size();
    std::vector<TableRef> outputs;
    Contents table;
    std::string last;
    for (const auto& [key, entry] : merged) {
      if (!table.empty() && MustCut(pick, last, key, table.size())) {
        outputs.push_back(MakeTable(std::exchange(table, Contents())));
      }
      table.emplace(key, entry);
      last = key;
    }
    if (!table.empty()) outputs.push_back(MakeTable(table));
    return outputs;
  }

  bool MustCut(const MergePick& pick, const std::string& last, const std::string& key,
               size_t records) const {
    const auto passes = [&](const std::vector<std::string>& points) {
      return std::any_of(points.begin(), points.end(),
                         [&](const std::string& point) { return last < point && point <= key; });
    };
    size_t records_max = config_.records_per_table_max;
    if (pick.table_bytes_max > 0) {
      const uint64_t fit = std::max<uint64_t>(pick.table_bytes_max / config_.record_bytes, 1);
      records_max = std::min<uint64_t>(records_max, fit);
    }
    if (records >= records_max || passes(pick.cut_points)) return true;
    if (records < records_max / 2) return false;
    return passes(pick.cut_candidates) ||
           (pick.cut_hash_bits > 0 && CutRank(key) >= pick.cut_hash_bits);
  }

  bool Check(bool quiet) {
    const Status invariants = version_->CheckInvariants();
    if (!invariants.ok()) {
      if (!quiet) ADD_FAILURE() << "seed " << config_.seed << ": " << invariants.ToString();
      return false;
    }
    for (const auto& item : model_) {
      const std::string& key = item.first;
      const Entry& expected = item.second;
      std::optional<Entry> found;
      version_->ForEachCandidate(LookupKey(key, kSequenceNumberMax), [&](const Table& table, bool) {
        const Contents& contents = contents_[table.number()];
        const auto at = contents.find(key);
        if (at != contents.end()) found = at->second;
        return at == contents.end();
      });
      const bool is_there = found.has_value() && !found->deletion;
      const bool right =
          expected.deletion ? !is_there : is_there && found->sequence == expected.sequence;
      if (right) continue;
      if (!quiet) {
        ADD_FAILURE() << "seed " << config_.seed << ": key " << key << " reads "
                      << (is_there ? found->sequence : 0) << ", not "
                      << (expected.deletion ? 0 : expected.sequence);
      }
      return false;
    }
    return true;
  }

  const Config config_;
  MergeChooser chooser_;
  MergePieces pieces_;
  const SnapshotList snapshots_;
  Random random_;
  std::shared_ptr<const Version> version_;
  std::map<uint64_t, Contents> contents_;  // By table number.
  std::map<std::string, Entry> model_;
  TablesInMerge busy_;
  std::vector<MergePick> running_;
  bool idle_ = false;
  SequenceNumber sequence_ = 0;
  uint64_t next_number_ = 1;
  uint64_t next_key_ = 0;
  uint64_t records_merged_ = 0;
  size_t merges_done_ = 0;
};

}  // namespace dlsm
