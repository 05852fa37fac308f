// What of this host decides whether dLSM works and how fast: memory limits and huge pages.
#pragma once

#include <sys/resource.h>

#include <string>

#include "script/tool/finding.h"

namespace dlsm::tool {

// RDMA pins all memory that it reaches.
Finding CheckLockedMemory(const rlimit& limit);

// `root` is "/" but for tests: where proc and sys are found.
Finding CheckHugePages(const std::string& root);
// Huge pages of the files in /dev/shm, which the shm fabric maps.
Finding CheckSharedMemoryHugePages(const std::string& root);
Finding CheckSharedMemorySpace(const std::string& shm_folder);

// The first line of a file of proc or sys; empty if there is none.
std::string ReadLine(const std::string& path);

}  // namespace dlsm::tool
