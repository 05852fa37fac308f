#include "util/openssl_setup.h"

#include <openssl/crypto.h>

namespace dlsm {

void SetUpOpenSsl() {
  // What fails here fails again where it is needed, and is told there.
  [[maybe_unused]] static const int done = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace dlsm
