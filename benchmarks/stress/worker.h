// One thread of a stress run: random operations, each checked against what the keys may hold.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/stress/expected_state.h"
#include "benchmarks/stress/key_space.h"
#include "dLSM/db.h"
#include "dLSM/status.h"
#include "util/random.h"

namespace dlsm::stress {

enum class Operation : uint8_t {
  kPut = 0,
  kBatch,
  kGroupBatch,
  kGet,
  kMultiGet,
  kScan,
  kSnapshotTake,
  kSnapshotRead,
  kFlush,
  kCompactRange,
  kSetOptions,
  kProperties,
  kIngest,
};
inline constexpr size_t kOperationCount = 13;
const char* OperationName(Operation operation);

struct Tally {
  std::array<uint64_t, kOperationCount> operations{};
  uint64_t observations = 0;  // Results of reads that were checked.
  uint64_t tolerated = 0;     // Errors, while faults were injected.

  void Add(const Tally& other);
};

// What processes have done that were killed before they could tell; in memory that outlives them.
struct SharedTally {
  // Counted at once; the others at the end of each round.
  std::atomic<uint64_t> steps{0};
  std::atomic<uint64_t> succeeded{0};  // Of the steps, without an error that was tolerated.
  std::array<std::atomic<uint64_t>, kOperationCount> operations{};
  std::atomic<uint64_t> observations{0};
  std::atomic<uint64_t> tolerated{0};
  std::atomic<uint64_t> rounds{0};

  void Add(const Tally& more);
  Tally Sum() const;
};

// Whether an error may be due to an injected fault.
bool IsDueToFaults(const Status& status);

class Worker {
 public:
  struct Config {
    uint64_t number = 0;   // Of `workers`.
    uint64_t workers = 1;  // At most KeySpace::WritersMax().
    uint64_t seed = 0;
    // Of all operations so many flush or compact, besides those of the usual mixture; 0: none.
    uint64_t reshape_one_in = 0;
    // Options that change are all those that can, and not only the scheduler's.
    bool every_option = false;
    // A write with sync is in tables when it returns, and not only in a log.
    bool sync_persists = false;
  };
  // `space` and `state` outlive this.
  Worker(const Config& config, const KeySpace* space, ExpectedState* state)
      : config_(config), space_(space), state_(state), random_(config.seed) {}

  // One operation. Corruption if the database has returned what it must not, or an error of the
  // database that nothing explains. `faults`: transfers may fail.
  Status Step(DB* db, bool faults);
  // Reads one key and checks it.
  Status VerifyOne(DB* db, uint64_t key);
  // Reads all keys and checks them, and that batches are whole.
  Status VerifyAll(DB* db);
  // The same of a follower, which may show any state of the past from *floor on, but no mixture of
  // two. What it has shown it may not fall behind again: *floor, a version of each key, is raised.
  Status VerifyFollower(DB* follower, std::vector<uint32_t>* floor);
  // Before the database is closed.
  void ReleaseSnapshots(DB* db);

  const Tally& tally() const { return tally_; }
  Tally TakeTally() { return std::exchange(tally_, Tally()); }
  // What Step() did last, for people.
  const std::string& last() const { return last_; }
  // Groups of batches that VerifyAll() has found torn: only a crash may have done that.
  const std::vector<uint64_t>& torn_groups() const { return torn_groups_; }
  void TolerateTornGroups(bool tolerate) { tolerate_torn_ = tolerate; }
  // Writes a group again, whoever's it is: the other workers rest.
  Status RewriteGroup(DB* db, uint64_t group) { return WriteGroup(db, group, WriteOptions()); }

 private:
  using Window = std::vector<VersionRange>;  // Of neighbouring keys.

  struct Held {
    const Snapshot* snapshot = nullptr;
    Window all;
  };

  Operation Draw();
  uint64_t AnyKey() { return random_.Uniform(space_->count()); }
  // Of this worker's own.
  uint64_t OwnGroup(bool of_batches);

  // Now and then a write is to be safe when it returns, or is not to wait.
  WriteOptions DrawWriteOptions();
  // Writes by write(), and acknowledges these versions of keys if that succeeds. With sync they are
  // durable then, and so is all that was acknowledged before.
  using Versions = std::vector<std::pair<uint64_t, uint32_t>>;
  template <typename Write>
  Status WriteVersions(const Versions& versions, const WriteOptions& options, const Write& write);
  Status Put(DB* db);
  // Deletes the key, by itself or as a range without others.
  void DeleteIn(WriteBatch* batch, uint64_t key);
  Status Batch(DB* db);
  Status WriteGroup(DB* db, uint64_t group, const WriteOptions& options);
  // A sorted stream of keys, which are in tables afterwards.
  Status Ingest(DB* db);
  Status Get(DB* db);
  // The keys of a batch one after the other, without a snapshot: who has seen one of its entries
  // sees all of them from then on.
  Status GetGroup(DB* db, uint64_t group);
  Status GetOne(DB* db, uint64_t key, Observation* observation);
  Status MultiGet(DB* db);
  std::vector<Status> GetTogether(DB* db, const std::vector<std::string>& keys,
                                  std::vector<std::string>* values);
  // As DB::MultiGet(), but each key as of a moment of its own.
  std::vector<Status> GetPipelined(DB* db, const std::vector<std::string>& keys,
                                   std::vector<std::string>* values);
  Status Scan(DB* db, const Held* held);
  Status TakeSnapshot(DB* db);
  Status ReadSnapshot(DB* db);
  Status FlushAll(DB* db);
  Status Compact(DB* db);
  Status ChangeOptions(DB* db);
  Status LookAtProperties(DB* db);

  void SetLeast(uint64_t begin, Window* window) const;
  void SetMost(uint64_t begin, Window* window) const;
  // versions[key]: which of the window it may be, ascending.
  Status VerifyBy(Iterator* iterator, const Window& window,
                  std::vector<std::vector<uint32_t>>* versions);
  Status Check(const Observation& observation, const VersionRange& range,
               std::vector<uint32_t>* versions = nullptr);
  // The keys of a group by one MultiGet; `held` null: now.
  Status ReadGroup(DB* db, uint64_t group, const Held* held);
  Status CheckAbsent(uint64_t begin, uint64_t end, uint64_t window_begin, const Window& window);

  const Config config_;
  const KeySpace* const space_;
  ExpectedState* const state_;
  Random random_;
  Tally tally_;
  std::string last_;
  std::vector<Held> held_;
  std::vector<uint64_t> torn_groups_;
  bool tolerate_torn_ = false;
};

}  // namespace dlsm::stress
