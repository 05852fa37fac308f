#include "util/rpc/auth/hello.h"

#include <fmt/core.h>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/log.h"
#include "util/rpc/auth/socket.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status SendMessage(TcpStream& stream, const Slice& body, Deadline deadline) {
  return SendAll(stream, EncodeHelloMessage(body), deadline);
}

Status ReceiveMessage(TcpStream& stream, Deadline deadline, std::string* body) {
  char header[kHelloHeaderBytes];
  DLSM_RETURN_IF_ERROR(ReceiveAll(stream, header, sizeof(header), deadline));
  uint32_t bytes = 0;
  uint32_t checksum = 0;
  DLSM_RETURN_IF_ERROR(DecodeHelloHeader(Slice(header, sizeof(header)), &bytes, &checksum));
  body->resize(bytes);
  DLSM_RETURN_IF_ERROR(ReceiveAll(stream, body->data(), bytes, deadline));
  if (Crc32c(*body) != checksum) return Status::Corruption("hello has a wrong checksum");
  return Status::OK();
}

template <typename Message>
Status Receive(TcpStream& stream, Deadline deadline, Message* message) {
  std::string body;
  DLSM_RETURN_IF_ERROR(ReceiveMessage(stream, deadline, &body));
  return message->Decode(body);
}

std::string SaidByClient(const ClientOpening& opening, const ClientProof& proof) {
  std::string said;
  PutLengthPrefixed(&said, opening.name);
  PutLengthPrefixed(&said, opening.access_name);
  PutFixed64(&said, static_cast<uint64_t>(proof.boot));
  PutLengthPrefixed(&said, proof.data_token);
  return said;
}

Status VersionMismatch(const std::string& who, uint32_t theirs, uint32_t ours) {
  return Status::InvalidArgument(
      fmt::format("{} speaks protocol version {}, this side speaks version {}; use the same "
                  "release of dLSM on both sides",
                  who, theirs, ours));
}

Status CheckNodeVersion(TcpStream& stream, const std::string& who, uint32_t ours,
                        Deadline deadline) {
  char greeting[kGreetingBytes];
  DLSM_RETURN_IF_ERROR(ReceiveAll(stream, greeting, sizeof(greeting), deadline));
  uint32_t theirs = 0;
  DLSM_RETURN_IF_ERROR(DecodeGreeting(Slice(greeting, sizeof(greeting)), &theirs));
  return theirs == ours ? Status::OK() : VersionMismatch(who, theirs, ours);
}

// The preamble of this greeting has been read already.
Status CheckClientVersion(TcpStream& stream, uint32_t ours, Deadline deadline) {
  char version[kGreetingBytes - kPreambleBytes];
  DLSM_RETURN_IF_ERROR(ReceiveAll(stream, version, sizeof(version), deadline));
  const uint32_t theirs = DecodeFixed32(version);
  return theirs == ours ? Status::OK() : VersionMismatch("the client", theirs, ours);
}

Status SecretRefused(const std::string& who, bool had_secret) {
  if (!had_secret) {
    return Status::InvalidArgument(
        fmt::format("{} wants the cluster's secret, and this client gave none; set "
                    "Options::secret_file (--secret_file) to the file that Server was started with",
                    who));
  }
  return Status::InvalidArgument(
      fmt::format("{} refused the secret of this client: it has another one, or none; use the same "
                  "secret file on both sides",
                  who));
}

Status NodeUnproven(const std::string& who) {
  return Status::InvalidArgument(
      fmt::format("{} did not prove that it knows the cluster's secret; check that the address is "
                  "right and that both sides use the same secret file",
                  who));
}

// Adds where it happened to an error of the transport; those that already say so pass.
Status AtNode(const std::string& who, const Status& status) {
  if (status.ok() || status.IsInvalidArgument() || status.IsBusy()) return status;
  return Status::FromCode(
      status.code(), fmt::format("hello with {} failed: {}", who, status.message().ToStringView()));
}

FrameKeys KeysOf(const std::string& secret, const std::string& client_nonce,
                 const std::string& node_nonce) {
  const auto key = [&](ProofRole role) {
    return SecretProof(secret, role, client_nonce, node_nonce, Slice());
  };
  return FrameKeys{key(ProofRole::kClientFrames), key(ProofRole::kMemoryNodeFrames)};
}

Status TalkToNode(TcpStream& stream, const std::string& who, const ClientIdentity& identity,
                  Deadline deadline, NodeInfo* info, FrameKeys* keys) {
  ClientOpening opening;
  opening.name = identity.name.substr(0, kClientNameBytesMax);
  opening.access_name = identity.access_name;
  DLSM_RETURN_IF_ERROR(RandomBytes(kNonceBytes, &opening.nonce));
  DLSM_RETURN_IF_ERROR(SendAll(stream, EncodeGreeting(identity.version), deadline));
  DLSM_RETURN_IF_ERROR(CheckNodeVersion(stream, who, identity.version, deadline));
  DLSM_RETURN_IF_ERROR(SendMessage(stream, opening.Encode(), deadline));

  NodeChallenge challenge;
  DLSM_RETURN_IF_ERROR(Receive(stream, deadline, &challenge));
  if (challenge.verdict == Verdict::kRefused) {
    return Status::InvalidArgument(
        fmt::format("{} refused the connection: {}", who, challenge.reason));
  }
  if (challenge.verdict != Verdict::kGoOn) {
    return Status::Busy(fmt::format("{} refused the connection: {}", who, challenge.reason));
  }
  ClientProof proof;
  proof.boot = identity.boot;
  proof.data_token = identity.data_token;
  proof.proof = SecretProof(identity.secret, ProofRole::kClient, opening.nonce, challenge.nonce,
                            SaidByClient(opening, proof));
  DLSM_RETURN_IF_ERROR(SendMessage(stream, proof.Encode(), deadline));

  NodeWelcome welcome;
  DLSM_RETURN_IF_ERROR(Receive(stream, deadline, &welcome));
  if (welcome.verdict != Verdict::kGoOn) return SecretRefused(who, !identity.secret.empty());
  const std::string expected = SecretProof(identity.secret, ProofRole::kMemoryNode, opening.nonce,
                                           challenge.nonce, welcome.info);
  if (!ProofsEqual(welcome.proof, expected)) return NodeUnproven(who);
  *keys = KeysOf(identity.secret, opening.nonce, challenge.nonce);
  return info->Decode(welcome.info);
}

Status SendRefusal(TcpStream& stream, Deadline deadline, const Pause& pause) {
  pause(FailureLimiter::kRefusalDelay);  // So that guessing secrets is slow.
  NodeWelcome refusal;
  refusal.verdict = Verdict::kSecretRefused;
  return SendMessage(stream, refusal.Encode(), deadline);
}

}  // namespace

Status ClientHello(TcpStream& stream, const std::string& where, const ClientIdentity& identity,
                   Deadline deadline, NodeInfo* info, FrameKeys* keys) {
  const std::string who = fmt::format("memory node {}", where);
  return AtNode(who, TalkToNode(stream, who, identity, deadline, info, keys));
}

Status NodeHello(TcpStream& stream, const NodeIdentity& identity, Deadline deadline,
                 const GiveToken& give_token, AuthenticatedClient* client, FailureLimiter* failures,
                 const std::string& address, const Pause& pause) {
  // The greeting goes out first, whatever the client's version: so both sides can name both.
  DLSM_RETURN_IF_ERROR(SendAll(stream, EncodeGreeting(identity.version), deadline));
  DLSM_RETURN_IF_ERROR(CheckClientVersion(stream, identity.version, deadline));
  ClientOpening opening;
  DLSM_RETURN_IF_ERROR(Receive(stream, deadline, &opening));

  NodeChallenge challenge;
  DLSM_RETURN_IF_ERROR(RandomBytes(kNonceBytes, &challenge.nonce));
  DLSM_RETURN_IF_ERROR(SendMessage(stream, challenge.Encode(), deadline));

  ClientProof proof;
  DLSM_RETURN_IF_ERROR(Receive(stream, deadline, &proof));
  if (failures != nullptr) pause(failures->DelayOf(address, FailureLimiter::Clock::now()));
  // Who is not in the list is refused like one with a wrong secret, and after the same work.
  const std::shared_ptr<const AccessRights> rights =
      identity.access != nullptr ? identity.access->Find(opening.access_name) : nullptr;
  const bool known = opening.access_name.empty() || rights != nullptr;
  const std::string& secret = rights != nullptr ? rights->secret() : identity.secret;
  const std::string expected = SecretProof(secret, ProofRole::kClient, opening.nonce,
                                           challenge.nonce, SaidByClient(opening, proof));
  if (!ProofsEqual(proof.proof, expected) || !known) {
    if (failures != nullptr) failures->Failed(address, FailureLimiter::Clock::now());
    const Status sent = SendRefusal(stream, deadline, pause);
    if (!sent.ok()) Log().Debug("a refusal did not reach its client: {}", sent.ToString());
    return Status::InvalidArgument("the client does not know the secret");
  }

  NodeInfo info = identity.info;
  const std::string shown = proof.boot == info.boot ? proof.data_token : std::string();
  DLSM_RETURN_IF_ERROR(give_token(shown, rights, &info));
  client->name = opening.name;
  client->data_token = info.data_token;
  client->rights = rights;
  client->keys = KeysOf(secret, opening.nonce, challenge.nonce);
  NodeWelcome welcome;
  welcome.info = info.Encode();
  welcome.proof =
      SecretProof(secret, ProofRole::kMemoryNode, opening.nonce, challenge.nonce, welcome.info);
  return SendMessage(stream, welcome.Encode(), deadline);
}

Status RefuseHello(TcpStream& stream, const std::string& reason, Deadline deadline, bool busy) {
  DLSM_RETURN_IF_ERROR(SendAll(stream, EncodeGreeting(kProtocolVersion), deadline));
  DLSM_RETURN_IF_ERROR(CheckClientVersion(stream, kProtocolVersion, deadline));
  ClientOpening opening;
  DLSM_RETURN_IF_ERROR(Receive(stream, deadline, &opening));
  NodeChallenge refusal;
  refusal.verdict = busy ? Verdict::kBusy : Verdict::kRefused;
  refusal.reason = reason;
  return SendMessage(stream, refusal.Encode(), deadline);
}

}  // namespace dlsm
