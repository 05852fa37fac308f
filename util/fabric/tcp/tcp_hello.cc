#include "util/fabric/tcp/tcp_hello.h"

#include <cassert>

#include "util/status_macros.h"

namespace dlsm {

Status TcpHello::Open(std::string* opening) {
  DLSM_RETURN_IF_ERROR(RandomBytes(kNonceBytes, &nonce_));
  *opening = token_ + nonce_;
  return Status::OK();
}

bool TcpHello::Answer(const std::string& challenge, std::string* proof) const {
  assert(challenge.size() == kTcpChallengeBytes && nonce_.size() == kNonceBytes);
  const std::string theirs = challenge.substr(0, kNonceBytes);
  const std::string expected =
      SecretProof(key_, ProofRole::kDataMemoryNode, nonce_, theirs, token_);
  if (!ProofsEqual(challenge.substr(kNonceBytes), expected)) return false;
  *proof = SecretProof(key_, ProofRole::kDataClient, nonce_, theirs, token_);
  return true;
}

Status MakeTcpChallenge(const std::string& opening, const std::string& key, std::string* challenge,
                        std::string* expected) {
  assert(opening.size() == kTcpOpeningBytes);
  const std::string token = opening.substr(0, kTcpTokenBytes);
  const std::string theirs = opening.substr(kTcpTokenBytes);
  std::string ours;
  DLSM_RETURN_IF_ERROR(RandomBytes(kNonceBytes, &ours));
  *challenge = ours + SecretProof(key, ProofRole::kDataMemoryNode, theirs, ours, token);
  *expected = SecretProof(key, ProofRole::kDataClient, theirs, ours, token);
  return Status::OK();
}

}  // namespace dlsm
