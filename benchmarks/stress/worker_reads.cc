// What a worker reads, and what that may have been.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "benchmarks/stress/worker.h"
#include "dLSM/get_pipeline.h"
#include "dLSM/iterator.h"
#include "dLSM/pinnable_slice.h"
#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

constexpr size_t kSnapshotsHeldMax = 4;
constexpr uint64_t kScanKeysMax = 200;

}  // namespace

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
      random_.OneIn(2) ? GetPipelined(db, bytes, &values) : GetTogether(db, bytes, &values);
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

// Whichever way the values come.
std::vector<Status> Worker::GetTogether(DB* db, const std::vector<std::string>& keys,
                                        std::vector<std::string>* values) {
  const std::vector<Slice> slices(keys.begin(), keys.end());
  if (random_.OneIn(2)) return db->MultiGet(ReadOptions(), slices, values);
  std::vector<PinnableSlice> pinned(keys.size());
  std::vector<Status> statuses(keys.size());
  db->MultiGet(ReadOptions(), keys.size(), slices.data(), pinned.data(), statuses.data());
  for (const PinnableSlice& value : pinned) values->push_back(value.ToString());
  return statuses;
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
      return Status::Corruption("a scan has found a key that was never written: " +
                                iterator->key().ToString().substr(0, 40));
    }
    if (*key < begin || *key >= end) {
      if (bounded)
        return Status::Corruption(fmt::format("a scan has left its bounds: key {}", *key));
      break;
    }
    if (forward ? *key < next : *key >= next) {
      return Status::Corruption(fmt::format("a scan does not {}: key {} when {} was next",
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

}  // namespace dlsm::stress
