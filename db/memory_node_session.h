// One open database at its memory node: the session, and the manifest kept there.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/manifest_store.h"
#include "util/rpc/messages.h"
#include "util/rpc/rpc.h"

namespace dlsm {

class MemoryNodeSession final : public ManifestStore {
 public:
  // Opens the database `name`; waits for the lease of a process that has died, not longer than
  // options.open_timeout_ms. `rpc` outlives the session.
  static Status Open(const Options& options, const std::string& name, RpcClient* rpc,
                     std::unique_ptr<MemoryNodeSession>* session);
  // Destroys a database that is not open. OK if there is none.
  static Status Destroy(const Options& options, const std::string& name, RpcClient* rpc);
  ~MemoryNodeSession() override;

  SessionId id() const { return opened_.session; }
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(opened_.lease_ms); }
  // As it was when the database was opened; empty for a new one.
  const std::string& manifest() const { return opened_.manifest; }

  Status Put(const std::string& manifest, std::vector<RemoteSpan> live) override;
  // Ends the session: the memory node keeps what the manifest refers to. The last call.
  Status Close();

 private:
  MemoryNodeSession(RpcClient* rpc, OpenDatabaseReply opened, std::chrono::nanoseconds timeout);

  RpcClient* const rpc_;
  const OpenDatabaseReply opened_;
  const std::chrono::nanoseconds timeout_;
  uint64_t manifest_version_;
  bool closed_ = false;
};

}  // namespace dlsm
