// Calls from a compute node to a memory node: what is rare (grants, merges, manifests). Data never
// goes by calls. Whatever the fabric, they go over a TCP connection, the control connection, or
// over RDMA where that is asked for (rpc_transport.h). The embedded memory node is called directly
// (loopback_rpc.h).
//
// On a memory node a handler may answer later and from another thread; a compute node's thread
// waits meanwhile. Many calls of one client may be under way at once, each with its own id.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/deadline.h"

namespace dlsm {

enum class Method : uint8_t {
  kOpenDatabase = 1,
  kHeartbeat,
  kGrant,
  kFree,
  kMerge,
  kPutManifest,
  kCloseDatabase,
  kDestroyDatabase,
  kListDatabases,
  kNodeStatistics,
  kSetMergeSchedule,
  kSetQuota,
  kOpenReader,
  kReaderHeartbeat,
  kCloseReader,
  kRenewSessions,
  kPersist,
};
// What has an element for each method, by its number, has this many: there is no method 0.
inline constexpr size_t kMethodCount = static_cast<size_t>(Method::kPersist) + 1;
const char* MethodName(Method method);

struct CallCounts {
  uint64_t calls = 0;
  uint64_t failures = 0;  // Of those: without an answer, or with one that is an error.
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
};
using CallTotals = std::array<CallCounts, kMethodCount>;

// The largest frame either side accepts; what claims to be larger ends the connection.
inline constexpr size_t kFrameBytesMax = size_t{64} << 20;

// IOError: what a client has had at this memory node ended with a boot. Whether the memory node has
// still the contents that it had then is for the message: nothing of it may be used before the
// database is opened again.
Status OtherBoot(const std::string& node, bool has_contents);

// One per process and memory node. Thread-safe.
class RpcClient {
 public:
  virtual ~RpcClient() = default;

  // Sends `request` and waits for the answer. The Status is the handler's, or says why there is no
  // answer: TimedOut, or IOError when the connection failed. A lost connection is made again at the
  // next call. Calls are of the boot of the memory node that the client first reached: once it
  // finds another one, every call fails and says so, see OtherBoot().
  virtual Status Call(Method method, const Slice& request, std::string* reply,
                      Deadline deadline) = 0;

  // So far; all zero where calls cross no network.
  virtual CallTotals Totals() const { return {}; }
  // Why no call can succeed any more, as far as a call has found that out; OK: nothing of the kind.
  virtual Status lost() { return Status::OK(); }
  // From now on `told`, if not empty, is called when the connection fails, also while there are no
  // calls: soon, by any thread, and it must not call this client. Once this returns the former one
  // is not called any more. False: this cannot tell, only calls can.
  virtual bool WhenDisconnected(std::function<void()> /*told*/) { return false; }
};

class AccessRights;

// Who calls, as far as the memory node has made sure of it.
struct RpcPeer {
  // Unique during the life of the memory node, and larger than that of any connection before.
  uint64_t connection = 0;
  std::string name;  // For logs and messages: what the client calls itself, and its address.
  // With which it reaches memory one-sided. Empty: it reaches nothing that could be taken from it.
  std::string data_token{};
  // What the access list lets it do; null: everything.
  std::shared_ptr<const AccessRights> rights{};
};

using RpcDone = std::function<void(const Status& status, std::string reply)>;

// A memory node's side. Called by several threads at once.
class RpcHandler {
 public:
  virtual ~RpcHandler() = default;
  // Calls `done` exactly once, now or later, from any thread. `request` is gone after the return.
  virtual void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) = 0;
  // No further call will come from this connection; answers to earlier ones are dropped.
  virtual void Disconnected(const RpcPeer& peer) = 0;
};

}  // namespace dlsm
