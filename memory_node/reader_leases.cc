#include "memory_node/reader_leases.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "util/format_bytes.h"
#include "util/log.h"

namespace dlsm {

uint64_t ReaderLeases::Open(ReaderId id, std::string client, std::vector<Database> databases,
                            Clock::time_point now, Clock::time_point ends_at) {
  Reader& reader = readers_[id];
  reader.client = std::move(client);
  reader.databases = std::move(databases);
  reader.ends_at = ends_at;
  for (const Retired& retired : retired_) {
    const bool known = retired.unnamed_from != PublishedDatabase::kUnknown;
    if (now < pressed_until_ && known && Keeps(reader, retired)) {
      reader.oldest = retired.unnamed_from;
    }
  }
  return reader.oldest;
}

bool ReaderLeases::Keeps(const Reader& reader, const Retired& retired) {
  return reader.oldest < retired.unnamed_from &&
         std::find(reader.databases.begin(), reader.databases.end(), retired.database) !=
             reader.databases.end();
}

uint64_t ReaderLeases::KeptBytes(const Reader& reader) const {
  uint64_t bytes = 0;
  for (const Retired& retired : retired_) {
    if (Keeps(reader, retired)) bytes += retired.ranges.bytes();
  }
  return bytes;
}

Status ReaderLeases::Renew(ReaderId id, uint64_t oldest, Clock::time_point now,
                           Clock::time_point ends_at, bool* must_move) {
  *must_move = false;
  const auto found = readers_.find(id);
  if (found == readers_.end()) {
    return Status::IOError("this reader's lease has ended (closed, or silent for too long)",
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
  reader.oldest = std::max(reader.oldest, oldest);
  const uint64_t kept = now < pressed_until_ ? KeptBytes(reader) : 0;
  if (kept == 0) {
    reader.told = false;
  } else if (!reader.told || reader.oldest != reader.told_at) {
    reader.told = true;
    reader.told_at = reader.oldest;
    reader.told_since = now;
  } else if (now - reader.told_since >= (ends_at - now) / 4) {
    reader.refusal = Status::Busy(
        fmt::format("the memory node is full, and {} wait for this reader to let go of publication "
                    "{}: its lease is renewed no more",
                    FormatBytes(kept), reader.oldest),
        "release iterators and snapshots sooner, or give the memory node more memory");
    Log().Warn("{}: {}", reader.client, reader.refusal.ToString());
    return reader.refusal;
  }
  *must_move = reader.told;
  reader.ends_at = ends_at;
  return Status::OK();
}

void ReaderLeases::EndExpired(Clock::time_point now) {
  std::erase_if(readers_, [now](const auto& entry) {
    if (now < entry.second.ends_at) return false;
    Log().Warn("the lease of reader {} has ended", entry.second.client);
    return true;
  });
}

void ReaderLeases::MoveOn(std::chrono::nanoseconds by) {
  for (auto& [id, reader] : readers_) {
    reader.ends_at += by;
    reader.told_since += by;
  }
}

void ReaderLeases::UnnamedFrom(const Database& database, uint64_t publication) {
  constexpr uint64_t kUnknown = PublishedDatabase::kUnknown;
  if (publication == kUnknown) return;  // It does not know yet.
  if (database->unnamed_from != kUnknown) {
    database->unnamed_from = std::max(database->unnamed_from, publication);
    return;
  }
  database->unnamed_from = publication;
  if (database->whole_from == kUnknown) database->whole_from = publication;
  for (Retired& retired : retired_) {
    if (retired.database == database && retired.unnamed_from == kUnknown) {
      retired.unnamed_from = publication;
    }
  }
}

void ReaderLeases::Retire(const Database& database, const ByteRanges& ranges) {
  if (ranges.empty()) return;
  for (Retired& retired : retired_) {
    if (retired.database == database && retired.unnamed_from == database->unnamed_from) {
      retired.ranges.Add(ranges);
      return;
    }
  }
  retired_.push_back({database, database->unnamed_from, ranges});
}

ByteRanges ReaderLeases::TakeUnread() {
  ByteRanges unread;
  std::erase_if(retired_, [this, &unread](const Retired& retired) {
    for (const auto& [id, reader] : readers_) {
      if (Keeps(reader, retired)) return false;
    }
    retired.database->whole_from = std::max(retired.database->whole_from, retired.unnamed_from);
    unread.Add(retired.ranges);
    return true;
  });
  return unread;
}

ByteRanges ReaderLeases::RetiredOf(const Database& database) const {
  ByteRanges ranges;
  for (const Retired& retired : retired_) {
    if (retired.database == database) ranges.Add(retired.ranges);
  }
  return ranges;
}

ByteRanges ReaderLeases::AllRetired() const {
  ByteRanges ranges;
  for (const Retired& retired : retired_) ranges.Add(retired.ranges);
  return ranges;
}

}  // namespace dlsm
