// The memory node's half of the tcp fabric: threads that answer one-sided requests, which are never
// the RPC workers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/fabric/reach.h"
#include "util/fabric/tcp/tcp_server_connection.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/wait_counts.h"
#include "util/message_order.h"

namespace dlsm {

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
  // Also closes the data connections that used it. If it returns OK, nothing that they sent can
  // take effect any more. Otherwise something may, and the caller must call again.
  virtual Status RevokeToken(const std::string& token) = 0;
  // How the threads' waits for requests went.
  virtual WaitCounts Waits() const = 0;
  // Connections that a busy thread has handed to an idle one.
  virtual uint64_t HandedOver() const = 0;
  // Connections now.
  virtual size_t Connections() const = 0;
  virtual TcpTraffic Traffic() const = 0;
};

}  // namespace dlsm
