// What an error number of the operating system means, for people.
#pragma once

#include <string>
#include <system_error>

namespace dlsm::port {

// Thread-safe, other than strerror().
inline std::string ErrorText(int error) { return std::generic_category().message(error); }

}  // namespace dlsm::port
