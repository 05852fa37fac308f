#include "db/serve/round.h"

#include <utility>

#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"

namespace dlsm::serve {
namespace {

// Memory of more bytes is given back at the end of a round.
constexpr size_t kKeptBytesMax = size_t{1} << 16;

void LetGo(std::vector<PinnableSlice>* values) {
  for (PinnableSlice& value : *values) {
    value.Reset();
    if (value.GetSelf()->capacity() > kKeptBytesMax) std::string().swap(*value.GetSelf());
  }
}

}  // namespace

Round::~Round() {
  End();
  failure_.PermitUncheckedError();
  given_up_.PermitUncheckedError();
}

void Round::Begin(std::vector<std::string>* keys, int64_t now) {
  now_ = now;
  ReadTogether(keys, &read_ahead_);
}

void Round::ReadElements(std::vector<std::string>* keys) {
  std::erase_if(*keys, [this](const std::string& key) { return read_.contains(key); });
  ReadTogether(keys, &read_elements_);
}

void Round::ReadTogether(std::vector<std::string>* keys, std::vector<PinnableSlice>* values) {
  if (keys->empty()) return;
  slices_.assign(keys->begin(), keys->end());
  values->resize(keys->size());
  statuses_.resize(keys->size());
  ReadOptions options;
  options.snapshot = SnapshotForReads();
  store_.db().MultiGet(options, keys->size(), slices_.data(), values->data(), statuses_.data());
  for (size_t i = 0; i < keys->size(); ++i) {
    // A read that has failed is tried again by the command that needs it.
    if (!statuses_[i].ok() && !statuses_[i].IsNotFound()) continue;
    read_.insert_or_assign(std::move((*keys)[i]), statuses_[i].ok() ? &(*values)[i] : nullptr);
  }
  keys->clear();
}

std::optional<Slice> Round::Known(const Slice& key) const {
  const auto found = read_.find(key.ToStringView());
  if (found == read_.end() || found->second == nullptr) return std::nullopt;
  return Slice(found->second->data(), found->second->size());
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
  auto found = read_.find(key.ToStringView());
  if (found == read_.end()) {
    PinnableSlice* const value = &read_later_.emplace_back();
    ReadOptions options;
    options.snapshot = SnapshotForReads();
    const Status got = store_.db().Get(options, key, value);
    if (!got.ok() && !got.IsNotFound()) {
      Report(got);
      return std::nullopt;
    }
    found = read_.emplace(key.ToString(), got.ok() ? value : nullptr).first;
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
    batch_.Clear();
    for (const DeletedRange& range : deleted_) batch_.DeleteRange(range.from, range.to);
    for (const auto& [key, value] : changes_) {
      if (value.has_value()) {
        batch_.Put(key, *value);
      } else {
        batch_.Delete(key);
      }
    }
    WriteOptions options;
    options.sync = store_.sync();
    status = store_.db().Write(options, &batch_);
  }
  End();
  return status;
}

void Round::End() {
  changes_.clear();
  deleted_.clear();
  read_.clear();
  LetGo(&read_ahead_);
  LetGo(&read_elements_);
  if (batch_.ApproximateSize() > kKeptBytesMax) batch_ = WriteBatch();
  read_later_.clear();
  failure_.PermitUncheckedError();
  failure_ = Status::OK();
  given_up_.PermitUncheckedError();
  given_up_ = Status::OK();
  if (snapshot_ != nullptr) store_.db().ReleaseSnapshot(std::exchange(snapshot_, nullptr));
  locks_.Release();
}

}  // namespace dlsm::serve
