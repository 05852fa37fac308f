// A control connection behind its hello: where frames go and come, and what seals them.
#pragma once

#include "util/fabric/tls/tcp_stream.h"
#include "util/rpc/auth/frame_seal.h"

namespace dlsm {

struct ControlStream {
  TcpStream stream;
  FrameSeals seals;
};

}  // namespace dlsm
