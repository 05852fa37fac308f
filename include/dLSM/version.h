// The version of dLSM: that of the headers, as constants, and that of the library, as a call. A
// patch leaves the interface as it was; before version 1 a minor version may change it.
//
// CMakeLists.txt says the version first. script/check-version checks that this file and the
// packages say the same.
#pragma once

namespace dlsm {

inline constexpr int kMajorVersion = 0;
inline constexpr int kMinorVersion = 1;
inline constexpr int kPatchVersion = 0;

// Returns the version of the library that the process runs with, such as "0.1.0". A program
// compiled with headers of another version sees that here. The text is never freed.
const char* VersionString();

}  // namespace dlsm
