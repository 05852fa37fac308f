// TCP sockets with deadlines: what control connections of both sides are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/tcp/tcp_addresses.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/file_descriptor.h"

namespace dlsm {

// One of a socket.
using Socket = FileDescriptor;

// Resolves `host` and connects. *failure (never null) tells more of an error: only after kRefused
// is it worth another try.
Status ConnectSocket(const std::string& host, uint16_t port, Deadline deadline, Socket* socket,
                     ConnectFailure* failure);

// Listens on the numeric address `bind_address`; port 0: any free one. *bound_port gets the port.
Status ListenSocket(const std::string& bind_address, uint16_t port, Socket* socket,
                    uint16_t* bound_port);

// What every control connection wants: no delay of small packets, and notice within seconds when
// the peer's host has gone silently.
void PrepareSocket(int socket);

// "127.0.0.1:40312"; "a peer" when it is unknown.
std::string PeerAddress(int socket);
// "127.0.0.1"; empty when it is unknown.
std::string PeerHost(int socket);

// Wait until all bytes are sent or received, the peer is gone, or the deadline has passed. For
// blocking and non-blocking sockets alike.
Status SendAll(int socket, const Slice& bytes, Deadline deadline);
Status ReceiveAll(int socket, char* to, size_t bytes, Deadline deadline);
// Leaves what it has looked at to be received.
Status PeekAll(int socket, char* to, size_t bytes, Deadline deadline);
Status SendAll(TcpStream& stream, const Slice& bytes, Deadline deadline);
Status ReceiveAll(TcpStream& stream, char* to, size_t bytes, Deadline deadline);

// poll(2)'s timeout until then: rounded up, so that a wait never ends early and spins.
int PollTimeout(Deadline deadline);

}  // namespace dlsm
