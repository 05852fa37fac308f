// The hello: how a control connection begins.
//
//     client                                memory node
//       greeting  ------------------------->              "DLSMCTRL", version
//                 <-------------------------  greeting    both go on only if the versions are equal
//       opening   ------------------------->              nonce, name, name in the access list
//                 <-------------------------  challenge   nonce (or: too busy)
//       proof     ------------------------->              HMAC, data token of an earlier connection
//                 <-------------------------  welcome     HMAC, node, contents, boot,
//                                                       persistence, files, regions, data token
//
// The client proves itself first: who does not know the secret learns nothing that the secret could
// be guessed from, and no address. The frames that follow are sealed with keys that come from the
// secret and both nonces (frame_seal.h). Nothing is hidden from those who can read the network's
// packets, unless all of this is carried by TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/clock.h"
#include "util/deadline.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/rpc/auth/access_list.h"
#include "util/rpc/auth/failure_limiter.h"
#include "util/rpc/auth/frame_seal.h"
#include "util/rpc/auth/hello_messages.h"

namespace dlsm {

struct ClientIdentity {
  std::string secret;
  std::string name;
  std::string access_name;  // In the memory node's access list; empty: `secret` is the cluster's.
  // To be kept from an earlier connection; empty: a new one, please. A memory node that is in
  // another boot by now, or has taken the token away, gives a new one too: otherwise data
  // connections would go on as if nothing had happened, into memory that belongs to others.
  std::string data_token;
  BootId boot{};  // That gave the data token.
  uint32_t version = kProtocolVersion;
};

// `where` is "host:port" for messages. InvalidArgument if the secret or the versions do not match.
// On an error the stream is of no further use.
Status ClientHello(TcpStream& stream, const std::string& where, const ClientIdentity& identity,
                   Deadline deadline, NodeInfo* info, FrameKeys* keys);

struct NodeIdentity {
  std::string secret;
  std::shared_ptr<const AccessList> access;  // Null: everybody has the cluster's secret.
  NodeInfo info;                             // Its data token is not looked at.
  uint32_t version = kProtocolVersion;
};

struct AuthenticatedClient {
  std::string name;
  std::string data_token;
  ClientRights rights;
  FrameKeys keys;
};

// The client has proved itself, and shows the token of an earlier connection, if it has one: sets
// info->data_token to the one that it is to be told, and changes what else such a client is told.
using GiveToken =
    std::function<Status(const std::string& shown, const ClientRights& rights, NodeInfo* info)>;

// Holds the calling thread for so long, or less if nobody waits for it any more.
using Pause = std::function<void(FailureLimiter::Clock::duration)>;

// The other side, once the first kPreambleBytes have been read. `failures`, if there is one, delays
// the clients of an `address` that has failed before, by `pause`.
Status NodeHello(TcpStream& stream, const NodeIdentity& identity, Deadline deadline,
                 const GiveToken& give_token, AuthenticatedClient* client,
                 FailureLimiter* failures = nullptr, const std::string& address = {},
                 const Pause& pause = port::SleepFor);

// Instead of NodeHello: tells the client why it is not served. `busy`: it may be some other time.
Status RefuseHello(TcpStream& stream, const std::string& reason, Deadline deadline,
                   bool busy = true);

}  // namespace dlsm
