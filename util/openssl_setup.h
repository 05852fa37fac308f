// What every use of OpenSSL begins with.
#pragma once

namespace dlsm {

// Keeps OpenSSL from cleaning up when the process ends: handles that are destroyed later than that,
// static ones for instance, close over connections that are sealed, or under TLS. Has no effect
// where the application has used OpenSSL before. Thread-safe; every call but the first does
// nothing.
void SetUpOpenSsl();

}  // namespace dlsm
