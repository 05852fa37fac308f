// How two sides convince each other that they know a secret without showing it: each draws a nonce,
// each proves itself by HMAC-SHA-256 over both nonces and what it says. The keys of a connection
// come from the secret in the same way.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
inline constexpr size_t kDataTokenBytes = 32;

// Who proves, or what a key is for: so that what is made for one purpose is never good for another.
enum class ProofRole {
  kClient,
  kMemoryNode,
  kClientFrames,  // Keys of a control connection, by who sends.
  kMemoryNodeFrames,
  kDataKey,     // Of a data token.
  kDataClient,  // Proofs on a data connection, with the key of its token.
  kDataMemoryNode,
  kTls,
};

// Unpredictable bytes.
Status RandomBytes(size_t bytes, std::string* random);

// Of kProofBytes. `said` is what the prover tells with it; the proof vouches for that too. Throws
// std::bad_alloc, as the keys below do, where OpenSSL cannot compute it: it has no memory.
std::string SecretProof(const Slice& secret, ProofRole role, const Slice& client_nonce,
                        const Slice& node_nonce, const Slice& said);

// What data connections that show `token` are proved with; it is never sent.
std::string DataKey(const Slice& secret, const Slice& token);

// With which TLS knows the other side where nobody has a certificate; empty without a secret.
std::string TlsKey(const Slice& secret);

// In a time that does not depend on where they differ.
bool ProofsEqual(const Slice& a, const Slice& b);

}  // namespace dlsm
