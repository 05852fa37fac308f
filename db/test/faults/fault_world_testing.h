// A database under faults, with what must be true of it whatever fails: the model of what was
// acknowledged, and the account of what it has taken from this process and from its memory nodes.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {

// Keys with versions, each key's counted upwards; one thread writes.
//
//   durable <= acknowledged <= started
//
// What is read is one from acknowledged to started.
class VersionedKeys {
 public:
  static constexpr uint32_t kKeys = 120;
  // A key that is none of these, for a test's own use.
  static constexpr const char* kMark = "~mark";

  static std::string Key(uint32_t number);
  static std::string Value(uint32_t number, uint32_t version);

  // The next version of this key, or of these together in one batch.
  Status Put(DB* db, uint32_t number) { return Write(db, number, 1, 1); }
  // Of keys first, first + step, ...
  Status Write(DB* db, uint32_t first, uint32_t count, uint32_t step);
  Status PutAll(DB* db);

  // All that is acknowledged outlives the handle.
  void NoteFlushed();
  // The handle is gone with what it had not flushed.
  void ForgetUnflushed();
  void ForgetAll() { keys_ = {}; }

  // Whether the value may be what is read of this key. A failure of the test if not.
  void Check(uint32_t number, const Status& status, const std::string& value) const;
  // Each read is right or says why there is none; the first error of them.
  Status Get(DB* db, uint32_t number, const ReadOptions& options = ReadOptions()) const;
  Status MultiGet(DB* db) const;
  Status Scan(DB* db, bool forward) const;

 private:
  struct Versions {
    uint32_t durable = 0;
    uint32_t acknowledged = 0;
    uint32_t started = 0;
  };
  std::array<Versions, kKeys> keys_;
};

// What this process has of the system.
struct ProcessUse {
  size_t threads = 0;
  size_t descriptors = 0;
  static ProcessUse Now();
  // The process comes to have no more than this soon. A memory node takes a quarter of a second to
  // see that a connection is gone, so this is asked for after many databases, not after each.
  void ExpectAgain() const;
};

// One database on a few memory nodes.
class FaultWorld {
 public:
  // `nodes` outlive this. The options are those of a database without faults.
  FaultWorld(TestNodes* nodes, const Options& options, std::string name);
  // The database is closed and destroyed, without faults, and nothing may be left of it: no byte at
  // the memory nodes, no registered buffer.
  ~FaultWorld();

  // With faults injected.
  const Options& options() const { return options_; }
  // Of another handle, for which all is well.
  Options CleanOptions() const;
  const std::string& name() const { return name_; }
  FaultInjector& faults() { return *faults_; }
  VersionedKeys& keys() { return keys_; }
  std::unique_ptr<DB>& db() { return db_; }
  // A follower, or a handle that has lost its database.
  std::unique_ptr<DB>& other() { return other_; }

  Status Open();
  Status Close();
  // Everything that was acknowledged is there, is still there when the database is opened again,
  // and it can be written. Without faults, none of that may fail.
  void ExpectWhole();

 private:
  TestNodes* const nodes_;
  const std::string name_;
  const std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  Options options_;
  VersionedKeys keys_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<DB> other_;
};

Status OpenIfClosed(FaultWorld* world);
Status CompactAll(FaultWorld* world);

// What may be returned because of a fault, and by whom it can be told from a defect.
void ExpectExplained(const Status& status);

}  // namespace dlsm
