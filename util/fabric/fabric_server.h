// The memory node's half of the fabrics: registered memory, for tcp the threads that answer
// one-sided requests (never the RPC workers), and for verbs what lets a device answer them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/fabric/reach.h"
#include "util/fabric/tcp_stream.h"
#include "util/fabric/verbs_counters.h"
#include "util/fabric/verbs_options.h"
#include "util/fabric/wait_counts.h"
#include "util/message_order.h"

namespace dlsm {

class VerbsDevice;

// A range of this process's memory that peers reach one-sided. Owns the mapping.
class ExportedRegion {
 public:
  virtual ~ExportedRegion() = default;
  virtual char* data() const = 0;
  virtual const RegionInfo& info() const = 0;
  // What a person should know of this memory: "huge pages", "no huge pages: <why and remedy>".
  virtual const std::string& note() const = 0;
  // Takes all pages now, as far as the machine can spare them, and not when each is written; the
  // note says what it could not. To be called before others look at the note.
  virtual void TakeAllPages() = 0;
};

struct RegionOptions {
  RegionId id{};
  uint64_t bytes = 0;
  FabricKind kind = FabricKind::kLocal;  // kShm: a file in /dev/shm; others: anonymous.
  bool huge_pages = true;                // Asked for; a refusal is noted, not an error.
  int numa_node = -1;                    // -1: wherever the kernel puts it.
  std::string name;                      // Part of the shm file's name.
  std::string root = "/";                // See MemoryLimit().
};

// Maps memory; fails with a Status that names the remedy when there is not enough of it. Files that
// servers killed earlier have left in /dev/shm (nobody holds their lock) are removed first.
Status CreateRegion(const RegionOptions& options, std::unique_ptr<ExportedRegion>* region);

// Regions of memory nodes that live in this process, for the local fabric. Keyed by (node, epoch).
// Thread-safe.
class LocalRegions {
 public:
  // Those of this process: a child of it has its own. Never destroyed.
  static LocalRegions& Instance();
  LocalRegions();
  void Add(NodeId node, uint64_t epoch, RegionId region, char* data, uint64_t bytes);
  void Remove(NodeId node, uint64_t epoch);
  // nullptr when there is no such region.
  char* Find(NodeId node, uint64_t epoch, RegionId region, uint64_t* bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Answers one-sided requests that arrive on TCP data connections. Its own threads only.
class TcpFabricServer {
 public:
  // `regions` and `order` outlive the server. `order` is that of all threads that use the regions
  // when peers ask for it. Tokens: see AllowToken.
  // `poll`: how long a thread may poll for requests before it sleeps; see adaptive_poll.h.
  static Status Start(const std::vector<ExportedRegion*>& regions, int threads,
                      std::chrono::microseconds poll, MessageOrder* order,
                      std::unique_ptr<TcpFabricServer>* server);
  virtual ~TcpFabricServer() = default;

  // The hello (tcp_hello.h) of a connection whose peer has sent the data preamble: *token is the
  // one that the peer has shown and proved. Blocks, on the caller's thread.
  virtual Status Greet(TcpStream& stream, Deadline deadline, std::string* token) = 0;
  // Serves a connection that was greeted.
  virtual void Adopt(TcpStream stream, const std::string& token) = 0;
  // Instead of Adopt(): tells the peer that there is no descriptor for the connection. Blocks.
  virtual Status Refuse(TcpStream& stream, Deadline deadline) = 0;
  // `key` proves the token (DataKey()); `reach` limits what it gives access to.
  virtual void AllowToken(const std::string& token, const std::string& key,
                          ReachPointer reach = nullptr) = 0;
  // Also closes the data connections that used it. OK: nothing that they sent can take effect any
  // more. Otherwise it may, and this is to be called again.
  virtual Status RevokeToken(const std::string& token) = 0;
  // How the threads' waits for requests went.
  virtual WaitCounts Waits() const = 0;
  // Connections that a busy thread has handed to an idle one.
  virtual uint64_t HandedOver() const = 0;
};

// Lets clients reach the regions through an RDMA device, which answers without any thread of this
// process. Each client (data token) has a protection domain and registrations of its own.
class VerbsFabricServer {
 public:
  // `regions` outlive the server. Their memory is taken and pinned as a trial: an error tells at
  // the start what the first client would have met.
  static Status Start(std::vector<ExportedRegion*> regions, const VerbsOptions& options,
                      std::unique_ptr<VerbsFabricServer>* server);
  // The same with a device that has been opened already.
  static Status Start(std::vector<ExportedRegion*> regions,
                      std::shared_ptr<const VerbsDevice> device,
                      std::unique_ptr<VerbsFabricServer>* server);
  virtual ~VerbsFabricServer() = default;

  // Reads and checks what a peer that has sent the verbs preamble shows: *token. The socket stays
  // the caller's. Blocks, on the caller's thread.
  virtual Status Greet(int socket, Deadline deadline, std::string* token) = 0;
  // Takes over the connected socket of a peer that was greeted, arranges a queue pair over it, and
  // keeps it as that one's life line. Blocks until that is done or has failed, for seconds at most.
  virtual Status Adopt(int socket, const std::string& token) = 0;
  // Instead of Adopt(): tells the peer that there is no descriptor for the queue pair. The socket
  // stays the caller's. Blocks.
  virtual Status Refuse(int socket, Deadline deadline) = 0;
  virtual void AllowToken(const std::string& token) = 0;
  // Destroys the queue pairs and the registrations that were made for it, which takes long where
  // much is registered. OK: the device has confirmed that they are gone, so that nothing which a
  // client with this token has asked for can take effect any more. Otherwise it may, and this is to
  // be called again.
  virtual Status RevokeToken(const std::string& token) = 0;
  // Device, port, GID and MTU, for people.
  virtual std::string Describe() const = 0;
  virtual VerbsEventCounts Events() const = 0;
};

}  // namespace dlsm
