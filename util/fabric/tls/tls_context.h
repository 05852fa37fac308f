// TLS for control connections and tcp data connections: what a process needs once, to secure any
// number of connections. TLS 1.3 only, without resumption: every connection has keys of its own.
//
// Two ways to know the peer, one of them for all connections of a process:
//
//   certificate  the memory node shows a certificate, which names the host that was asked for and
//                leads to the client's CA file; a memory node with a CA file wants one of its
//                clients as well
//   key          both sides have a key, derived from the secret that they share, and no certificate
#pragma once

#include <openssl/types.h>

#include <functional>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/tls/tls_session.h"

namespace dlsm {

struct TlsConfig {
  bool enabled = false;          // Implied by each of the files.
  std::string certificate_file;  // PEM: what this side shows, with what leads to the CA.
  std::string key_file;          // PEM, readable by its owner only.
  std::string ca_file;           // PEM: whom to believe about the other side.

  bool on() const {
    return enabled || !certificate_file.empty() || !key_file.empty() || !ca_file.empty();
  }
};

// Constant once made; thread-safe.
class TlsContext {
 public:
  static constexpr size_t kKeyBytes = 32;
  // The key of a client by what it calls itself. Empty: it is refused, and can tell that from a
  // wrong key.
  using KeyOf = std::function<std::string(const std::string& identity)>;

  // With config.certificate_file clients are told who this is by certificate, otherwise by key.
  static Status ForServer(const TlsConfig& config, KeyOf key_of,
                          std::shared_ptr<const TlsContext>* context);
  // With config.ca_file the server is known by its certificate, otherwise by `key`; an empty one is
  // an InvalidArgument then.
  static Status ForClient(const TlsConfig& config, const std::string& identity,
                          const std::string& key, std::shared_ptr<const TlsContext>* context);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // The server's side of a connection that has carried nothing yet, for a caller that does the
  // handshake step by step.
  Status NewServerSession(int socket, std::unique_ptr<TlsSession>* session) const;
  // The handshake of a connection that has carried nothing yet. On an error the stream is of no
  // further use. `where` is "host:port" for messages.
  Status Accept(TcpStream& stream, Deadline deadline) const;
  Status Connect(TcpStream& stream, const std::string& host, const std::string& where,
                 Deadline deadline) const;

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };

  TlsContext();
  Status Prepare(const TlsConfig& config, bool server);
  Status LoadCertificate(const TlsConfig& config);
  Status LoadAuthorities(const std::string& file, bool server);
  // Why a handshake as client has failed. `verdict` is OpenSSL's on the certificate.
  Status Refused(const TlsSession& session, long verdict, const std::string& where) const;

  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
  KeyOf key_of_;          // Of a server; empty: it has a certificate.
  std::string identity_;  // Of a client without CA file, and its key.
  std::string key_;

  friend struct TlsCallbacks;
};

// Whether what a peer sends first on a new connection begins a TLS handshake.
bool IsTlsHandshake(const char* first, size_t bytes);

}  // namespace dlsm
