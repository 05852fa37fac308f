#include "db/serve/round.h"

#include <utility>

#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"

namespace dlsm::serve {

Round::~Round() {
  End();
  failure_.PermitUncheckedError();
  given_up_.PermitUncheckedError();
}

void Round::Begin(const std::vector<std::string>& keys, int64_t now) {
  now_ = now;
  if (keys.empty()) return;
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  ReadOptions options;
  options.snapshot = SnapshotForReads();
  store_.db().MultiGet(options, keys.size(), slices.data(), values.data(), statuses.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].ok()) {
      read_[keys[i]] = std::make_unique<PinnableSlice>(std::move(values[i]));
    } else if (statuses[i].IsNotFound()) {
      read_[keys[i]] = nullptr;
    }
    // A read that has failed is tried again by the command that needs it.
  }
}

// All reads of a round are as of one moment, at which its locks were held.
const Snapshot* Round::SnapshotForReads() {
  if (snapshot_ == nullptr) snapshot_ = store_.db().GetSnapshot();
  return snapshot_;
}

void Round::Report(const Status& status) {
  if (failure_.ok()) failure_ = status;
}

void Round::GiveUp(const Status& why) {
  if (given_up_.ok()) given_up_ = why;
}

std::optional<Slice> Round::Get(const Slice& key) {
  if (const auto change = changes_.find(key.ToStringView()); change != changes_.end()) {
    if (!change->second.has_value()) return std::nullopt;
    return Slice(*change->second);
  }
  if (DeletedRangeOf(key) != nullptr) return std::nullopt;
  std::string name = key.ToString();
  auto found = read_.find(name);
  if (found == read_.end()) {
    auto value = std::make_unique<PinnableSlice>();
    ReadOptions options;
    options.snapshot = SnapshotForReads();
    const Status got = store_.db().Get(options, key, value.get());
    if (!got.ok() && !got.IsNotFound()) {
      Report(got);
      return std::nullopt;
    }
    if (!got.ok()) value = nullptr;
    found = read_.emplace(std::move(name), std::move(value)).first;
  }
  if (found->second == nullptr) return std::nullopt;
  return Slice(found->second->data(), found->second->size());
}

void Round::DeleteRange(const std::string& from, const std::string& to) {
  if (from >= to) return;
  changes_.erase(changes_.lower_bound(from), changes_.lower_bound(to));
  deleted_.push_back({from, to});
  ++changes_made_;
}

const Round::DeletedRange* Round::DeletedRangeOf(const Slice& key) const {
  for (const DeletedRange& range : deleted_) {
    if (range.Has(key)) return &range;
  }
  return nullptr;
}

void Round::PassDeleted(bool reverse, Iterator* stored) const {
  while (stored->Valid()) {
    const DeletedRange* const range = DeletedRangeOf(stored->key());
    if (range == nullptr) return;
    if (!reverse) {
      stored->Seek(range->to);
      continue;
    }
    stored->Seek(range->from);
    if (stored->Valid()) {
      stored->Prev();
    } else {
      stored->SeekToLast();
    }
  }
}

void Round::Scan(const Slice& from, const Slice& to, bool reverse, const Use& use) {
  if (from.compare(to) >= 0) return;
  ReadOptions options;
  options.snapshot = SnapshotForReads();
  const std::unique_ptr<Iterator> stored(store_.db().NewIterator(options));
  const auto first_change = changes_.lower_bound(from.ToStringView());
  const auto end_of_changes = changes_.lower_bound(to.ToStringView());
  auto change = reverse ? end_of_changes : first_change;
  if (!reverse) {
    stored->Seek(from);
  } else {
    stored->Seek(to);
    if (stored->Valid()) {
      stored->Prev();
    } else {
      stored->SeekToLast();
    }
  }
  while (true) {
    PassDeleted(reverse, stored.get());
    const bool has_stored = stored->Valid() && (reverse ? stored->key().compare(from) >= 0
                                                        : stored->key().compare(to) < 0);
    const bool has_change = change != (reverse ? first_change : end_of_changes);
    if (!has_stored && !has_change) break;
    const auto changed = reverse && has_change ? std::prev(change) : change;
    int order = has_stored ? -1 : 1;  // Below 0: what is stored comes first.
    if (has_stored && has_change) {
      order = stored->key().compare(Slice(changed->first));
      if (reverse) order = -order;
    }
    bool go_on = true;
    if (order < 0) {
      go_on = use(stored->key(), stored->value());
    } else if (changed->second.has_value()) {
      go_on = use(changed->first, *changed->second);
    }
    if (!go_on) break;
    if (order <= 0) reverse ? stored->Prev() : stored->Next();
    if (order >= 0) change = reverse ? changed : std::next(change);
  }
  if (!stored->status().ok()) Report(stored->status());
}

Status Round::Commit() {
  Status status = given_up_;
  if (status.ok() && !(changes_.empty() && deleted_.empty())) {
    WriteBatch batch;
    for (const DeletedRange& range : deleted_) batch.DeleteRange(range.from, range.to);
    for (const auto& [key, value] : changes_) {
      if (value.has_value()) {
        batch.Put(key, *value);
      } else {
        batch.Delete(key);
      }
    }
    WriteOptions options;
    options.sync = store_.sync();
    status = store_.db().Write(options, &batch);
  }
  End();
  return status;
}

void Round::End() {
  changes_.clear();
  deleted_.clear();
  read_.clear();
  if (snapshot_ != nullptr) store_.db().ReleaseSnapshot(std::exchange(snapshot_, nullptr));
  locks_.Release();
}

}  // namespace dlsm::serve
