// What an event loop does for several clients in one go: all of it reads the database as of one
// moment and what was written before in the same round, and becomes visible and durable together.
//
//   Lock() the keys that are to be written -> Begin() -> commands -> Commit() -> replies are sent
//
// So the heads that all commands need are read by one MultiGet, and a round is one write batch,
// which costs one sync at most, however many clients it is for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "db/serve/key_locks.h"
#include "db/serve/records.h"
#include "db/serve/store.h"

namespace dlsm::serve {

// One thread. May be used again after Commit().
class Round {
 public:
  explicit Round(Store* store) : store_(*store), locks_(&store->locks()) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  ~Round();

  // Before Begin(). Returns false if these keys can be written in a later round only.
  bool Lock(std::span<const std::string> head_keys) { return locks_.Take(head_keys); }
  void LockAll() { locks_.TakeAll(); }
  // Reads these keys ahead, all at once; takes them. `now`: the time of the round, in milliseconds
  // since 1970.
  void Begin(std::vector<std::string>* keys, int64_t now);
  // Reads these keys ahead, too, as far as they are not known; at most once, after Begin().
  void ReadElements(std::vector<std::string>* keys);
  // Returns the value of a key that was read ahead. None if it was not, or if there is no such key.
  std::optional<Slice> Known(const Slice& key) const;
  int64_t now() const { return now_; }
  Store& store() { return store_; }

  // None if there is no such key, and after a failure. Stays valid until the round ends or the key
  // is written.
  std::optional<Slice> Get(const Slice& key);
  // Calls `use` with entries of [from, to), which may be no range, in order or from the end, until
  // it returns false.
  using Use = std::function<bool(const Slice& key, const Slice& value)>;
  void Scan(const Slice& from, const Slice& to, bool reverse, const Use& use);
  void Put(const Slice& key, const Slice& value) { Put(key.ToString(), value.ToString()); }
  void Put(std::string key, std::string value) {
    changes_.insert_or_assign(std::move(key), std::move(value));
    ++changes_made_;
  }
  void Delete(const Slice& key) {
    changes_[key.ToString()] = std::nullopt;
    ++changes_made_;
  }
  // Deletes all keys in [from, to): by one tombstone, whatever there is.
  void DeleteRange(const std::string& from, const std::string& to);
  // How many calls of Put(), Delete() and DeleteRange() there were.
  uint64_t changes_made() const { return changes_made_; }

  // The first error of Get(), Scan() or of those that report one, since it was asked for last.
  Status TakeFailure() { return std::exchange(failure_, Status::OK()); }
  void Report(const Status& status);

  // Commit() writes nothing, and returns `why`: a command has failed when it had changed something.
  void GiveUp(const Status& why);

  // Writes all changes, or none. Afterwards nothing is locked.
  Status Commit();

 private:
  const Snapshot* SnapshotForReads();
  // `values` stay where they are until the end of the round.
  void ReadTogether(std::vector<std::string>* keys, std::vector<PinnableSlice>* values);
  void End();

  Store& store_;
  HeldLocks locks_;
  int64_t now_ = 0;
  const Snapshot* snapshot_ = nullptr;
  struct DeletedRange {
    std::string from;
    std::string to;

    bool Has(const Slice& key) const {
      return from <= key.ToStringView() && key.ToStringView() < to;
    }
  };
  // The range that the key is in; null if it is in none.
  const DeletedRange* DeletedRangeOf(const Slice& key) const;
  // On to an entry that is in no such range.
  void PassDeleted(bool reverse, Iterator* stored) const;

  // Ranges come before the other changes: a range takes those out that it deletes.
  std::vector<DeletedRange> deleted_;
  std::map<std::string, std::optional<std::string>, std::less<>> changes_;
  // Looked up by slices, too.
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  // Values that were read; null for keys that are not there. They lie in the next three.
  std::unordered_map<std::string, const PinnableSlice*, KeyHash, std::equal_to<>> read_;
  std::vector<PinnableSlice> read_ahead_;
  std::vector<PinnableSlice> read_elements_;
  std::vector<Slice> slices_;  // Of one ReadTogether(), as the next.
  std::vector<Status> statuses_;
  std::deque<PinnableSlice> read_later_;
  WriteBatch batch_;  // Keeps its memory from one round to the next.
  uint64_t changes_made_ = 0;
  Status failure_;
  Status given_up_;
};

}  // namespace dlsm::serve
