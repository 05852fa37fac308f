// Data connections to a memory node, and whole messages over them: what tcp and verbs set up alike.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/fabric/tcp/tcp_addresses.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/file_descriptor.h"

namespace dlsm {

// "memory node 1 at host:port", for messages.
std::string PeerName(const FabricPeer& peer);

// Constant once resolved; thread-safe.
class PeerDialer {
 public:
  static Status Resolve(const FabricPeer& peer, PeerDialer* dialer);

  const std::string& name() const { return name_; }
  // The socket does not block.
  Status Dial(Deadline deadline, FileDescriptor* socket) const;

 private:
  TcpAddresses addresses_;
  std::string name_;
};

// Moves all of the bytes while a connection to `peer` is set up; `socket` does not block.
Status SendWhole(const std::string& peer, int socket, const std::string& bytes, Deadline deadline);
Status ReceiveWhole(const std::string& peer, int socket, char* to, size_t bytes, Deadline deadline);
Status SendWhole(const std::string& peer, TcpStream& stream, const std::string& bytes,
                 Deadline deadline);
Status ReceiveWhole(const std::string& peer, TcpStream& stream, char* to, size_t bytes,
                    Deadline deadline);
// Their errors speak of a memory node, to its client. Where it is a memory node that has called
// them, this puts in their place what it says of its client, which was to `do_what`.
Status OfClient(const Status& status, const char* do_what);

}  // namespace dlsm
