#include "benchmarks/stress/worker.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dLSM/sorted_source.h"
#include "dLSM/write_batch.h"
#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

// Of a thousand operations.
constexpr std::array<uint64_t, kOperationCount> kWeights = {348, 60, 120, 230, 70, 100, 10,
                                                            40,  4,  2,   4,   10, 2};
// The values of versions of keys, in the order of keys, which is that of their numbers.
class VersionSource final : public SortedSource {
 public:
  VersionSource(const KeySpace* space, const std::vector<std::pair<uint64_t, uint32_t>>* versions)
      : space_(space), versions_(versions) {}

  bool Next(Slice* key, Slice* value) override {
    if (next_ == versions_->size()) return false;
    const auto [number, version] = (*versions_)[next_++];
    key_ = space_->KeyBytes(number);
    value_ = space_->ValueBytes(number, version);
    *key = key_;
    *value = value_;
    return true;
  }

 private:
  const KeySpace* const space_;
  const std::vector<std::pair<uint64_t, uint32_t>>* const versions_;
  size_t next_ = 0;
  std::string key_;
  std::string value_;
};

// Of writes.
constexpr uint64_t kSyncOneIn = 200;
constexpr uint64_t kNoSlowdownOneIn = 20;
constexpr uint64_t kRangeOneIn = 4;    // Deletions that delete a range.
constexpr uint64_t kReplaceOneIn = 8;  // Puts of a batch before which it deletes the key.

}  // namespace

const char* OperationName(Operation operation) {
  constexpr std::array<const char*, kOperationCount> kNames = {
      "put",         "batch",         "group batch",   "get",   "multiget",
      "scan",        "take snapshot", "read snapshot", "flush", "compact range",
      "set options", "properties",    "ingest"};
  return kNames[static_cast<size_t>(operation)];
}

void Tally::Add(const Tally& other) {
  for (size_t i = 0; i < operations.size(); ++i) operations[i] += other.operations[i];
  observations += other.observations;
  tolerated += other.tolerated;
}

void SharedTally::Add(const Tally& more) {
  for (size_t i = 0; i < operations.size(); ++i) operations[i] += more.operations[i];
  observations += more.observations;
  tolerated += more.tolerated;
}

Tally SharedTally::Sum() const {
  Tally sum;
  for (size_t i = 0; i < operations.size(); ++i) sum.operations[i] = operations[i];
  sum.observations = observations;
  sum.tolerated = tolerated;
  return sum;
}

bool IsDueToFaults(const Status& status) {
  return status.IsIOError() || status.IsTimedOut() || status.IsBusy() || status.IsAborted();
}

Operation Worker::Draw() {
  if (config_.reshape_one_in > 0 && random_.OneIn(config_.reshape_one_in)) {
    return random_.OneIn(5) ? Operation::kCompactRange : Operation::kFlush;
  }
  uint64_t drawn = random_.Uniform(1000);
  for (size_t i = 0; i < kWeights.size(); ++i) {
    if (drawn < kWeights[i]) return static_cast<Operation>(i);
    drawn -= kWeights[i];
  }
  return Operation::kPut;
}

Status Worker::Step(DB* db, bool faults) {
  const Operation operation = Draw();
  ++tally_.operations[static_cast<size_t>(operation)];
  last_ = OperationName(operation);
  Status status;
  switch (operation) {
    case Operation::kPut:
      status = Put(db);
      break;
    case Operation::kBatch:
      status = Batch(db);
      break;
    case Operation::kGroupBatch:
      status = WriteGroup(db, OwnGroup(/*of_batches=*/true), DrawWriteOptions());
      break;
    case Operation::kGet:
      status = Get(db);
      break;
    case Operation::kMultiGet:
      status = MultiGet(db);
      break;
    case Operation::kScan:
      status = Scan(db, nullptr);
      break;
    case Operation::kSnapshotTake:
      status = TakeSnapshot(db);
      break;
    case Operation::kSnapshotRead:
      status = ReadSnapshot(db);
      break;
    case Operation::kFlush:
      status = FlushAll(db);
      break;
    case Operation::kCompactRange:
      status = Compact(db);
      break;
    case Operation::kSetOptions:
      status = ChangeOptions(db);
      break;
    case Operation::kProperties:
      status = LookAtProperties(db);
      break;
    case Operation::kIngest:
      status = Ingest(db);
      break;
  }
  if (faults && IsDueToFaults(status)) {
    ++tally_.tolerated;
    return Status::OK();
  }
  return status;
}

// There is one, for there are no more workers than KeySpace::WritersMax().
uint64_t Worker::OwnGroup(bool of_batches) {
  while (true) {
    const uint64_t group = random_.Uniform(space_->groups());
    if (KeySpace::IsBatchGroup(group) == of_batches &&
        space_->WriterOf(group, config_.workers) == config_.number) {
      return group;
    }
  }
}

// -------- Writes

WriteOptions Worker::DrawWriteOptions() {
  WriteOptions options;
  options.sync = random_.OneIn(kSyncOneIn);
  options.no_slowdown = random_.OneIn(kNoSlowdownOneIn);
  return options;
}

template <typename Write>
Status Worker::WriteVersions(const Versions& versions, const WriteOptions& options,
                             const Write& write) {
  std::vector<uint32_t> durable;
  if (options.sync) durable = state_->AllAcknowledged();
  const Status written = write();
  const bool would_wait =
      written.IsBusy() && written.ToString().find("no_slowdown") != std::string::npos;
  if (options.no_slowdown && would_wait) return Status::OK();
  DLSM_RETURN_IF_ERROR(written);
  for (const auto& [key, version] : versions) {
    state_->Acknowledge(key, version);
    if (options.sync) durable[key] = version;
  }
  if (options.sync && config_.sync_persists) {
    state_->SetPersisted(durable);
  } else if (options.sync) {
    state_->SetDurable(durable);
  }
  return Status::OK();
}

Status Worker::Put(DB* db) {
  const uint64_t key =
      space_->KeyOf(OwnGroup(/*of_batches=*/false), random_.Uniform(KeySpace::kGroupKeys));
  const uint32_t version = state_->Start(key);
  last_ += fmt::format(" of key {} version {}", key, version);
  const std::string bytes = space_->KeyBytes(key);
  const WriteOptions options = DrawWriteOptions();
  const bool as_range = random_.OneIn(kRangeOneIn);
  return WriteVersions({{key, version}}, options, [&] {
    if (!space_->IsDeletion(key, version)) {
      return db->Put(options, bytes, space_->ValueBytes(key, version));
    }
    return as_range ? db->DeleteRange(options, space_->LowerBound(key), space_->LowerBound(key + 1))
                    : db->Delete(options, bytes);
  });
}

void Worker::DeleteIn(WriteBatch* batch, uint64_t key) {
  if (random_.OneIn(kRangeOneIn)) {
    batch->DeleteRange(space_->LowerBound(key), space_->LowerBound(key + 1));
  } else {
    batch->Delete(space_->KeyBytes(key));
  }
}

// Several keys, some of them more than once: the last of these counts.
Status Worker::Batch(DB* db) {
  WriteBatch batch;
  Versions written;
  for (uint64_t i = random_.Uniform(12) + 1; i > 0; --i) {
    const uint64_t key =
        written.empty() || !random_.OneIn(4)
            ? space_->KeyOf(OwnGroup(/*of_batches=*/false), random_.Uniform(KeySpace::kGroupKeys))
            : written.back().first;
    const uint32_t version = state_->Start(key);
    written.emplace_back(key, version);
    if (space_->IsDeletion(key, version)) {
      DeleteIn(&batch, key);
    } else {
      batch.Put(space_->KeyBytes(key), space_->ValueBytes(key, version));
    }
  }
  const WriteOptions options = DrawWriteOptions();
  return WriteVersions(written, options, [&] { return db->Write(options, &batch); });
}

Status Worker::WriteGroup(DB* db, uint64_t group, const WriteOptions& options) {
  const uint32_t version = state_->StartGroup(*space_, group);
  last_ += fmt::format(" of group {} version {}", group, version);
  WriteBatch batch;
  Versions written;
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    const uint64_t key = space_->KeyOf(group, i);
    written.emplace_back(key, version);
    const bool is_deletion = space_->IsDeletion(key, version);
    // No reader sees the key without a value between the two.
    if (is_deletion || random_.OneIn(kReplaceOneIn)) DeleteIn(&batch, key);
    if (!is_deletion) batch.Put(space_->KeyBytes(key), space_->ValueBytes(key, version));
  }
  return WriteVersions(written, options, [&] { return db->Write(options, &batch); });
}

Status Worker::Ingest(DB* db) {
  constexpr uint64_t kGroups = 3;
  std::vector<uint32_t> ingested(space_->count(), 0);
  Versions written;
  for (uint64_t i = random_.Uniform(kGroups) + 1; i > 0; --i) {
    const uint64_t group = OwnGroup(/*of_batches=*/false);
    for (uint64_t at = 0; at < KeySpace::kGroupKeys; ++at) {
      const uint64_t key = space_->KeyOf(group, at);
      if (ingested[key] != 0) continue;
      const uint32_t version = state_->Start(key);
      if (space_->IsDeletion(key, version)) {
        const WriteOptions options;
        DLSM_RETURN_IF_ERROR(WriteVersions(
            {{key, version}}, options, [&] { return db->Delete(options, space_->KeyBytes(key)); }));
        continue;
      }
      ingested[key] = version;
      written.emplace_back(key, version);
    }
  }
  std::sort(written.begin(), written.end());
  VersionSource source(space_, &written);
  DLSM_RETURN_IF_ERROR(db->IngestSorted(&source, /*entries=*/nullptr));
  for (const auto& [key, version] : written) state_->Acknowledge(key, version);
  state_->SetPersisted(ingested);
  return Status::OK();
}

// -------- The rest

Status Worker::FlushAll(DB* db) {
  const std::vector<uint32_t> acknowledged = state_->AllAcknowledged();
  FlushOptions options;
  options.wait = random_.OneIn(2);
  DLSM_RETURN_IF_ERROR(db->Flush(options));
  if (options.wait) state_->SetPersisted(acknowledged);
  return Status::OK();
}

Status Worker::Compact(DB* db) {
  const std::string begin = space_->KeyBytes(AnyKey());
  const std::string end = space_->KeyBytes(AnyKey());
  const Slice begin_slice(begin);
  const Slice end_slice(end);
  const Status status = db->CompactRange(random_.OneIn(4) ? nullptr : &begin_slice,
                                         random_.OneIn(4) ? nullptr : &end_slice);
  // What followers still read may leave no room for its merges: then it has compacted less.
  return status.IsBusy() ? Status::OK() : status;
}

Status Worker::ChangeOptions(DB* db) {
  constexpr std::array<const char*, 4> kSchedules = {"single", "fair", "greedy", "spring_and_gear"};
  const std::string schedule = kSchedules[random_.Uniform(kSchedules.size())];
  if (!config_.every_option) return db->SetOptions({{"merge_scheduler", schedule}});
  // Bandwidths with which merges keep up.
  constexpr std::array<const char*, 3> kBandwidths = {"0", "50000000", "500000000"};
  const std::string bandwidth = kBandwidths[random_.Uniform(kBandwidths.size())];
  constexpr std::array<const char*, 3> kTables = {"0", "2", "8"};
  const std::string tables = kTables[random_.Uniform(kTables.size())];
  const std::array<std::pair<std::string, std::string>, 5> all = {{
      {"merge_scheduler", schedule},
      {"compaction_bandwidth", bandwidth},
      {"memory_node_merge_scheduler", schedule},
      {"memory_node_compaction_bandwidth", bandwidth},
      {"max_level0_tables_per_merge", tables},
  }};
  std::unordered_map<std::string, std::string> changes;
  for (uint64_t i = random_.Uniform(3) + 1; i > 0; --i) {
    changes.insert(all[random_.Uniform(all.size())]);
  }
  return db->SetOptions(changes);
}

Status Worker::LookAtProperties(DB* db) {
  std::string text;
  if (!db->GetProperty("dlsm.stats", &text)) {
    return Status::Corruption("there is no property dlsm.stats");
  }
  const std::string begin = space_->KeyBytes(AnyKey());
  const std::string end = space_->KeyBytes(AnyKey());
  const Range range(begin, end);
  uint64_t size = 0;
  db->GetApproximateSizes(&range, 1, &size);
  return Status::OK();
}

}  // namespace dlsm::stress
