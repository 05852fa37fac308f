// Frames of verbs_frame.h over a socket, for both ends.
#pragma once

#include <optional>
#include <string>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/verbs/verbs_frame.h"

namespace dlsm {

// `peer` is named in messages; `socket` does not block. NotSupported if it speaks another version.
Status ReceiveVerbsFrame(const std::string& peer, int socket, Deadline deadline,
                         VerbsFrameKind* kind, std::string* body);

// A frame of kind `wanted`, or the reason of a refusal as an IOError.
Status ReceiveVerbsAnswer(const std::string& peer, int socket, Deadline deadline,
                          VerbsFrameKind wanted, std::string* body);

// This machine's address on a connection, as a GID.
std::optional<VerbsGid> SocketAddress(int socket);

}  // namespace dlsm
