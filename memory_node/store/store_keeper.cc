#include "memory_node/store/store_keeper.h"

#include <algorithm>
#include <utility>

#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// How often changes are looked for that nobody waits for, and how soon a full disk is tried again.
constexpr auto kLookPeriod = std::chrono::milliseconds(50);
constexpr auto kRetryPeriod = std::chrono::milliseconds(100);

constexpr StoredKey kContentsKey{StoredKind::kContents, 0};

// Ranges that are as close are synchronised as one.
constexpr uint64_t kJoinedBytes = 64 << 10;

uint64_t VersionOf(uint64_t incarnation, const std::string& row) {
  StoredManifest manifest;
  const Status decoded = StoredManifest::Decode(incarnation, row, &manifest);
  return decoded.ok() ? manifest.version : 0;
}

}  // namespace

StoreKeeper::~StoreKeeper() { Stop(); }

void StoreKeeper::Start(StoredRows rows, std::string contents, StoredSource* source) {
  source_ = source;
  if (rows[kContentsKey] != contents) contents_ = std::move(contents);
  for (auto& [key, row] : rows) {
    if (key.kind == StoredKind::kManifest) {
      manifests_[key.id] = VersionOf(key.id, row);
    } else if (key.kind != StoredKind::kContents) {
      rows_.emplace(key, std::move(row));
    }
  }
  // The accounts that were restored may differ from the rows.
  NoteChange();
  {
    const port::MutexLock lock(mutex_);
    started_ = true;
  }
  thread_ = port::Thread([this] { Run(); });
  persist_thread_ = port::Thread([this] { RunPersists(); });
}

void StoreKeeper::Stop() {
  {
    const port::MutexLock lock(mutex_);
    if (!started_) return;
    started_ = false;
    stopping_ = true;
    work_.SignalAll();
    persist_work_.SignalAll();
  }
  thread_.join();
  persist_thread_.join();
}

void StoreKeeper::WhenStored(bool persisted, Done done) {
  Status status;
  {
    const port::MutexLock lock(mutex_);
    const uint64_t change = changes_.load(std::memory_order_acquire);
    const bool there = (persisted ? persisted_ : stored_) >= change;
    const bool failed = HasFailedLocked();
    if (!there && !failed && !stopping_) {
      waiters_.push_back({change, persisted, std::move(done)});
      work_.Signal();
      return;
    }
    if (!there) {
      status = failed ? trouble_ : Status::IOError("this memory node is closing its directory");
    }
  }
  done(status);
}

void StoreKeeper::Persist(std::vector<RemoteSpan> spans, Done done) {
  Status status;
  {
    const port::MutexLock lock(mutex_);
    if (!stopping_ && !HasFailedLocked()) {
      ++counts_.persist_calls;
      persists_.push_back({std::move(spans), std::move(done)});
      persist_work_.Signal();
      return;
    }
    // Not an error of the disk: a log that is told of one has failed for good.
    status = stopping_ ? Status::TimedOut("this memory node is closing its directory") : trouble_;
  }
  done(status);
}

void StoreKeeper::PersistSoon() {
  const port::MutexLock lock(mutex_);
  persist_soon_ = true;
  work_.Signal();
}

Status StoreKeeper::Check() const {
  const port::MutexLock lock(mutex_);
  return trouble_;
}

StoreKeeper::Counts StoreKeeper::counts() const {
  const port::MutexLock lock(mutex_);
  return counts_;
}

bool StoreKeeper::IsDueLocked(bool* persist, Clock::time_point* until) const {
  const uint64_t change = changes_.load(std::memory_order_acquire);
  const auto now = Clock::now();
  *until = now + kLookPeriod;
  if (HasFailedLocked()) return false;
  *persist = stopping_ || persist_soon_ || std::ranges::any_of(waiters_, &Waiter::persisted) ||
             (persisted_ < stored_ && now >= stored_since_ + kPersistWithin);
  if (trouble_.IsBusy() && now < retry_at_ && !stopping_) {
    *until = retry_at_;
    return false;
  }
  return stored_ < change || (*persist && persisted_ < change);
}

void StoreKeeper::Run() {
  while (true) {
    bool persist = false;
    {
      const port::MutexLock lock(mutex_);
      Clock::time_point until;
      while (!IsDueLocked(&persist, &until)) {
        if (stopping_) return;
        static_cast<void>(work_.WaitUntil(until));
      }
      persist_soon_ = false;
    }
    uint64_t change = 0;
    bool persisted = false;
    const Status status = WriteRound(persist, &change, &persisted);
    NoteRound(status, change, persisted);
  }
}

Status StoreKeeper::WriteRound(bool persist, uint64_t* change, bool* persisted) {
  StoredRows rows;
  source_->TakeSnapshot(manifests_, &rows, change);
  StoredChanges changes;
  std::map<uint64_t, uint64_t> manifests = manifests_;
  for (const auto& [key, row] : rows) {
    const bool is_manifest = key.kind == StoredKind::kManifest;
    persist = persist || is_manifest;
    if (is_manifest) manifests[key.id] = VersionOf(key.id, row);
    const auto before = rows_.find(key);
    if (before == rows_.end() || before->second != row) changes.written.emplace_back(key, row);
  }
  for (const auto& [key, row] : rows_) {
    if (!rows.contains(key)) changes.removed.push_back(key);
  }
  std::erase_if(manifests, [&](const auto& manifest) {
    if (rows.contains({StoredKind::kDatabase, manifest.first})) return false;
    changes.removed.push_back({StoredKind::kManifest, manifest.first});
    return true;
  });
  if (!contents_.empty()) {
    changes.written.emplace_back(kContentsKey, contents_);
    persist = true;
  }
  *persisted = persist;
  if (persist) {
    const Status bytes = files_->PersistBytes();
    // Full or not: what the kernel could not write is gone from its cache, perhaps.
    if (!bytes.ok()) return Status::IOError(bytes.message());
  }
  if (!changes.empty() || persist) DLSM_RETURN_IF_ERROR(files_->Write(changes, persist));
  std::erase_if(rows, [](const auto& row) { return row.first.kind == StoredKind::kManifest; });
  contents_.clear();
  rows_ = std::move(rows);
  manifests_ = std::move(manifests);
  if (persist) source_->NotePersisted(*change);
  return Status::OK();
}

bool StoreKeeper::HasFailedLocked() const { return !trouble_.ok() && !trouble_.IsBusy(); }

void StoreKeeper::FailLocked(const Status& status) {
  if (HasFailedLocked()) return;
  trouble_ = Status::IOError(status.message(),
                             "this memory node changes nothing any more; start it again when its "
                             "disk is in order");
  Log().Error("{}", trouble_.ToString());
}

void StoreKeeper::NoteRound(const Status& status, uint64_t change, bool persisted) {
  std::vector<Waiter> over;
  Status told;
  {
    const port::MutexLock lock(mutex_);
    if (status.ok()) {
      if (!trouble_.ok()) Log().Info("{} takes changes again", files_->name());
      trouble_ = Status::OK();
      ++counts_.commits;
      if (persisted) ++counts_.persisted_commits;
      if (stored_ <= persisted_) stored_since_ = Clock::now();
      stored_ = std::max(stored_, change);
      if (persisted) persisted_ = std::max(persisted_, change);
    } else if (status.IsBusy() && !stopping_) {
      if (trouble_.ok()) Log().Warn("{}", status.ToString());
      trouble_ = status;
      retry_at_ = Clock::now() + kRetryPeriod;
    } else {
      FailLocked(status);
    }
    const bool failed = HasFailedLocked();
    if (failed) told = trouble_;
    const auto is_over = [&](const Waiter& waiter) {
      mutex_.AssertHeld();
      return failed || (waiter.persisted ? persisted_ : stored_) >= waiter.change;
    };
    const auto rest = std::stable_partition(waiters_.begin(), waiters_.end(), is_over);
    std::move(waiters_.begin(), rest, std::back_inserter(over));
    waiters_.erase(waiters_.begin(), rest);
  }
  for (const Waiter& waiter : over) waiter.done(told);
}

// Calls of one log name the same pages again and again, and each sync costs a round trip to the
// disk.
Status StoreKeeper::PersistAll(const std::vector<PersistCall>& calls) {
  std::vector<StoredRange> ranges;
  for (const PersistCall& call : calls) {
    for (const RemoteSpan& span : call.spans) {
      if (span.bytes > 0) ranges.push_back({span.offset, span.offset + span.bytes});
    }
  }
  std::ranges::sort(ranges, {}, &StoredRange::begin);
  for (size_t i = 0; i < ranges.size();) {
    StoredRange joined = ranges[i];
    for (++i; i < ranges.size() && ranges[i].begin <= joined.end + kJoinedBytes; ++i) {
      joined.end = std::max(joined.end, ranges[i].end);
    }
    DLSM_RETURN_IF_ERROR(files_->PersistBytes(joined.begin, joined.end - joined.begin));
  }
  return Status::OK();
}

void StoreKeeper::RunPersists() {
  while (true) {
    std::vector<PersistCall> calls;
    Status status;
    {
      const port::MutexLock lock(mutex_);
      while (persists_.empty() && !stopping_) persist_work_.Wait();
      if (persists_.empty()) return;
      calls.swap(persists_);
      ++counts_.persist_groups;
      if (HasFailedLocked()) status = trouble_;
    }
    if (status.ok()) {
      status = PersistAll(calls);
      // What the kernel could not write is gone from its cache, perhaps. So it is not asked again.
      if (!status.ok()) NoteRound(Status::IOError(status.message()), 0, false);
    }
    for (const PersistCall& call : calls) call.done(status);
  }
}

}  // namespace dlsm
