// Readers that hold no session, and the memory that is kept for them.
//
// A reader follows the publications of databases: versions that their owners wrote into remote
// memory, numbered upwards. It tells the oldest one that it still uses. Whoever gives memory back
// tells the number from which on no publication names it. In between, the memory is *retired*:
//
//   publication     4      5      6      7
//   named by        x      x
//   given back, not named from 6 on: free once every reader of the database uses 6 or later, or its
//   lease has ended
//
//   1. A reader is taken up with 0 as the oldest one in use: from then on nothing is freed that any
//      publication names. What was freed before is told by whole_from: publications before that
//      number may name it, so a new reader begins with none of them. While others wait for memory,
//      it begins with none that names what is retired: else readers that come and go would keep
//      that.
//   2. An owner that closes tells its last number. When its session ends otherwise, nobody knows
//      how far it had got; and nobody knows what the next owner gives back before it has told the
//      number of its first publication. What is given back then no reader passes until that is
//      told. One that closes and has changed nothing leaves the number as it was.
//   3. A reader that keeps an old publication in use while the memory node has no room is told so;
//      if it has not moved on a quarter of its lease later, that is not renewed any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/byte_ranges.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// A database's publications, as far as they are known. Written by ReaderLeases alone, and read by
// others only where no other thread calls that: it is under its lock.
struct PublishedDatabase {
  static constexpr uint64_t kUnknown = UINT64_MAX;

  // What is given back now no publication names from this one on.
  uint64_t unnamed_from = kUnknown;
  // Publications before this one may name what has been freed; kUnknown: all so far.
  uint64_t whole_from = 0;
  bool destroyed = false;

  // Of each reader: the oldest publication that it uses.
  std::multiset<uint64_t> oldest_in_use;
  // By the first publication that does not name it; kUnknown: not known yet.
  std::map<uint64_t, ByteRanges> retired;
};

// Thread-safe; calls nothing under its lock. What a call costs does not depend on how much is
// retired, but by its logarithm: a reader that stays keeps what each later publication has left.
class ReaderLeases {
 public:
  using Clock = port::Clock;
  using Database = std::shared_ptr<PublishedDatabase>;

  // Returns the publication that it may begin with, as far as readers are what decides that.
  // `client` is for messages.
  uint64_t Open(ReaderId id, std::string client, std::vector<Database> databases,
                Clock::time_point now, Clock::time_point ends_at) LOCKS_EXCLUDED(mutex_);
  bool contains(ReaderId id) const LOCKS_EXCLUDED(mutex_);
  size_t count() const LOCKS_EXCLUDED(mutex_);

  // The reader uses no publication before `oldest` any more. Aborted if there is no such reader:
  // what it reads may be others' already. IOError if there is no such database; Busy, and its lease
  // goes on to its end, if it has kept others waiting for memory too long. *must_move: it is about
  // to.
  Status Renew(ReaderId id, uint64_t oldest, Clock::time_point now, Clock::time_point ends_at,
               bool* must_move) LOCKS_EXCLUDED(mutex_);
  void Close(ReaderId id) LOCKS_EXCLUDED(mutex_);
  void EndExpired(Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  // Nobody could be heard for so long: what runs goes on so much later.
  void MoveOn(std::chrono::nanoseconds by) LOCKS_EXCLUDED(mutex_);

  // Takes the memory that UnnamedFrom() needs, which then takes none as long as nobody calls
  // FirstUnread().
  void Expect(const Database& database) LOCKS_EXCLUDED(mutex_);
  // What the owner gives back from now on, until it tells a later one, no publication names from
  // this one on.
  void UnnamedFrom(const Database& database, uint64_t publication) LOCKS_EXCLUDED(mutex_);
  uint64_t UnnamedFromOf(const Database& database) const LOCKS_EXCLUDED(mutex_);
  // From now on nobody knows that, until an owner tells.
  void OwnerGone(const Database& database) LOCKS_EXCLUDED(mutex_);
  // The database has gone: no reader of it is renewed.
  void Destroyed(const Database& database) LOCKS_EXCLUDED(mutex_);
  // Publications of this database before this number may name what has been freed.
  uint64_t WholeFromOf(const Database& database) const LOCKS_EXCLUDED(mutex_);

  // `ranges` are not retired yet. Where there is no memory for that, they stay with the caller, all
  // of them.
  void Retire(const Database& database, ByteRanges&& ranges) LOCKS_EXCLUDED(mutex_);
  // The same for what no publication has ever named.
  void RetireUnnamed(const Database& database, ByteRanges&& ranges) LOCKS_EXCLUDED(mutex_);
  // A range that no reader may read any more. The caller frees it and says so: until then it stays
  // retired, whatever there is no memory for. To be called after all of the above, by one thread at
  // a time, until there is none.
  struct Unread {
    Database database;
    uint64_t unnamed_from = 0;
    ByteRange range;
  };
  std::optional<Unread> FirstUnread() LOCKS_EXCLUDED(mutex_);
  void NoteFreed(const Unread& unread) noexcept LOCKS_EXCLUDED(mutex_);

  // Somebody has asked for room in vain; it counts until then.
  void Press(Clock::time_point until) LOCKS_EXCLUDED(mutex_);

  uint64_t retired_bytes() const LOCKS_EXCLUDED(mutex_);
  // Of this database, and of all. Takes time: for people and checks.
  ByteRanges RetiredOf(const Database& database) const LOCKS_EXCLUDED(mutex_);
  ByteRanges AllRetired() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Reader {
    std::string client;
    std::vector<Database> databases;
    uint64_t oldest = 0;
    Clock::time_point ends_at;
    bool told = false;  // That others wait for what it keeps, when it used `told_at`.
    uint64_t told_at = 0;
    Clock::time_point told_since;
    Status refusal;  // Not OK: it is not renewed.
  };

  void RetireFromLocked(const Database& database, uint64_t unnamed_from, ByteRanges&& ranges)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveLocked(const Reader& reader) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveToLocked(uint64_t oldest, Reader* reader) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool KeepsAnything(const Reader& reader);
  static uint64_t KeptBytes(const Reader& reader);

  mutable port::Mutex mutex_;  // Protects what follows, and each PublishedDatabase.
  std::map<ReaderId, Reader> readers_ GUARDED_BY(mutex_);
  // No lease ends before.
  Clock::time_point first_end_ GUARDED_BY(mutex_) = Clock::time_point::max();
  std::set<Database> retiring_ GUARDED_BY(mutex_);  // Those that have something retired.
  // Those of which something may be unread.
  std::set<Database> changed_ GUARDED_BY(mutex_);
  uint64_t retired_bytes_ GUARDED_BY(mutex_) = 0;
  Clock::time_point pressed_until_ GUARDED_BY(mutex_) = Clock::time_point::min();
};

}  // namespace dlsm
