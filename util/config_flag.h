// Where programs that have the flags --config, --memory_nodes and --compute_node_id find
// connection.conf if they are not told.
#pragma once

#include <gflags/gflags.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace dlsm {

// A program that is told which of the compute nodes it is, but not of which cluster, gets --config:
// connection.conf in the working directory, or else in that above it, for programs are run in a
// build directory. Says on standard error which one it is, or that there is none. Other flags and
// other programs are left alone. To be asked when the flags have been parsed.
inline void FindConfigFile(const std::string& program) {
  const auto given = [](const char* flag) {
    return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default;
  };
  if (!given("compute_node_id") || given("config") || given("memory_nodes")) return;
  for (const char* const path : {"connection.conf", "../connection.conf"}) {
    std::error_code error;  // One that cannot be looked at is none.
    if (!std::filesystem::exists(path, error)) continue;
    std::fprintf(stderr, "%s: takes the nodes from %s\n", program.c_str(), path);
    gflags::SetCommandLineOption("config", path);
    return;
  }
  std::fprintf(stderr,
               "%s: there is no connection.conf here or in the directory above, so the memory node "
               "is in this process\n",
               program.c_str());
}

}  // namespace dlsm
