// A disk in memory that forgets, when the power fails, what was not synchronised: for tests and
// simulations of what a memory node has on disk.
//
// The region's bytes are a mapping of the disk's file, as with a directory: bytes that are stored
// there are in the "page cache" at once. A power failure leaves of each page either the bytes that
// were synchronised last or the present ones, for the kernel writes pages back in any order. It
// leaves the rows of some commit that is not older than the last one that was synchronised, for
// their journal is a sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/store/node_files.h"
#include "memory_node/store/stored_state.h"
#include "port/mutex.h"
#include "util/random.h"

namespace dlsm {

// Thread-safe, but for the bytes of the region. Outlives its files.
class ForgetfulDisk {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  explicit ForgetfulDisk(uint64_t bytes)
      : bytes_(bytes), region_(new char[bytes]()), persisted_(new char[bytes]()) {}

  char* data() { return region_.get(); }
  uint64_t bytes() const { return bytes_; }

  // What a process that starts now finds: all that was stored.
  StoredRows rows() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return commits_.empty() ? persisted_rows_ : commits_.back();
  }

  // No process has the disk open.
  void LosePower(Random* random) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    for (uint64_t page = 0; page < bytes_; page += kPageBytes) {
      const uint64_t bytes = std::min(kPageBytes, bytes_ - page);
      if (std::memcmp(region_.get() + page, persisted_.get() + page, bytes) == 0) continue;
      const bool written_back = random->Uniform(2) == 0;
      char* const from = written_back ? region_.get() : persisted_.get();
      char* const to = written_back ? persisted_.get() : region_.get();
      std::memcpy(to + page, from + page, bytes);
    }
    const size_t survive = random->Uniform(commits_.size() + 1);
    if (survive > 0) persisted_rows_ = commits_[survive - 1];
    commits_.clear();
    ++power_failures_;
  }
  uint64_t power_failures() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return power_failures_;
  }

  // Asked before each call that writes or synchronises, with its name; an error is that call's, and
  // it does nothing.
  using Faults = std::function<Status(const char* call)>;
  void SetFaults(Faults faults) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    faults_ = std::move(faults);
  }
  // Calls that wrote or synchronised so far.
  uint64_t calls() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return calls_;
  }

 private:
  friend class ForgetfulFiles;

  Status Begin(const char* call) LOCKS_EXCLUDED(mutex_) {
    Faults faults;
    {
      const port::MutexLock lock(mutex_);
      ++calls_;
      faults = faults_;
    }
    return faults ? faults(call) : Status::OK();
  }

  const uint64_t bytes_;
  const std::unique_ptr<char[]> region_;

  mutable port::Mutex mutex_;  // Protects what follows.
  const std::unique_ptr<char[]> persisted_;
  StoredRows persisted_rows_ GUARDED_BY(mutex_);
  std::vector<StoredRows> commits_ GUARDED_BY(mutex_);  // Since then, in their order.
  Faults faults_ GUARDED_BY(mutex_);
  uint64_t calls_ GUARDED_BY(mutex_) = 0;
  uint64_t power_failures_ GUARDED_BY(mutex_) = 0;
};

// The disk as one process has it open.
class ForgetfulFiles final : public NodeFiles {
 public:
  explicit ForgetfulFiles(ForgetfulDisk* disk) : disk_(disk) {}

  Status Write(const StoredChanges& changes, bool persist) override {
    const Status begun = disk_->Begin("write");
    if (!begun.ok()) return begun;
    const port::MutexLock lock(disk_->mutex_);
    StoredRows rows = disk_->commits_.empty() ? disk_->persisted_rows_ : disk_->commits_.back();
    for (const auto& [key, bytes] : changes.written) rows[key] = bytes;
    for (const StoredKey& key : changes.removed) rows.erase(key);
    if (persist) {
      disk_->persisted_rows_ = std::move(rows);
      disk_->commits_.clear();
    } else {
      disk_->commits_.push_back(std::move(rows));
    }
    return Status::OK();
  }
  Status PersistBytes() override { return PersistBytes(0, disk_->bytes_); }
  Status PersistBytes(uint64_t offset, uint64_t bytes) override {
    const Status begun = disk_->Begin("sync");
    if (!begun.ok()) return begun;
    const uint64_t begin = offset / ForgetfulDisk::kPageBytes * ForgetfulDisk::kPageBytes;
    const uint64_t end = std::min(disk_->bytes_, offset + bytes);
    const port::MutexLock lock(disk_->mutex_);
    if (begin < end) {
      std::memcpy(disk_->persisted_.get() + begin, disk_->region_.get() + begin, end - begin);
    }
    return Status::OK();
  }
  Status TakeDisk(uint64_t /*offset*/, uint64_t /*bytes*/) override { return disk_->Begin("take"); }
  void GiveBackDisk(uint64_t offset, uint64_t bytes) override {
    const port::MutexLock lock(disk_->mutex_);
    std::memset(disk_->region_.get() + offset, 0, bytes);
    std::memset(disk_->persisted_.get() + offset, 0, bytes);
  }
  uint64_t FreeDiskBytes() override { return UINT64_MAX; }
  const std::string& name() const override { return name_; }

 private:
  ForgetfulDisk* const disk_;
  const std::string name_ = "a disk in memory";
};

}  // namespace dlsm
