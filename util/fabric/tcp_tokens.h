// The tokens with which data connections prove that their process has passed the hello.
#pragma once

#include <string>
#include <vector>

#include "port/mutex.h"

namespace dlsm {

// Thread-safe.
class TcpTokens {
 public:
  void Allow(const std::string& token) LOCKS_EXCLUDED(mutex_);
  void Revoke(const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Takes as long for a wrong token as for a right one.
  bool Allowed(const std::string& token) const LOCKS_EXCLUDED(mutex_);

 private:
  mutable port::Mutex mutex_;
  std::vector<std::string> tokens_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
