// A disk in memory that forgets, when the power fails, what was not synchronised: for tests and
// simulations of what a memory node has on disk.
//
// The region's bytes are a mapping of the disk's file, as with a directory: bytes that are stored
// there are in the "page cache" at once. A power failure leaves of each page either the bytes that
// were synchronised last or the present ones, for the kernel writes pages back in any order. It
// leaves the rows of some commit that is not older than the last one that was synchronised, for
// their journal is a sequence.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/store/node_files.h"
#include "memory_node/store/stored_state.h"
#include "port/mutex.h"
#include "util/file_descriptor.h"
#include "util/random.h"

namespace dlsm {

// A mapped file of zeros, which takes memory only where something else was written.
class SparseBytes {
 public:
  explicit SparseBytes(uint64_t bytes)
      : bytes_(bytes), file_(FileDescriptor(memfd_create("disk", MFD_CLOEXEC))) {
    void* const mapped =
        ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0
            ? MAP_FAILED
            : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (mapped == MAP_FAILED) {
      std::perror("no memory for a disk in memory");
      std::abort();
    }
    data_ = static_cast<char*>(mapped);
  }
  ~SparseBytes() { munmap(data_, bytes_); }
  SparseBytes(const SparseBytes&) = delete;
  SparseBytes& operator=(const SparseBytes&) = delete;

  char* data() const { return data_; }
  // They are zeros again; whole pages of them take no memory.
  void Clear(uint64_t offset, uint64_t bytes) {
    const auto begin = static_cast<off_t>(offset);
    if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin,
                  static_cast<off_t>(bytes)) != 0) {
      std::memset(data_ + offset, 0, bytes);
    }
  }
  // Calls function(offset, bytes) for each range of [begin, end) that may have been written.
  template <typename Function>
  void ForEachWritten(uint64_t begin, uint64_t end, Function function) const {
    while (begin < end) {
      const off_t data = lseek(file_.get(), static_cast<off_t>(begin), SEEK_DATA);
      if (data < 0 || static_cast<uint64_t>(data) >= end) return;
      const off_t hole = lseek(file_.get(), data, SEEK_HOLE);
      const uint64_t next = std::min(end, static_cast<uint64_t>(hole));
      function(static_cast<uint64_t>(data), next - static_cast<uint64_t>(data));
      begin = next;
    }
  }

 private:
  const uint64_t bytes_;
  const FileDescriptor file_;
  char* data_ = nullptr;
};

// Thread-safe, but for the bytes of the region. Outlives its files.
class ForgetfulDisk {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  explicit ForgetfulDisk(uint64_t bytes)
      : bytes_(bytes), region_(bytes), persisted_(bytes), taken_(bytes / kPageBytes + 1) {}

  char* data() { return region_.data(); }
  uint64_t bytes() const { return bytes_; }

  // What a process that starts now finds: all that was stored.
  StoredRows rows() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return commits_.empty() ? persisted_rows_ : commits_.back();
  }

  // No process has the disk open.
  void LosePower(Random* random) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    // Whatever was persisted was written before.
    region_.ForEachWritten(0, bytes_, [&](uint64_t offset, uint64_t bytes) {
      mutex_.AssertHeld();
      for (uint64_t page = offset; page < offset + bytes; page += kPageBytes) {
        char* const cached = region_.data() + page;
        char* const persisted = persisted_.data() + page;
        const uint64_t size = std::min(kPageBytes, bytes_ - page);
        if (std::memcmp(cached, persisted, size) == 0) continue;
        const bool written_back = random->Uniform(2) == 0;
        std::memcpy(written_back ? persisted : cached, written_back ? cached : persisted, size);
      }
    });
    const size_t survive = random->Uniform(commits_.size() + 1);
    if (survive > 0) persisted_rows_ = commits_[survive - 1];
    commits_.clear();
    ++power_failures_;
  }
  uint64_t power_failures() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return power_failures_;
  }

  uint64_t taken_bytes() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return static_cast<uint64_t>(std::count(taken_.begin(), taken_.end(), true)) * kPageBytes;
  }
  // How many bytes are not zero for which no room was taken: on a full disk, the process that wrote
  // them would have died.
  uint64_t untaken_bytes() const LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    uint64_t untaken = 0;
    region_.ForEachWritten(0, bytes_, [&](uint64_t offset, uint64_t bytes) {
      mutex_.AssertHeld();
      for (uint64_t page = offset; page < offset + bytes; page += kPageBytes) {
        const uint64_t size = std::min(kPageBytes, bytes_ - page);
        if (taken_[page / kPageBytes]) continue;
        const char* const at = region_.data() + page;
        untaken += static_cast<uint64_t>(size - std::count(at, at + size, '\0'));
      }
    });
    return untaken;
  }

  // Asked before each call that writes, takes room or synchronises, with its name; an error is that
  // call's, and it does nothing.
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

  // Room is taken for each page of which a part is written, and given back by whole pages.
  void SetTaken(uint64_t offset, uint64_t bytes, bool taken) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t end = offset + bytes;
    const uint64_t first = taken ? offset / kPageBytes : (offset + kPageBytes - 1) / kPageBytes;
    const uint64_t last = taken ? (end + kPageBytes - 1) / kPageBytes : end / kPageBytes;
    for (uint64_t page = first; page < last; ++page) taken_[page] = taken;
  }

  const uint64_t bytes_;
  SparseBytes region_;

  mutable port::Mutex mutex_;  // Protects what follows.
  SparseBytes persisted_ GUARDED_BY(mutex_);
  std::vector<bool> taken_ GUARDED_BY(mutex_);  // Of each page: whether there is room for it.
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

  // The process is killed: none of its calls has an effect any more, also of those under way.
  void Die() { dead_ = true; }

  Status Write(const StoredChanges& changes, bool persist) override {
    const Status begun = Begin("write");
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
    const Status begun = Begin("sync");
    if (!begun.ok()) return begun;
    const uint64_t begin = offset / ForgetfulDisk::kPageBytes * ForgetfulDisk::kPageBytes;
    const port::MutexLock lock(disk_->mutex_);
    disk_->region_.ForEachWritten(
        begin, std::min(disk_->bytes_, offset + bytes), [&](uint64_t at, uint64_t size) {
          disk_->mutex_.AssertHeld();
          std::memcpy(disk_->persisted_.data() + at, disk_->region_.data() + at, size);
        });
    return Status::OK();
  }
  Status TakeDisk(uint64_t offset, uint64_t bytes) override {
    const Status begun = Begin("take");
    if (!begun.ok()) return begun;
    const port::MutexLock lock(disk_->mutex_);
    disk_->SetTaken(offset, bytes, true);
    return Status::OK();
  }
  void GiveBackDisk(uint64_t offset, uint64_t bytes) override {
    if (dead_) return;
    const port::MutexLock lock(disk_->mutex_);
    disk_->SetTaken(offset, bytes, false);
    disk_->region_.Clear(offset, bytes);
    disk_->persisted_.Clear(offset, bytes);
  }
  uint64_t FreeDiskBytes() override { return UINT64_MAX; }
  const std::string& name() const override { return name_; }

 private:
  Status Begin(const char* call) {
    const Status begun = dead_ ? Status::OK() : disk_->Begin(call);
    return dead_ ? Status::IOError("this process has been killed") : begun;
  }

  ForgetfulDisk* const disk_;
  const std::string name_ = "a disk in memory";
  std::atomic<bool> dead_{false};
};

}  // namespace dlsm
