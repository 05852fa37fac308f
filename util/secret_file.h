// The secret by which the nodes of a cluster know each other.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/status.h"

namespace dlsm {

// Fewer can be guessed: whoever has recorded a hello tries as many as fit into its time.
inline constexpr size_t kSecretBytesMin = 16;
// Nobody types more; a larger file is the wrong one.
inline constexpr size_t kSecretBytesMax = 4096;

// *secret gets the file's contents without white space at both ends. InvalidArgument, with the
// remedy, if the file is missing, too short or too long, or open to anyone but its owner.
Status ReadSecretFile(const std::string& path, std::string* secret);

}  // namespace dlsm
