// What the client and the server of TCP data connections do to sockets in the same way.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace dlsm {

enum class SocketOutcome {
  kMoved,    // *moved bytes, at least one.
  kBlocked,  // Nothing can be moved now.
  kEnded,    // The peer has closed its side (receiving only).
  kFailed,   // errno says why.
};

// Neither blocks nor raises SIGPIPE.
SocketOutcome SocketSend(int socket, iovec* parts, size_t count, size_t* moved);
SocketOutcome SocketReceive(int socket, iovec* parts, size_t count, size_t* moved);
// Sleeps until there is something, for as long as BlockToReceive() said; kBlocked after that, or
// after a signal.
SocketOutcome SocketReceiveOrSleep(int socket, iovec* parts, size_t count, size_t* moved);
// Prepares SocketReceiveOrSleep(), which others than it do not notice. Returns whether it can.
bool BlockToReceive(int socket, std::chrono::microseconds most);

// Not blocking, no delay for small frames, and a peer that has vanished is noticed.
void PrepareDataSocket(int socket);
// Of a prepared one: whoever is at either end may leave what it has asked for unread as long as it
// likes. Otherwise the kernel takes a peer that is alive, and has had no room for more for half a
// minute, for one that has vanished, too. For where something else notices those that have: a
// deadline, or that a token is revoked. An idle connection is watched as before.
void AllowSlowReader(int socket);

// "address:port" of the other end, for messages.
std::string SocketPeerName(int socket);

}  // namespace dlsm
