// What each key may hold, while many threads write and read.
//
// The versions of a key are counted by its one writer. Of each key this remembers four:
//
//   persisted <= durable <= acknowledged <= started
//
// A read may return any version from the one that was acknowledged before the read began to the one
// that had been started when it ended; one that failed is started and never acknowledged, so it may
// be there or not. What is durable outlives the process: a flush that ended well has written it, or
// it was written with sync. A persisted version is in tables. If the memory nodes have disks, it
// outlives their power failure, too.
//
// The memory may be shared with other processes and outlive this one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/stress/key_space.h"
#include "dLSM/status.h"

namespace dlsm::stress {

// Versions, both inclusive.
struct VersionRange {
  uint32_t least = 0;
  uint32_t most = 0;
};

class ExpectedState {
 public:
  static size_t BytesFor(uint64_t keys) { return keys * sizeof(Key); }
  // `memory`: BytesFor(keys) of it, zero at first; stays the caller's.
  ExpectedState(void* memory, uint64_t keys) : keys_(static_cast<Key*>(memory)), count_(keys) {}

  // The key's writer starts a version, and acknowledges it when the write has returned OK.
  uint32_t Start(uint64_t key) {
    return keys_[key].started.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  void Acknowledge(uint64_t key, uint32_t version) {
    keys_[key].acknowledged.store(version, std::memory_order_release);
  }
  // All keys of a batch get the same version: the one after the newest.
  uint32_t StartGroup(const KeySpace& space, uint64_t group);

  uint32_t acknowledged(uint64_t key) const {
    return keys_[key].acknowledged.load(std::memory_order_acquire);
  }
  uint32_t started(uint64_t key) const {
    return keys_[key].started.load(std::memory_order_acquire);
  }
  std::vector<uint32_t> AllAcknowledged() const;
  std::vector<uint32_t> AllDurable() const;
  std::vector<uint32_t> AllPersisted() const;

  // Everything in `acknowledged`, taken before a flush that has ended well, is durable; and so is
  // what a write with sync has added to it.
  void SetDurable(const std::vector<uint32_t>& acknowledged);
  // The same of what is persisted, and durable with it.
  void SetPersisted(const std::vector<uint32_t>& acknowledged);
  // The process that wrote has died: what was acknowledged and not durable may be gone.
  void ForgetUndurable();
  // Memory nodes have lost their power: what was not persisted may be gone.
  void ForgetUnpersisted();

 private:
  struct Key {
    std::atomic<uint32_t> started;
    std::atomic<uint32_t> acknowledged;
    std::atomic<uint32_t> durable;
    std::atomic<uint32_t> persisted;
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free);

  std::vector<uint32_t> All(std::atomic<uint32_t> Key::*versions) const;
  // No version becomes older.
  void Raise(std::atomic<uint32_t> Key::*versions, const std::vector<uint32_t>& to);

  Key* const keys_;
  const uint64_t count_;
};

// What one read said of one key.
struct Observation {
  uint64_t key = 0;
  bool found = false;
  std::string value;  // If found.
};

// OK if what was observed is one of the versions in `range`; else says what it is and what it may
// have been. *versions gets those that it may be, ascending (null: not wanted).
Status CheckObservation(const KeySpace& space, const Observation& observation,
                        const VersionRange& range, std::vector<uint32_t>* versions = nullptr);

// The keys of a batch group were observed at one moment: OK if one version fits all of them.
Status CheckGroup(uint64_t group, const std::vector<std::vector<uint32_t>>& versions);

}  // namespace dlsm::stress
