#include "benchmarks/stress/worker.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "dLSM/get_pipeline.h"
#include "dLSM/iterator.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

constexpr size_t kSnapshotsHeldMax = 4;
constexpr uint64_t kScanKeysMax = 200;

// Of a thousand operations.
constexpr std::array<uint64_t, kOperationCount> kWeights = {350, 60, 120, 230, 70, 100,
                                                            10,  40, 4,   2,   4,  10};

Status Wrong(const std::string& what) { return Status::Corruption(what); }

}  // namespace

const char* OperationName(Operation operation) {
  constexpr std::array<const char*, kOperationCount> kNames = {
      "put",      "batch",         "group batch",   "get",
      "multiget", "scan",          "take snapshot", "read snapshot",
      "flush",    "compact range", "set options",   "properties"};
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
      status = WriteGroup(db, OwnGroup(/*of_batches=*/true));
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

Status Worker::Put(DB* db) {
  const uint64_t key =
      space_->KeyOf(OwnGroup(/*of_batches=*/false), random_.Uniform(KeySpace::kGroupKeys));
  const uint32_t version = state_->Start(key);
  last_ += fmt::format(" of key {} version {}", key, version);
  const std::string bytes = space_->KeyBytes(key);
  DLSM_RETURN_IF_ERROR(space_->IsDeletion(key, version)
                           ? db->Delete(WriteOptions(), bytes)
                           : db->Put(WriteOptions(), bytes, space_->ValueBytes(key, version)));
  state_->Acknowledge(key, version);
  return Status::OK();
}

// Several keys, some of them more than once: the last of these counts.
Status Worker::Batch(DB* db) {
  WriteBatch batch;
  std::vector<std::pair<uint64_t, uint32_t>> written;
  for (uint64_t i = random_.Uniform(12) + 1; i > 0; --i) {
    const uint64_t key =
        written.empty() || !random_.OneIn(4)
            ? space_->KeyOf(OwnGroup(/*of_batches=*/false), random_.Uniform(KeySpace::kGroupKeys))
            : written.back().first;
    const uint32_t version = state_->Start(key);
    written.emplace_back(key, version);
    if (space_->IsDeletion(key, version)) {
      batch.Delete(space_->KeyBytes(key));
    } else {
      batch.Put(space_->KeyBytes(key), space_->ValueBytes(key, version));
    }
  }
  DLSM_RETURN_IF_ERROR(db->Write(WriteOptions(), &batch));
  for (const auto& [key, version] : written) state_->Acknowledge(key, version);
  return Status::OK();
}

Status Worker::WriteGroup(DB* db, uint64_t group) {
  const uint32_t version = state_->StartGroup(*space_, group);
  last_ += fmt::format(" of group {} version {}", group, version);
  WriteBatch batch;
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    const uint64_t key = space_->KeyOf(group, i);
    if (space_->IsDeletion(key, version)) {
      batch.Delete(space_->KeyBytes(key));
    } else {
      batch.Put(space_->KeyBytes(key), space_->ValueBytes(key, version));
    }
  }
  DLSM_RETURN_IF_ERROR(db->Write(WriteOptions(), &batch));
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    state_->Acknowledge(space_->KeyOf(group, i), version);
  }
  return Status::OK();
}

// -------- Reads

void Worker::SetLeast(uint64_t begin, Window* window) const {
  for (size_t i = 0; i < window->size(); ++i) {
    (*window)[i].least = state_->acknowledged(begin + i);
  }
}

void Worker::SetMost(uint64_t begin, Window* window) const {
  for (size_t i = 0; i < window->size(); ++i) (*window)[i].most = state_->started(begin + i);
}

Status Worker::Check(const Observation& observation, const VersionRange& range,
                     std::vector<uint32_t>* versions) {
  ++tally_.observations;
  return CheckObservation(*space_, observation, range, versions);
}

Status Worker::Get(DB* db) {
  if (random_.OneIn(4)) return GetGroup(db, 2 * random_.Uniform((space_->groups() + 1) / 2));
  return VerifyOne(db, AnyKey());
}

Status Worker::VerifyOne(DB* db, uint64_t key) {
  last_ += fmt::format(" of key {}", key);
  Window window(1);
  SetLeast(key, &window);
  Observation observation;
  DLSM_RETURN_IF_ERROR(GetOne(db, key, &observation));
  SetMost(key, &window);
  return Check(observation, window[0]);
}

Status Worker::GetGroup(DB* db, uint64_t group) {
  last_ += fmt::format(" of group {}, one after the other", group);
  uint32_t seen = 0;
  const uint64_t first = random_.Uniform(KeySpace::kGroupKeys);
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    const uint64_t key = space_->KeyOf(group, (first + i) % KeySpace::kGroupKeys);
    VersionRange range;
    range.least = std::max(seen, state_->acknowledged(key));
    Observation observation;
    DLSM_RETURN_IF_ERROR(GetOne(db, key, &observation));
    range.most = state_->started(key);
    std::vector<uint32_t> versions;
    DLSM_RETURN_IF_ERROR(Check(observation, range, &versions));
    seen = versions.front();
  }
  return Status::OK();
}

Status Worker::GetOne(DB* db, uint64_t key, Observation* observation) {
  *observation = Observation{key, false, std::string()};
  ReadOptions options;
  options.verify_checksums = random_.OneIn(2);
  Status status;
  if (random_.OneIn(2)) {
    PinnableSlice pinned;
    status = db->Get(options, space_->KeyBytes(key), &pinned);
    observation->value = pinned.ToString();
  } else {
    status = db->Get(options, space_->KeyBytes(key), &observation->value);
  }
  if (!status.ok() && !status.IsNotFound()) return status;
  observation->found = status.ok();
  return Status::OK();
}

Status Worker::MultiGet(DB* db) {
  if (random_.OneIn(2)) {
    return ReadGroup(db, 2 * random_.Uniform((space_->groups() + 1) / 2), nullptr);
  }
  std::vector<uint64_t> keys;
  for (uint64_t i = random_.Uniform(40) + 1; i > 0; --i) keys.push_back(AnyKey());
  Window window(keys.size());
  std::vector<std::string> bytes;
  for (size_t i = 0; i < keys.size(); ++i) {
    bytes.push_back(space_->KeyBytes(keys[i]));
    window[i].least = state_->acknowledged(keys[i]);
  }
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      random_.OneIn(2)
          ? GetPipelined(db, bytes, &values)
          : db->MultiGet(ReadOptions(), std::vector<Slice>(bytes.begin(), bytes.end()), &values);
  for (size_t i = 0; i < keys.size(); ++i) window[i].most = state_->started(keys[i]);
  Status first_error;
  Status wrong;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!statuses[i].ok() && !statuses[i].IsNotFound()) {
      KeepFirstError(statuses[i], &first_error);
    } else {
      KeepFirstError(Check({keys[i], statuses[i].ok(), values[i]}, window[i]), &wrong);
    }
  }
  KeepFirstError(first_error, &wrong);
  return wrong;
}

std::vector<Status> Worker::GetPipelined(DB* db, const std::vector<std::string>& keys,
                                         std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size());
  values->resize(keys.size());
  const auto pipeline = db->NewGetPipeline(ReadOptions(), random_.Uniform(16) + 1);
  GetPipeline::Answer answer;
  for (size_t submitted = 0; submitted < keys.size() || pipeline->outstanding() > 0;) {
    if (submitted < keys.size() && pipeline->outstanding() < pipeline->depth()) {
      statuses[submitted] = pipeline->Submit(keys[submitted], submitted);
      ++submitted;
    } else if (pipeline->Next(&answer)) {
      statuses[answer.tag] = answer.status;
      (*values)[answer.tag].swap(answer.value);
    }
  }
  return statuses;
}

Status Worker::ReadGroup(DB* db, uint64_t group, const Held* held) {
  last_ += fmt::format(" of group {}", group);
  std::vector<std::string> bytes;
  Window window(KeySpace::kGroupKeys);
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    const uint64_t key = space_->KeyOf(group, i);
    bytes.push_back(space_->KeyBytes(key));
    window[i].least = state_->acknowledged(key);
  }
  ReadOptions options;
  if (held != nullptr) options.snapshot = held->snapshot;
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      db->MultiGet(options, std::vector<Slice>(bytes.begin(), bytes.end()), &values);
  for (const Status& status : statuses) status.PermitUncheckedError();  // The first error tells.
  std::vector<std::vector<uint32_t>> versions(KeySpace::kGroupKeys);
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    const uint64_t key = space_->KeyOf(group, i);
    if (!statuses[i].ok() && !statuses[i].IsNotFound()) return statuses[i];
    window[i].most = state_->started(key);
    DLSM_RETURN_IF_ERROR(Check({key, statuses[i].ok(), values[i]},
                               held != nullptr ? held->all[key] : window[i], &versions[i]));
  }
  return KeySpace::IsBatchGroup(group) ? CheckGroup(group, versions) : Status::OK();
}

// None of the keys [begin, end) was there.
Status Worker::CheckAbsent(uint64_t begin, uint64_t end, uint64_t window_begin,
                           const Window& window) {
  for (uint64_t key = begin; key < end; ++key) {
    DLSM_RETURN_IF_ERROR(Check({key, false, std::string()}, window[key - window_begin]));
  }
  return Status::OK();
}

// Walks through a range in one direction, after moves that an iterator must forget.
Status Worker::Scan(DB* db, const Held* held) {
  const uint64_t begin = AnyKey();
  const uint64_t end = std::min(space_->count(), begin + random_.Uniform(kScanKeysMax) + 1);
  const bool forward = random_.OneIn(2);
  last_ += fmt::format(" {} of keys {} to {}", forward ? "forward" : "backward", begin, end);
  Window window(end - begin);
  SetLeast(begin, &window);
  const std::string lower = space_->LowerBound(begin);
  const std::string upper = space_->LowerBound(end);
  const Slice lower_bound(lower);
  const Slice upper_bound(upper);
  ReadOptions options;
  const bool bounded = random_.OneIn(2);
  if (bounded) {
    options.iterate_lower_bound = &lower_bound;
    options.iterate_upper_bound = &upper_bound;
  }
  if (held != nullptr) options.snapshot = held->snapshot;
  const std::unique_ptr<Iterator> iterator(db->NewIterator(options));
  SetMost(begin, &window);
  if (held != nullptr) {
    window.assign(held->all.begin() + static_cast<ptrdiff_t>(begin),
                  held->all.begin() + static_cast<ptrdiff_t>(end));
  }
  for (uint64_t i = random_.Uniform(3); i > 0; --i) {
    iterator->Seek(space_->KeyBytes(AnyKey()));
    if (iterator->Valid() && random_.OneIn(2)) iterator->Next();
    if (iterator->Valid() && random_.OneIn(2)) iterator->Prev();
  }
  if (forward) {
    iterator->Seek(lower_bound);
  } else if (bounded && random_.OneIn(2)) {
    iterator->SeekToLast();
  } else {
    iterator->SeekForPrev(upper_bound);
    if (iterator->Valid() && iterator->key() == upper_bound) iterator->Prev();
  }
  uint64_t next = forward ? begin : end;  // Forward: the next to come; backward: one behind it.
  while (iterator->Valid()) {
    const std::optional<uint64_t> key = space_->KeyFromBytes(iterator->key());
    if (!key.has_value()) {
      return Wrong("a scan has found a key that was never written: " +
                   iterator->key().ToString().substr(0, 40));
    }
    if (*key < begin || *key >= end) {
      if (bounded) return Wrong(fmt::format("a scan has left its bounds: key {}", *key));
      break;
    }
    if (forward ? *key < next : *key >= next) {
      return Wrong(fmt::format("a scan does not {}: key {} when {} was next",
                               forward ? "ascend" : "descend", *key, next));
    }
    DLSM_RETURN_IF_ERROR(forward ? CheckAbsent(next, *key, begin, window)
                                 : CheckAbsent(*key + 1, next, begin, window));
    DLSM_RETURN_IF_ERROR(Check({*key, true, iterator->value().ToString()}, window[*key - begin]));
    next = forward ? *key + 1 : *key;
    if (forward) {
      iterator->Next();
    } else {
      iterator->Prev();
    }
  }
  DLSM_RETURN_IF_ERROR(iterator->status());
  return forward ? CheckAbsent(next, end, begin, window) : CheckAbsent(begin, next, begin, window);
}

// -------- Snapshots

Status Worker::TakeSnapshot(DB* db) {
  if (held_.size() >= kSnapshotsHeldMax) {
    const size_t i = random_.Uniform(held_.size());
    db->ReleaseSnapshot(held_[i].snapshot);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
  }
  Held held;
  held.all.resize(space_->count());
  SetLeast(0, &held.all);
  held.snapshot = db->GetSnapshot();
  SetMost(0, &held.all);
  held_.push_back(std::move(held));
  return Status::OK();
}

Status Worker::ReadSnapshot(DB* db) {
  if (held_.empty()) return Status::OK();
  Held& held = held_[random_.Uniform(held_.size())];
  if (random_.OneIn(3)) return Scan(db, &held);
  if (random_.OneIn(2)) {
    return ReadGroup(db, 2 * random_.Uniform((space_->groups() + 1) / 2), &held);
  }
  const uint64_t key = AnyKey();
  ReadOptions options;
  options.snapshot = held.snapshot;
  Observation observation{key, false, std::string()};
  const Status status = db->Get(options, space_->KeyBytes(key), &observation.value);
  if (!status.ok() && !status.IsNotFound()) return status;
  observation.found = status.ok();
  std::vector<uint32_t> versions;
  DLSM_RETURN_IF_ERROR(Check(observation, held.all[key], &versions));
  // What a snapshot has shown once it shows for ever.
  held.all[key] = VersionRange{versions.front(), versions.back()};
  return Status::OK();
}

void Worker::ReleaseSnapshots(DB* db) {
  for (const Held& held : held_) db->ReleaseSnapshot(held.snapshot);
  held_.clear();
}

// -------- The rest

Status Worker::FlushAll(DB* db) {
  const std::vector<uint32_t> acknowledged = state_->AllAcknowledged();
  FlushOptions options;
  options.wait = random_.OneIn(2);
  DLSM_RETURN_IF_ERROR(db->Flush(options));
  if (options.wait) state_->SetDurable(acknowledged);
  return Status::OK();
}

Status Worker::Compact(DB* db) {
  const std::string begin = space_->KeyBytes(AnyKey());
  const std::string end = space_->KeyBytes(AnyKey());
  const Slice begin_slice(begin);
  const Slice end_slice(end);
  db->CompactRange(random_.OneIn(4) ? nullptr : &begin_slice,
                   random_.OneIn(4) ? nullptr : &end_slice);
  return Status::OK();
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
  if (!db->GetProperty("dlsm.stats", &text)) return Wrong("there is no property dlsm.stats");
  const std::string begin = space_->KeyBytes(AnyKey());
  const std::string end = space_->KeyBytes(AnyKey());
  const Range range(begin, end);
  uint64_t size = 0;
  db->GetApproximateSizes(&range, 1, &size);
  return Status::OK();
}

Status Worker::VerifyAll(DB* db) {
  last_ = "verification of all keys";
  torn_groups_.clear();
  Window window(space_->count());
  SetLeast(0, &window);
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  SetMost(0, &window);
  std::vector<std::vector<uint32_t>> versions;
  return VerifyBy(iterator.get(), window, &versions);
}

Status Worker::VerifyFollower(DB* follower, std::vector<uint32_t>* floor) {
  const std::unique_ptr<Iterator> iterator(follower->NewIterator(ReadOptions()));
  Window window(space_->count());
  for (uint64_t key = 0; key < window.size(); ++key) window[key].least = (*floor)[key];
  SetMost(0, &window);
  std::vector<std::vector<uint32_t>> versions;
  DLSM_RETURN_IF_ERROR(VerifyBy(iterator.get(), window, &versions));
  for (uint64_t key = 0; key < window.size(); ++key) (*floor)[key] = versions[key].front();
  return Status::OK();
}

Status Worker::VerifyBy(Iterator* iterator, const Window& window,
                        std::vector<std::vector<uint32_t>>* versions) {
  std::vector<Observation> all(space_->count());
  for (uint64_t key = 0; key < all.size(); ++key) all[key].key = key;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const std::optional<uint64_t> key = space_->KeyFromBytes(iterator->key());
    if (!key.has_value()) return Wrong("there is a key that was never written");
    if (all[*key].found) return Wrong(fmt::format("key {} is there twice", *key));
    all[*key].found = true;
    all[*key].value = iterator->value().ToString();
  }
  DLSM_RETURN_IF_ERROR(iterator->status());
  versions->resize(all.size());
  for (uint64_t key = 0; key < all.size(); ++key) {
    DLSM_RETURN_IF_ERROR(Check(all[key], window[key], &(*versions)[key]));
  }
  for (uint64_t group = 0; group < space_->groups(); group += 2) {
    std::vector<std::vector<uint32_t>> of_group;
    for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
      of_group.push_back((*versions)[space_->KeyOf(group, i)]);
    }
    const Status whole = CheckGroup(group, of_group);
    if (whole.ok()) continue;
    if (!tolerate_torn_) return whole;
    torn_groups_.push_back(group);
  }
  return Status::OK();
}

}  // namespace dlsm::stress
