// The flags of TLS, for the programs that reach memory nodes.
#pragma once

#include "util/fabric/tls/tls_context.h"

namespace dlsm::bench {

TlsConfig TlsFromFlags();

}  // namespace dlsm::bench
