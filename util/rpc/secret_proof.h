// How two sides convince each other that they know the cluster's secret without showing it: each
// draws a nonce, each proves itself by HMAC-SHA-256 over both nonces and what it says.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;
inline constexpr size_t kDataTokenBytes = 32;

// Who proves: so that one side's proof is never good as the other's.
enum class ProofRole { kClient, kMemoryNode };

// Unpredictable bytes.
Status RandomBytes(size_t bytes, std::string* random);

// Of kProofBytes. `said` is what the prover tells with it; the proof vouches for that too.
std::string SecretProof(const Slice& secret, ProofRole role, const Slice& client_nonce,
                        const Slice& node_nonce, const Slice& said);

// In a time that does not depend on where they differ.
bool ProofsEqual(const Slice& a, const Slice& b);

}  // namespace dlsm
