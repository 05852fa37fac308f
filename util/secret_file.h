// The secret by which the nodes of a cluster know each other.
#pragma once

#include <string>

#include "dLSM/status.h"

namespace dlsm {

// *secret gets the file's contents without white space at both ends. InvalidArgument, with the
// remedy, if the file is missing, empty, too long, or open to anyone but its owner.
Status ReadSecretFile(const std::string& path, std::string* secret);

}  // namespace dlsm
