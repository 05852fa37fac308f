// What this process used of the machine.
#pragma once

#include <cstdint>

namespace dlsm::bench {

// User and system time of all threads, ended ones included.
double ProcessCpuSeconds();

// The most resident memory since ResetPeakRss(), or since the process started where the system
// cannot reset it. Shared memory that the process touched is part of it.
void ResetPeakRss();
uint64_t PeakRssBytes();

}  // namespace dlsm::bench
