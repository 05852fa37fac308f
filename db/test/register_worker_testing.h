// Registers in a database, each a key or a group of keys that batches write together, and what a
// thread does to them and records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "db/test/history_testing.h"
#include "util/random.h"

namespace dlsm {

// The keys of all registers, in order. Each group, and the single keys together, have their keys
// spread evenly over the first byte.
class RegisterLayout {
 public:
  static constexpr uint32_t kGroups = 3;
  static constexpr uint32_t kKeysOfGroup = 8;
  static constexpr uint32_t kSingles = 5;
  static constexpr uint32_t kRegisters = kGroups + kSingles;  // The groups first.
  static constexpr size_t kKeys = kGroups * kKeysOfGroup + kSingles;

  RegisterLayout();

  const std::string& key(size_t index) const { return keys_[index]; }
  uint32_t RegisterOf(size_t key_index) const { return registers_[key_index]; }
  const std::vector<size_t>& KeysOf(uint32_t register_index) const {
    return keys_of_[register_index];
  }
  std::optional<size_t> Find(const std::string& key) const;

 private:
  std::vector<std::string> keys_;
  std::vector<uint32_t> registers_;  // Of each key.
  std::vector<size_t> keys_of_[kRegisters];
};

// What was seen of each key.
using Observation = std::vector<std::optional<uint64_t>>;

// What one thread does to the registers, and records. The database and the log outlive it.
class RegisterWorker {
 public:
  // `may_fail`: errors are expected. Values are different from those of all other workers whose
  // `first_value` differs by less than `step`.
  RegisterWorker(DB* db, const RegisterLayout& layout, HistoryRecorder::Log* log, bool may_fail,
                 uint64_t first_value, uint64_t step)
      : db_(db),
        layout_(layout),
        log_(*log),
        may_fail_(may_fail),
        next_value_(first_value),
        value_step_(step),
        random_(first_value) {}
  ~RegisterWorker() { LetGo(); }
  RegisterWorker(const RegisterWorker&) = delete;
  RegisterWorker& operator=(const RegisterWorker&) = delete;

  // One operation, or a few that belong together.
  void Step();
  // Sees everything in every way.
  void ReadAll();
  // Gives back what it holds of the database.
  void LetGo();
  uint64_t next_value() const { return next_value_; }

 private:
  uint64_t NewValue();
  void NoteError(const Status& status);

  // -------- Writes

  // One key, and often a look at it right afterwards.
  void WriteSingle();
  // Of several entries for a key the last one counts; nobody may see the others.
  void AddTo(WriteBatch* batch, uint32_t register_index, uint64_t value);
  // A group or two, and perhaps a single key.
  void WriteGroups();
  // Deletes every key there is, and may write one register anew.
  void WriteAll();
  void NoteWrite(const char* name, Tick called, const Status& status, std::vector<Access> accesses);

  // -------- Point reads

  // Several in a row: what one has seen of a batch, the next may not miss.
  void GetSome();
  // Any key of a register tells its value.
  void GetRegister(uint32_t register_index);
  bool Get(const ReadOptions& options, size_t key, Observation* seen);
  // Whether anything was seen. Complains of what nobody has written.
  bool See(size_t key, const Status& status, const Slice& value, Observation* seen);

  // -------- Reads at one moment

  bool MultiGet(const ReadOptions& options, const std::vector<size_t>& keys, Observation* seen);
  std::vector<size_t> SomeKeys();
  void MultiGetSome();
  // Walks the iterator that was made when it was last here, and makes the next one.
  void Iterate();
  // Everything there is: forward, backward, or one key after the other.
  bool Walk(Iterator* iterator, Observation* seen);
  bool NoteEnd(const Iterator& iterator);
  // Reads twice at a snapshot, now and when it is next here.
  void UseSnapshot();
  bool ReadAt(const Snapshot* snapshot, Observation* seen);
  std::string Differences(const Observation& seen) const;
  // Complains of registers of which only a part was seen.
  void NoteRead(const char* name, Tick called, Tick returned, const Observation& seen);

  DB* const db_;
  const RegisterLayout& layout_;
  HistoryRecorder::Log& log_;
  const bool may_fail_;
  uint64_t next_value_;
  const uint64_t value_step_;
  Random random_;

  std::unique_ptr<Iterator> iterator_;
  Tick iterator_called_ = 0;
  Tick iterator_returned_ = 0;
  const Snapshot* snapshot_ = nullptr;
  Observation snapshot_seen_;
};

}  // namespace dlsm
