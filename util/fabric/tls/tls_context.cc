#include "util/fabric/tls/tls_context.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>

#include <cstring>
#include <new>
#include <utility>

#include "util/fabric/tls/tcp_wait.h"
#include "util/openssl_setup.h"
#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kPemBytesMax = size_t{1} << 20;
constexpr mode_t kOthers = 077;
// A context's name for sessions, which are not kept; OpenSSL wants one where it asks for
// certificates.
constexpr unsigned char kSessionContext[] = "dLSM";
// Both ends know it, and its hash is that of the keys.
constexpr const char* kCipherOfKeys = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherOfKeysId[] = {0x13, 0x01};

std::string LibraryError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown error";
}

// OpenSSL's messages do not name the file.
Status CheckFile(const char* what, const std::string& path, bool private_to_owner) {
  SmallFile file;
  DLSM_RETURN_IF_ERROR(ReadSmallFile(what, path, kPemBytesMax, &file));
  const bool open = private_to_owner && (file.mode & kOthers) != 0;
  OPENSSL_cleanse(file.contents.data(), file.contents.size());
  if (!open) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("the {0} {1} is open to others than its owner (mode {2:04o}); run: chmod 600 {1}",
                  what, path, file.mode));
}

SSL_SESSION* SessionOfKey(SSL* ssl, const std::string& key) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherOfKeysId);
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

}  // namespace

bool IsTlsHandshake(const char* first, size_t bytes) {
  return bytes >= 2 && first[0] == 0x16 && first[1] == 0x03;
}

// What OpenSSL calls back.
struct TlsCallbacks {
  static const TlsContext& Of(SSL* ssl) {
    return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  // Client: what to offer. A digest is named when the server wants another one than was offered.
  static int UseKey(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                    size_t* identity_bytes, SSL_SESSION** session) {
    const TlsContext& context = Of(ssl);
    *session = digest == nullptr || EVP_MD_get_size(digest) == TlsContext::kKeyBytes
                   ? SessionOfKey(ssl, context.key_)
                   : nullptr;
    *identity = reinterpret_cast<const unsigned char*>(context.identity_.data());
    *identity_bytes = context.identity_.size();
    return 1;
  }

  // Server: the key of a client. None, and so without memory for it, through which nothing may be
  // thrown here: the handshake fails, for there is no certificate either.
  static int FindKey(SSL* ssl, const unsigned char* identity, size_t identity_bytes,
                     SSL_SESSION** session) try {
    *session = nullptr;
    const std::string key =
        Of(ssl).key_of_(std::string(reinterpret_cast<const char*>(identity), identity_bytes));
    if (key.size() == TlsContext::kKeyBytes) *session = SessionOfKey(ssl, key);
    return 1;
  } catch (const std::bad_alloc&) {
    return 1;
  }
};

void TlsContext::ContextDeleter::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

TlsContext::TlsContext() = default;
TlsContext::~TlsContext() { OPENSSL_cleanse(key_.data(), key_.size()); }

Status TlsContext::Prepare(const TlsConfig& config, bool server) {
  SetUpOpenSsl();
  ERR_clear_error();
  context_.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* const context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
    return Status::IOError("TLS cannot be set up", LibraryError());
  }
  SSL_CTX_set_app_data(context, this);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  if (!config.certificate_file.empty() || !config.key_file.empty()) {
    DLSM_RETURN_IF_ERROR(LoadCertificate(config));
  }
  if (!config.ca_file.empty()) DLSM_RETURN_IF_ERROR(LoadAuthorities(config.ca_file, server));
  return Status::OK();
}

Status TlsContext::LoadCertificate(const TlsConfig& config) {
  if (config.certificate_file.empty() || config.key_file.empty()) {
    return Status::InvalidArgument(
        "TLS needs a certificate and its key together: give both tls_certificate_file and "
        "tls_key_file");
  }
  DLSM_RETURN_IF_ERROR(CheckFile("TLS certificate file", config.certificate_file, false));
  DLSM_RETURN_IF_ERROR(CheckFile("TLS key file", config.key_file, true));
  SSL_CTX* const context = context_.get();
  if (SSL_CTX_use_certificate_chain_file(context, config.certificate_file.c_str()) != 1) {
    return Status::InvalidArgument(
        fmt::format("the TLS certificate file {} has no certificate ({})", config.certificate_file,
                    LibraryError()),
        "it has to be in PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(context, config.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return Status::InvalidArgument(
        fmt::format("the TLS key file {} has no key for the certificate of {} ({})",
                    config.key_file, config.certificate_file, LibraryError()),
        "it has to be in PEM, without a password");
  }
  return Status::OK();
}

Status TlsContext::LoadAuthorities(const std::string& file, bool server) {
  DLSM_RETURN_IF_ERROR(CheckFile("TLS CA file", file, false));
  SSL_CTX* const context = context_.get();
  if (SSL_CTX_load_verify_file(context, file.c_str()) != 1) {
    return Status::InvalidArgument(
        fmt::format("the TLS CA file {} has no certificate ({})", file, LibraryError()),
        "it has to be in PEM");
  }
  if (SSL_CTX_set_session_id_context(context, kSessionContext, sizeof(kSessionContext)) != 1) {
    return Status::IOError("TLS cannot be set up", LibraryError());
  }
  // A certificate that is in the file is believed, whoever has signed it.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_verify(context,
                     server ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_PEER,
                     nullptr);
  return Status::OK();
}

Status TlsContext::ForServer(const TlsConfig& config, KeyOf key_of,
                             std::shared_ptr<const TlsContext>* context) {
  const std::shared_ptr<TlsContext> made(new TlsContext());
  DLSM_RETURN_IF_ERROR(made->Prepare(config, /*server=*/true));
  if (config.certificate_file.empty()) {
    if (!config.ca_file.empty()) {
      return Status::InvalidArgument(
          "a memory node with a tls_ca_file needs a tls_certificate_file and a tls_key_file");
    }
    made->key_of_ = std::move(key_of);
    SSL_CTX_set_ciphersuites(made->context_.get(), kCipherOfKeys);
    SSL_CTX_set_psk_find_session_callback(made->context_.get(), TlsCallbacks::FindKey);
  }
  *context = made;
  return Status::OK();
}

Status TlsContext::ForClient(const TlsConfig& config, const std::string& identity,
                             const std::string& key, std::shared_ptr<const TlsContext>* context) {
  const std::shared_ptr<TlsContext> made(new TlsContext());
  DLSM_RETURN_IF_ERROR(made->Prepare(config, /*server=*/false));
  if (config.ca_file.empty()) {
    if (key.size() != kKeyBytes) {
      return Status::InvalidArgument(
          "TLS has nothing to know the memory node by: give a secret_file, or a tls_ca_file for "
          "its certificate");
    }
    made->identity_ = identity;
    made->key_ = key;
    SSL_CTX_set_ciphersuites(made->context_.get(), kCipherOfKeys);
    SSL_CTX_set_psk_use_session_callback(made->context_.get(), TlsCallbacks::UseKey);
    // Without a CA no certificate is good enough in the key's place.
    SSL_CTX_set_verify(made->context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  *context = made;
  return Status::OK();
}

Status TlsContext::NewServerSession(int socket, std::unique_ptr<TlsSession>* session) const {
  TlsSession::SslHandle ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return Status::IOError("no memory for TLS");
  SSL_set_accept_state(ssl.get());
  return TlsSession::Make(std::move(ssl), socket, session);
}

Status TlsContext::Accept(TcpStream& stream, Deadline deadline) const {
  std::unique_ptr<TlsSession> session;
  DLSM_RETURN_IF_ERROR(NewServerSession(stream.get(), &session));
  short events = 0;
  for (;;) {
    const SocketOutcome outcome = session->Handshake(&events);
    if (outcome == SocketOutcome::kMoved) break;
    if (outcome != SocketOutcome::kBlocked) {
      return Status::InvalidArgument("its TLS handshake failed", session->failure());
    }
    if (deadline.Passed()) return Status::TimedOut("it did not finish its TLS handshake");
    PollSocket(stream.get(), events, deadline);
  }
  stream.Secure(std::move(session));
  return Status::OK();
}

Status TlsContext::Connect(TcpStream& stream, const std::string& host, const std::string& where,
                           Deadline deadline) const {
  TlsSession::SslHandle made(SSL_new(context_.get()));
  if (made == nullptr) return Status::IOError("no memory for TLS");
  SSL* const ssl = made.get();
  SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1) {
    ERR_clear_error();
    SSL_set_tlsext_host_name(ssl, host.c_str());
    if (X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), 0) != 1) {
      return Status::InvalidArgument(fmt::format("'{}' is no host name", host));
    }
  }
  std::unique_ptr<TlsSession> session;
  DLSM_RETURN_IF_ERROR(TlsSession::Make(std::move(made), stream.get(), &session));
  short events = 0;
  for (;;) {
    const SocketOutcome outcome = session->Handshake(&events);
    if (outcome == SocketOutcome::kMoved) break;
    if (outcome != SocketOutcome::kBlocked) {
      // The session, and with it `ssl`, is still there.
      return Refused(*session, SSL_get_verify_result(ssl), where);
    }
    if (deadline.Passed()) {
      return Status::TimedOut(
          fmt::format("memory node {} does not answer the TLS handshake", where));
    }
    PollSocket(stream.get(), events, deadline);
  }
  stream.Secure(std::move(session));
  return Status::OK();
}

Status TlsContext::Refused(const TlsSession& session, long verdict,
                           const std::string& where) const {
  if (verdict != X509_V_OK && !key_.empty()) {
    return Status::InvalidArgument(
        fmt::format("memory node {} shows a certificate, and this client has no tls_ca_file to "
                    "check it with",
                    where));
  }
  if (verdict != X509_V_OK) {
    return Status::InvalidArgument(
        fmt::format("the certificate of memory node {} is not good: {}", where,
                    X509_verify_cert_error_string(verdict)),
        "it has to name this host, be in its time, and lead to the tls_ca_file");
  }
  if (session.alerted() && !key_.empty()) {
    return Status::InvalidArgument(
        fmt::format("memory node {} refused the secret of this client: it has another one, or "
                    "shows a certificate ({})",
                    where, session.failure()),
        "use the same secret file on both sides, or give a tls_ca_file");
  }
  if (session.alerted()) {
    return Status::InvalidArgument(
        fmt::format("memory node {} refused the TLS connection ({})", where, session.failure()),
        "it may want a certificate of this client, or have none of its own (Server --tls)");
  }
  return Status::InvalidArgument(
      fmt::format("memory node {} does not speak TLS, or ended the handshake ({})", where,
                  session.failure()),
      "start Server with --tls or a certificate, or use no TLS here");
}

}  // namespace dlsm
