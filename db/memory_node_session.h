// One open database at its memory node: the connection, the session, and the manifest kept there.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/manifest_store.h"
#include "util/rpc/messages.h"
#include "util/rpc/node_connection.h"

namespace dlsm {

// Connects to the memory node that the options name for this compute node: the embedded one if they
// name none.
Status ConnectToMemoryNode(const Options& options, std::unique_ptr<NodeConnection>* connection);

class MemoryNodeSession final : public ManifestStore {
 public:
  // Opens the database `name`; waits for the lease of a process that has died, not longer than
  // options.open_timeout_ms.
  static Status Open(const Options& options, const std::string& name,
                     std::unique_ptr<MemoryNodeSession>* session);
  ~MemoryNodeSession() override;

  NodeConnection& connection() { return *connection_; }
  SessionId id() const { return opened_.session; }
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(opened_.lease_ms); }
  // As it was when the database was opened; empty for a new one.
  const std::string& manifest() const { return opened_.manifest; }

  Status Put(const std::string& manifest, std::vector<RemoteSpan> live) override;
  // Ends the session: the memory node keeps what the manifest refers to. The last call.
  Status Close();

 private:
  MemoryNodeSession(std::unique_ptr<NodeConnection> connection, OpenDatabaseReply opened,
                    std::chrono::nanoseconds timeout);

  const std::unique_ptr<NodeConnection> connection_;
  const OpenDatabaseReply opened_;
  const std::chrono::nanoseconds timeout_;
  uint64_t manifest_version_;
  bool closed_ = false;
};

}  // namespace dlsm
