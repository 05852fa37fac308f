// One-sided access to the memory of a memory node: the contract that every fabric keeps.
//
//   FabricConnection   this process's way to one memory node's regions; shared by all threads.
//   QueuePair          one thread's way to that memory node; only its creator calls it.
//
// Who owns a buffer when: from Post*() until the Wait() that covers its ticket has returned, the
// fabric owns the local bytes and the remote range. A Wait() that fails or times out closes the
// queue pair and drains it before it returns: no late read writes into the local buffer after that.
// Where there is no memory to ring or to wait, that is a failure like others: neither throws, but
// for those of the simulated network.
// A late write may still land remotely for as long as the connection says so (MayStillLand()); it
// carries nothing meanwhile, and who gives remote memory to others asks it first. A queue pair that
// has returned an error is closed: every later call returns that error; its owner makes a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/held_transfers.h"
#include "util/fabric/remote_address.h"
#include "util/fabric/wait_counts.h"
#include "util/fabric/wire_cost.h"
#include "util/numa.h"

namespace dlsm {

enum class FabricKind : uint8_t { kLocal = 0, kShm, kTcp, kVerbs };
const char* FabricKindName(FabricKind kind);
std::optional<FabricKind> FabricKindFromName(const std::string& name);

// The order of a posted request on its queue pair. Requests complete in the order of their tickets.
enum class Ticket : uint64_t {};

class QueuePair {
 public:
  // Where a doorbell costs next to nothing: these take longer to be looked for.
  static constexpr size_t kReadsWorthRinging = 16;
  static constexpr size_t kNeverWorthRinging = SIZE_MAX;

  virtual ~QueuePair() = default;

  // Each post queues one request; none blocks for its completion. Spans of zero bytes are allowed.
  // A span outside its region is an InvalidArgument at once or from Wait().
  virtual Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                          Ticket* ticket) = 0;
  virtual Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                           Ticket* ticket) = 0;
  // 8 aligned bytes at `word`. The word's former value is in *prior after Wait(); the swap took
  // place if that equals `expected`.
  virtual Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                                    uint64_t* prior, Purpose purpose, Ticket* ticket) = 0;
  virtual Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior,
                              Purpose purpose, Ticket* ticket) = 0;

  // Hands everything posted so far to the device with one doorbell, and returns at once: for
  // transfers that overlap with work. Wait() does the same first.
  virtual Status Ring() = 0;

  // How many reads are worth a doorbell while their poster looks for more of them: fewer would cost
  // more than they gain by being under way already. kNeverWorthRinging: a wait for few reads goes
  // together with other threads' waits just now; a doorbell would have them go alone.
  virtual size_t worth_ringing() const = 0;

  // Blocks until every request up to `ticket` has completed or `deadline` has passed; returns the
  // first error. A time-out closes the queue pair.
  virtual Status Wait(Ticket ticket, Deadline deadline) = 0;

  // The remote bytes themselves where this process can address them (local, shm); nullptr where it
  // cannot, or where a decorator insists on seeing every transfer. The caller accounts for what it
  // touches with CountDirect*(). Reads of bytes that were published before this call need no fence.
  virtual char* Direct(const RemoteSpan& span) = 0;
  // Accounts for a transfer made through Direct() as the one round trip that it would have been.
  virtual void CountDirectRead(uint64_t bytes, Purpose purpose) = 0;
  virtual void CountDirectWrite(uint64_t bytes, Purpose purpose) = 0;

  virtual bool closed() const = 0;

  // The memory of transfers that outlive the call that posted them. It is let go of only after the
  // implementation's destructor has ended all transfers.
  HeldTransfers& held() { return held_; }

 private:
  HeldTransfers held_;
};

// Memory of this process that transfers may use; it returns to its connection's pool (or is
// deregistered) when destroyed. Movable, owned by one thread at a time.
class RegisteredBuffer {
 public:
  RegisteredBuffer() = default;
  RegisteredBuffer(std::shared_ptr<char[]> memory, size_t bytes, uint32_t local_key)
      : memory_(std::move(memory)), bytes_(bytes), local_key_(local_key) {}

  char* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  LocalSpan span() const { return LocalSpan{memory_.get(), bytes_, local_key_}; }

 private:
  std::shared_ptr<char[]> memory_;  // Its deleter gives the memory back.
  size_t bytes_ = 0;
  uint32_t local_key_ = 0;
};

// One registered region of a memory node, as its hello announces it.
struct RegionInfo {
  RegionId id{};
  uint64_t bytes = 0;
  std::string shm_path;  // The file that holds it; empty where it has none.
};

class TlsContext;

// All that a compute node has to know to reach a memory node's regions.
struct FabricPeer {
  NodeId node{};
  ContentsId contents{};
  BootId boot{};
  PersistenceId persistence{};
  bool has_files = false;  // Method::kPersist has memory in files, which outlive a power failure.
  std::string host;        // Where data connections go (tcp).
  uint16_t port = 0;
  std::string data_token;  // Tells the fabric that this process has passed the hello,
  std::string data_key;    // and this proves it (tcp); see DataKey().
  std::shared_ptr<const TlsContext> tls;  // Of tcp data connections; null: plain.
  std::vector<RegionInfo> regions;
};

// Thread-safe. Outlives its queue pairs.
class FabricConnection {
 public:
  virtual ~FabricConnection() = default;

  virtual FabricKind kind() const = 0;
  virtual Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) = 0;
  virtual Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) = 0;
  // Whether a request of a queue pair that is closed may still take effect in the memory node's
  // memory. Of one that a thread has seen closed, that thread, and who hears of it, learns it here.
  virtual bool MayStillLand() const { return false; }
  // Called before there are queue pairs, by who simulates a network: where a transfer is a copy by
  // this process, larger ones are a thread's work from now on, as they are a network card's. While
  // it sleeps, who posts copies; but what has `wakes_for_bytes` waits until it is awake.
  virtual void CopyAside(uint64_t wakes_for_bytes) { static_cast<void>(wakes_for_bytes); }
  // The sum over all queue pairs of this connection, those destroyed included.
  virtual WireTotals Totals() const = 0;
  // How the waits of all queue pairs for answers went, where they go through the kernel (tcp).
  virtual WaitCounts Waits() const { return {}; }
  // The NUMA node that its buffers prefer.
  virtual int numa_node() const { return kNoNumaNode; }
  // The fabric's name and, where it has one, its device and what that did; for people.
  virtual std::string Describe() const { return FabricKindName(kind()); }
};

}  // namespace dlsm
