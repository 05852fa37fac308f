// A log in the memory of a test, and what its writers, its keeper and its readers do.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/log/log_reader.h"
#include "db/log/write_log.h"
#include "table/memory_queue_pairs_testing.h"
#include "util/status_testing.h"

namespace dlsm {

// Each test has a log of its own: in memory that is used again the frames of another one may lie.
inline LogId NextLog() {
  static uint64_t last = 76;
  return LogId{++last};
}
inline constexpr uint64_t kSegmentBytes = 4096;
inline constexpr uint64_t kMine = 5;
inline constexpr PersistenceId kPresent{1};

// Number of the first entry, and keys.
using Read = std::vector<std::pair<SequenceNumber, std::string>>;

// Of a log in memory that is mapped, or not.
class WriteLogFixture : public testing::TestWithParam<bool> {
 protected:
  WriteLogFixture() : queue_pairs_(&memory_, /*direct=*/GetParam()) {
    header_ = memory_.Allocate(kLogHeaderBytes);
    allocated_.push_back(header_);
    word_ = memory_.Allocate(8);
    SetWord(kMine);
  }
  ~WriteLogFixture() override { StopKeeper(); }

  void SetWord(uint64_t word) {
    reinterpret_cast<std::atomic<uint64_t>*>(memory_.At(word_))->store(word);
  }

  void NewLog(uint64_t bytes_max = uint64_t{1} << 20,
              std::chrono::milliseconds patience = std::chrono::milliseconds(50)) {
    WriteLog::Config config;
    config.id = NextLog();
    config.persistence = kPresent;
    config.level = files_ != nullptr ? LogLevel::kDisk : LogLevel::kMemory;
    config.segment_bytes = kSegmentBytes;
    config.bytes_max = bytes_max;
    config.header = header_;
    config.node = "memory:1";
    config.timeout = std::chrono::milliseconds(300);
    config.patience = patience;
    WriteLog::Parts parts;
    parts.queue_pairs = &queue_pairs_;
    parts.statistics = &statistics_;
    parts.may_still_land = [this] { return may_still_land_.load(); };
    parts.wake = [this] { ++woken_; };
    parts.word = word_;
    parts.mine = kMine;
    parts.persist = files_;
    ASSERT_OK(WriteLog::New(config, std::move(parts), &log_));
  }

  // Gives the log memory as it wants some, as its keeper does.
  void LookAfter() {
    while (log_->WantsSegment()) {
      if (log_->ReuseSegment()) continue;
      allocated_.push_back(memory_.Allocate(kLogSegmentHeaderBytes + kSegmentBytes));
      ASSERT_OK(log_->AddSegment(allocated_.back()));
      ++segments_;
    }
  }
  void StartKeeper() {
    keeper_ = std::thread([this] {
      while (!stop_) {
        LookAfter();
        std::this_thread::yield();
      }
    });
  }
  void StopKeeper() {
    stop_ = true;
    if (keeper_.joinable()) keeper_.join();
  }

  Status ReserveOrWait(uint64_t bytes, bool may_wait, WriteLog::Place* place) {
    const Deadline deadline = log_->RoomDeadline();
    Status status = log_->Reserve(bytes, place);
    while (status.ok() && !place->taken()) {
      status = log_->AwaitRoom(bytes, may_wait, deadline);
      if (status.ok()) status = log_->Reserve(bytes, place);
    }
    return status;
  }
  Status Write(SequenceNumber first, const std::string& key, LogPosition* end,
               bool may_wait = true) {
    WriteLog::Place place;
    const Status reserved =
        ReserveOrWait(LogFrameBytesOfOne(ValueType::kDeletion, key, Slice()), may_wait, &place);
    if (!reserved.ok()) return reserved;
    EncodeLogEntry(ValueType::kDeletion, key, Slice(), place.entries());
    *end = place.end();
    place.Fill(first, 1);
    return Status::OK();
  }
  Status WriteDurably(SequenceNumber first, const std::string& key) {
    LogPosition end;
    const Status written = Write(first, key, &end);
    return written.ok() ? log_->AwaitDurable(end) : written;
  }

  Status ReadAll(Read* read, LogReader::Result* result = nullptr,
                 PersistenceId present = kPresent) {
    return ReadRecorded(log_->Record(), read, result, present);
  }
  Status ReadRecorded(const LogRecord& record, Read* read, LogReader::Result* result,
                      PersistenceId present) {
    MemoryQueuePairs queue_pairs(&memory_);
    LogReader reader(record, present, &queue_pairs, std::chrono::milliseconds(300));
    LogReader::Result own;
    if (result == nullptr) result = &own;
    std::vector<Read> parts;
    Status status = reader.Read([&parts](size_t count) { parts.assign(count, {}); },
                                [&parts](size_t part, const LogFrame& frame) {
                                  return ForEachEntry(frame, [&](SequenceNumber sequence, ValueType,
                                                                 const Slice& key, const Slice&) {
                                    parts[part].emplace_back(sequence, key.ToString());
                                    return Status::OK();
                                  });
                                },
                                result);
    read->clear();
    for (size_t i = 0; i < result->parts; ++i) {
      read->insert(read->end(), parts[i].begin(), parts[i].end());
    }
    return status;
  }

  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  Statistics statistics_;
  RemoteSpan header_;
  RemoteSpan word_;
  std::function<Status(const std::vector<RemoteSpan>&, Deadline)>
      files_;                          // Is empty where there are none.
  std::vector<RemoteSpan> allocated_;  // For the log.
  std::unique_ptr<WriteLog> log_;
  std::atomic<int> woken_{0};
  std::atomic<bool> may_still_land_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int> segments_{0};
  std::thread keeper_;
};

}  // namespace dlsm
