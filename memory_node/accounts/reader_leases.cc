#include "memory_node/accounts/reader_leases.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/format_bytes.h"
#include "util/log.h"

namespace dlsm {

uint64_t ReaderLeases::Open(ReaderId id, std::string client, std::vector<Database> databases,
                            Clock::time_point now, Clock::time_point ends_at) {
  const port::MutexLock lock(mutex_);
  Reader made;
  made.client = std::move(client);
  made.databases = std::move(databases);
  made.ends_at = ends_at;
  first_end_ = std::min(first_end_, ends_at);
  const auto entry = readers_.emplace(id, std::move(made)).first;
  Reader& reader = entry->second;
  for (const Database& database : reader.databases) {
    const auto& retired = database->retired;
    const auto unknown = retired.lower_bound(PublishedDatabase::kUnknown);
    if (now < pressed_until_ && unknown != retired.begin()) {
      reader.oldest = std::max(reader.oldest, std::prev(unknown)->first);
    }
  }
  // All of them or none: a number that is left behind would be taken for another reader's, and what
  // that reads be freed.
  size_t entered = 0;
  try {
    for (const Database& database : reader.databases) {
      port::AllocationPoint("reader leases");
      database->oldest_in_use.insert(reader.oldest);
      ++entered;
    }
  } catch (const std::bad_alloc&) {
    for (size_t i = 0; i < entered; ++i) {
      auto& in_use = reader.databases[i]->oldest_in_use;
      in_use.erase(in_use.find(reader.oldest));
    }
    readers_.erase(entry);
    throw;
  }
  return reader.oldest;
}

// What needs memory comes first: see Open().
void ReaderLeases::LeaveLocked(const Reader& reader) {
  changed_.insert(reader.databases.begin(), reader.databases.end());
  for (const Database& database : reader.databases) {
    database->oldest_in_use.erase(database->oldest_in_use.find(reader.oldest));
  }
}

void ReaderLeases::MoveToLocked(uint64_t oldest, Reader* reader) {
  if (oldest == reader->oldest) return;
  changed_.insert(reader->databases.begin(), reader->databases.end());
  for (const Database& database : reader->databases) {
    auto& in_use = database->oldest_in_use;
    auto number = in_use.extract(in_use.find(reader->oldest));
    number.value() = oldest;
    in_use.insert(std::move(number));
  }
  reader->oldest = oldest;
}

bool ReaderLeases::KeepsAnything(const Reader& reader) {
  return std::any_of(
      reader.databases.begin(), reader.databases.end(), [&reader](const Database& database) {
        return !database->retired.empty() && reader.oldest < database->retired.rbegin()->first;
      });
}

uint64_t ReaderLeases::KeptBytes(const Reader& reader) {
  uint64_t bytes = 0;
  for (const Database& database : reader.databases) {
    const auto& retired = database->retired;
    for (auto each = retired.upper_bound(reader.oldest); each != retired.end(); ++each) {
      bytes += each->second.bytes();
    }
  }
  return bytes;
}

Status ReaderLeases::Renew(ReaderId id, uint64_t oldest, Clock::time_point now,
                           Clock::time_point ends_at, bool* must_move) {
  const port::MutexLock lock(mutex_);
  *must_move = false;
  const auto found = readers_.find(id);
  if (found == readers_.end()) {
    return Status::Aborted("this reader's lease has ended (closed, or silent for too long)",
                           "open the database again, or catch up");
  }
  Reader& reader = found->second;
  if (!reader.refusal.ok()) return reader.refusal;
  for (const Database& database : reader.databases) {
    if (!database->destroyed) continue;
    reader.refusal = Status::IOError("the database has been destroyed", "open another one");
    return reader.refusal;
  }
  // What it has let go of it cannot take up again.
  MoveToLocked(std::max(reader.oldest, oldest), &reader);
  if (now >= pressed_until_ || !KeepsAnything(reader)) {
    reader.told = false;
  } else if (!reader.told || reader.oldest != reader.told_at) {
    reader.told = true;
    reader.told_at = reader.oldest;
    reader.told_since = now;
  } else if (now - reader.told_since >= (ends_at - now) / 4) {
    reader.refusal = Status::Busy(
        fmt::format("the memory node is full, and {} wait for this reader to let go of publication "
                    "{}: its lease is renewed no more",
                    FormatBytes(KeptBytes(reader)), reader.oldest),
        "release iterators and snapshots sooner, or give the memory node more memory");
    Log().Warn("{}: {}", reader.client, reader.refusal.ToString());
    return reader.refusal;
  }
  *must_move = reader.told;
  reader.ends_at = ends_at;
  first_end_ = std::min(first_end_, ends_at);
  return Status::OK();
}

void ReaderLeases::Close(ReaderId id) {
  const port::MutexLock lock(mutex_);
  const auto found = readers_.find(id);
  if (found == readers_.end()) return;
  LeaveLocked(found->second);
  readers_.erase(found);
}

void ReaderLeases::EndExpired(Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  if (now < first_end_) return;
  Clock::time_point first_end = Clock::time_point::max();
  std::erase_if(readers_, [this, now, &first_end](const auto& entry) {
    mutex_.AssertHeld();
    if (now < entry.second.ends_at) {
      first_end = std::min(first_end, entry.second.ends_at);
      return false;
    }
    Log().Warn("the lease of reader {} has ended", entry.second.client);
    LeaveLocked(entry.second);
    return true;
  });
  first_end_ = first_end;  // Without memory for one of them, they are looked for again.
}

void ReaderLeases::MoveOn(std::chrono::nanoseconds by) {
  const port::MutexLock lock(mutex_);
  for (auto& [id, reader] : readers_) {
    reader.ends_at += by;
    reader.told_since += by;
  }
}

void ReaderLeases::Expect(const Database& database) {
  const port::MutexLock lock(mutex_);
  changed_.insert(database);
}

void ReaderLeases::UnnamedFrom(const Database& database, uint64_t publication) {
  constexpr uint64_t kUnknown = PublishedDatabase::kUnknown;
  if (publication == kUnknown) return;  // It does not know yet.
  const port::MutexLock lock(mutex_);
  if (database->unnamed_from != kUnknown) {
    database->unnamed_from = std::max(database->unnamed_from, publication);
    return;
  }
  // Nothing has two places, whatever there is no memory for: it would be freed twice.
  auto& retired = database->retired;
  if (const auto unknown = retired.find(kUnknown); unknown != retired.end()) {
    changed_.insert(database);
    if (const auto there = retired.find(publication); there != retired.end()) {
      there->second.Add(std::move(unknown->second));
      retired.erase(unknown);
    } else {
      auto node = retired.extract(unknown);
      node.key() = publication;
      retired.insert(std::move(node));
    }
  }
  database->unnamed_from = publication;
  if (database->whole_from == kUnknown) database->whole_from = publication;
}

void ReaderLeases::Retire(const Database& database, ByteRanges&& ranges) {
  const port::MutexLock lock(mutex_);
  RetireFromLocked(database, database->unnamed_from, std::move(ranges));
}

void ReaderLeases::RetireUnnamed(const Database& database, ByteRanges&& ranges) {
  const port::MutexLock lock(mutex_);
  RetireFromLocked(database, 0, std::move(ranges));
}

void ReaderLeases::RetireFromLocked(const Database& database, uint64_t unnamed_from,
                                    ByteRanges&& ranges) {
  if (ranges.empty()) return;
  port::AllocationPoint("reader leases: retired");
  retiring_.insert(database);
  changed_.insert(database);
  ByteRanges& retired = database->retired[unnamed_from];
  retired_bytes_ += ranges.bytes();
  retired.Add(std::move(ranges));
}

// Whoever uses the oldest publication decides for all that is retired later, too.
std::optional<ReaderLeases::Unread> ReaderLeases::FirstUnread() {
  const port::MutexLock lock(mutex_);
  while (!changed_.empty()) {
    const Database& database = *changed_.begin();
    auto& retired = database->retired;
    const auto& in_use = database->oldest_in_use;
    while (!retired.empty() && (in_use.empty() || *in_use.begin() >= retired.begin()->first)) {
      const auto first = retired.begin();
      // Before it is freed: a reader that is taken up meanwhile is not to begin before.
      database->whole_from = std::max(database->whole_from, first->first);
      if (first->second.empty()) {
        retired.erase(first);
        continue;
      }
      const auto& [begin, end] = *first->second.ranges().begin();
      return Unread{database, first->first, ByteRange{begin, end}};
    }
    if (retired.empty()) retiring_.erase(database);
    changed_.erase(changed_.begin());
  }
  return std::nullopt;
}

// This leaves no hole in a range, so it takes no memory.
void ReaderLeases::NoteFreed(const Unread& unread) noexcept {
  const port::MutexLock lock(mutex_);
  unread.database->retired.at(unread.unnamed_from).Remove(unread.range);
  retired_bytes_ -= unread.range.end - unread.range.begin;
}

uint64_t ReaderLeases::UnnamedFromOf(const Database& database) const {
  const port::MutexLock lock(mutex_);
  return database->unnamed_from;
}

void ReaderLeases::OwnerGone(const Database& database) {
  const port::MutexLock lock(mutex_);
  database->unnamed_from = PublishedDatabase::kUnknown;
}

void ReaderLeases::Destroyed(const Database& database) {
  const port::MutexLock lock(mutex_);
  database->destroyed = true;
}

uint64_t ReaderLeases::WholeFromOf(const Database& database) const {
  const port::MutexLock lock(mutex_);
  return database->whole_from;
}

bool ReaderLeases::contains(ReaderId id) const {
  const port::MutexLock lock(mutex_);
  return readers_.contains(id);
}

size_t ReaderLeases::count() const {
  const port::MutexLock lock(mutex_);
  return readers_.size();
}

void ReaderLeases::Press(Clock::time_point until) {
  const port::MutexLock lock(mutex_);
  pressed_until_ = until;
}

uint64_t ReaderLeases::retired_bytes() const {
  const port::MutexLock lock(mutex_);
  return retired_bytes_;
}

ByteRanges ReaderLeases::RetiredOf(const Database& database) const {
  const port::MutexLock lock(mutex_);
  ByteRanges ranges;
  for (const auto& [unnamed_from, each] : database->retired) ranges.Add(each);
  return ranges;
}

ByteRanges ReaderLeases::AllRetired() const {
  const port::MutexLock lock(mutex_);
  ByteRanges ranges;
  for (const Database& database : retiring_) {
    for (const auto& [unnamed_from, each] : database->retired) ranges.Add(each);
  }
  return ranges;
}

}  // namespace dlsm
