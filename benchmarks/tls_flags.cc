#include "benchmarks/tls_flags.h"

#include <gflags/gflags.h>

DEFINE_bool(tls, false, "dlsm: TLS to the memory nodes, known by the secret");
DEFINE_string(tls_ca_file, "",
              "dlsm: PEM: TLS to memory nodes, known by certificates that lead there");
DEFINE_string(tls_certificate_file, "", "dlsm: PEM: what this client shows by TLS");
DEFINE_string(tls_key_file, "", "dlsm: PEM: its key");

namespace dlsm::bench {

TlsConfig TlsFromFlags() {
  TlsConfig tls;
  tls.enabled = FLAGS_tls;
  tls.ca_file = FLAGS_tls_ca_file;
  tls.certificate_file = FLAGS_tls_certificate_file;
  tls.key_file = FLAGS_tls_key_file;
  return tls;
}

}  // namespace dlsm::bench
