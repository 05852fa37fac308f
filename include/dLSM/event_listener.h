// An application is told what a database does in the background: Options::listeners. The interface
// is close to RocksDB's.
//
// The threads that do the work call listeners, several at a time. These are threads of the
// database, and where Flush(), CompactRange(), Close() and writes do work themselves, their
// callers. No lock of the database is held. What a listener does takes the time of the work: one
// that blocks holds up flushes, and in the end writers. It must not call Close(), nor wait for work
// of the same database (Flush(), CompactRange(), WaitForBackgroundWork()); reads and properties are
// fine. A listener that throws ends the process.
//
// A handle shares its listeners, and calls them until its Close() has returned, or its destructor.
// One listener may serve several databases; each call tells its name. No class of the application's
// needs run-time type information.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/status.h"

namespace dlsm {

// Where a merge runs.
enum class EventPlace : unsigned char { kMemoryNode = 0, kComputeNode = 1 };

struct FlushEvent {
  std::string db_name;
  size_t shard = 0;
  uint64_t memtable = 0;  // A number: later memtables of the shard have larger ones.
  // Of OnFlushCompleted():
  Status status;
  uint64_t tables = 0;  // None where all that was written had been deleted or overwritten.
  uint64_t bytes = 0;   // Of these tables.
  uint64_t micros = 0;
};

struct CompactionEvent {
  std::string db_name;
  size_t shard = 0;
  size_t level = 0;
  size_t target_level = 0;  // The same: the tables are merged in place.
  uint64_t inputs = 0;      // Tables, those of the target level included.
  uint64_t input_bytes = 0;
  bool trivial_move = false;  // The tables only change their level; nothing is read.
  // Of OnCompactionCompleted():
  Status status;  // Aborted where the database is being closed.
  uint64_t outputs = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  EventPlace place = EventPlace::kComputeNode;
  uint64_t micros = 0;
};

enum class StallCondition : unsigned char { kNormal = 0, kDelayed = 1, kStopped = 2 };

struct StallEvent {
  std::string db_name;
  size_t shard = 0;
  StallCondition previous = StallCondition::kNormal;
  StallCondition current = StallCondition::kNormal;
};

enum class BackgroundWorkKind : unsigned char {
  kFlush = 0,
  kCompaction = 1,
  kMemoryNode = 2,  // Heartbeats, and memory that is taken or given back.
};

struct BackgroundErrorEvent {
  std::string db_name;
  size_t shard = 0;
  BackgroundWorkKind kind = BackgroundWorkKind::kFlush;
  Status status;
};

class EventListener {
 public:
  virtual ~EventListener() = default;

  // A memtable is written out, and then it is in tables, or the flush has failed and will be tried
  // again. Each begin has its end.
  virtual void OnFlushBegin(const FlushEvent& event) { static_cast<void>(event); }
  virtual void OnFlushCompleted(const FlushEvent& event) { static_cast<void>(event); }
  // The same of merges.
  virtual void OnCompactionBegin(const CompactionEvent& event) { static_cast<void>(event); }
  virtual void OnCompactionCompleted(const CompactionEvent& event) { static_cast<void>(event); }
  // Writers of a shard are slowed down or stopped, or are not any more. Threads that tell of
  // changes at the same time may do so in another order than they have seen them.
  virtual void OnStallConditionsChanged(const StallEvent& event) { static_cast<void>(event); }
  // Work has failed. It will be tried again, unless the status is IOFenced.
  virtual void OnBackgroundError(const BackgroundErrorEvent& event) { static_cast<void>(event); }
  // Close() has begun, or the destructor without one. What follows is the work of closing.
  virtual void OnDatabaseClosing(const std::string& db_name) { static_cast<void>(db_name); }
};

}  // namespace dlsm
