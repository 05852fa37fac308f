#include "util/secret_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <new>

#include "port/scheduler.h"
#include "util/coding.h"
#include "util/openssl_setup.h"

namespace dlsm {
namespace {

const char* Name(ProofRole role) {
  switch (role) {
    case ProofRole::kClient:
      return "dLSM client";
    case ProofRole::kMemoryNode:
      return "dLSM memory node";
    case ProofRole::kClientFrames:
      return "dLSM frames of a client";
    case ProofRole::kMemoryNodeFrames:
      return "dLSM frames of a memory node";
    case ProofRole::kDataKey:
      return "dLSM data key";
    case ProofRole::kDataClient:
      return "dLSM data connection of a client";
    case ProofRole::kDataMemoryNode:
      return "dLSM data connection of a memory node";
    case ProofRole::kTls:
      return "dLSM TLS";
  }
  return "";
}

}  // namespace

Status RandomBytes(size_t bytes, std::string* random) {
  random->resize(bytes);
  if (port::Scheduler* const scheduler = port::Scheduler::Current()) {
    for (char& byte : *random) byte = static_cast<char>(scheduler->Random());
    return Status::OK();
  }
  SetUpOpenSsl();
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random->data()), static_cast<int>(bytes)) != 1) {
    return Status::IOError("the system's source of random numbers failed");
  }
  return Status::OK();
}

std::string SecretProof(const Slice& secret, ProofRole role, const Slice& client_nonce,
                        const Slice& node_nonce, const Slice& said) {
  SetUpOpenSsl();
  std::string input;
  PutLengthPrefixed(&input, Name(role));
  PutLengthPrefixed(&input, client_nonce);
  PutLengthPrefixed(&input, node_nonce);
  PutLengthPrefixed(&input, said);
  unsigned char proof[EVP_MAX_MD_SIZE];
  unsigned int proof_bytes = 0;
  // A null key would mean "the key of the call before"; Slice's data is never null.
  const unsigned char* const made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(input.data()), input.size(), proof, &proof_bytes);
  // What lies in `proof` then is no secret, and would be a proof that is expected, or a key.
  if (made == nullptr || proof_bytes != kProofBytes) throw std::bad_alloc();
  return std::string(reinterpret_cast<const char*>(proof), kProofBytes);
}

std::string DataKey(const Slice& secret, const Slice& token) {
  return SecretProof(secret, ProofRole::kDataKey, Slice(), Slice(), token);
}

std::string TlsKey(const Slice& secret) {
  if (secret.empty()) return std::string();
  return SecretProof(secret, ProofRole::kTls, Slice(), Slice(), Slice());
}

bool ProofsEqual(const Slice& a, const Slice& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace dlsm
