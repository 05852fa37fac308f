// The name that debuggers and top show for a thread.
#pragma once

#include <pthread.h>

#include <string>

namespace dlsm::port {

// Names the calling thread. What is longer than 15 bytes is cut.
inline void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace dlsm::port
