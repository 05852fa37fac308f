// The hello: how a control connection begins.
//
//     client                                memory node
//       greeting  ------------------------->              "DLSMCTRL", version
//                 <-------------------------  greeting    both go on only if the versions are equal
//       opening   ------------------------->              nonce, name
//                 <-------------------------  challenge   nonce (or: too busy)
//       proof     ------------------------->              HMAC, data token of an earlier connection
//                 <-------------------------  welcome     HMAC, node, epoch, regions, data token
//
// The client proves itself first: who does not know the secret learns nothing that the secret could
// be guessed from, and no address. The hello keeps strangers out; it does not hide or protect what
// is sent afterwards from those who can read or change the network's packets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/rpc/hello_messages.h"

namespace dlsm {

struct ClientIdentity {
  std::string secret;
  std::string name;
  // To be kept from an earlier connection; empty: a new one, please. A memory node that has another
  // epoch by now, or has taken the token away, gives a new one too: otherwise data connections
  // would go on as if nothing had happened, into memory that belongs to others.
  std::string data_token;
  uint64_t epoch = 0;  // Of the data token.
  uint32_t version = kProtocolVersion;
};

// `where` is "host:port" for messages. InvalidArgument if the secret or the versions do not match.
// On an error the socket is of no further use.
Status ClientHello(int socket, const std::string& where, const ClientIdentity& identity,
                   Deadline deadline, NodeInfo* info);

struct NodeIdentity {
  std::string secret;
  NodeInfo info;  // Its data token is not looked at.
  uint32_t version = kProtocolVersion;
};

struct AuthenticatedClient {
  std::string name;
  std::string data_token;
};

// The client has proved itself, and shows the token of an earlier connection, if it has one: sets
// *token to the one that it is to be told.
using GiveToken = std::function<Status(const std::string& shown, std::string* token)>;

// The other side, once the first kPreambleBytes have been read.
Status NodeHello(int socket, const NodeIdentity& identity, Deadline deadline,
                 const GiveToken& give_token, AuthenticatedClient* client);

// Instead of NodeHello: tells the client why it is not served.
Status RefuseHello(int socket, const std::string& reason, Deadline deadline);

}  // namespace dlsm
