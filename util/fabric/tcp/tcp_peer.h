// Whom the TCP data connections of a client talk to, and what is wrong when its answers are.
#pragma once

#include <cstdint>
#include <string>

#include "dLSM/status.h"
#include "util/fabric/region_table.h"
#include "util/fabric/remote_address.h"
#include "util/fabric/tcp/tcp_frame.h"

namespace dlsm {

// Constant, and shared by the data connections to one memory node.
struct TcpPeer {
  NodeId node{};
  std::string name;     // "memory node 1 at host:port", for messages.
  RegionTable regions;  // Without addresses.
};

// The request whose reply comes next on a data connection.
struct TcpExpectation {
  TcpOpcode opcode = TcpOpcode::kHello;
  uint32_t sequence = 0;
  uint64_t bytes = 0;  // Of a read or write.

  bool is_atomic() const {
    return opcode == TcpOpcode::kCompareAndSwap || opcode == TcpOpcode::kFetchAdd;
  }
};

// Reads the header of a reply. Fails if the request was refused, or it is no reply to it.
Status ReadTcpReply(const TcpPeer& peer, const TcpExpectation& expected, const char* header,
                    TcpReply* reply);

// Of a data connection that has ended without having been asked to.
Status TcpConnectionLost(const TcpPeer& peer, const std::string& why);

}  // namespace dlsm
