// The tokens with which data connections prove that their process has passed the hello.
#pragma once

#include <string>
#include <vector>

#include "port/mutex.h"
#include "util/fabric/reach.h"

namespace dlsm {

// Thread-safe.
class TcpTokens {
 public:
  void Allow(const std::string& token, const std::string& key = {}, ReachPointer reach = nullptr)
      LOCKS_EXCLUDED(mutex_);
  void Revoke(const std::string& token) LOCKS_EXCLUDED(mutex_);
  // Takes as long for a wrong token as for a right one.
  // *key and *reach are those of a right one.
  bool Allowed(const std::string& token, std::string* key, ReachPointer* reach) const
      LOCKS_EXCLUDED(mutex_);
  bool Allowed(const std::string& token) const LOCKS_EXCLUDED(mutex_);

 private:
  struct Token {
    std::string token;
    std::string key;
    ReachPointer reach;
  };

  mutable port::Mutex mutex_;
  std::vector<Token> tokens_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
