#include "util/fabric/tcp_tokens.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace dlsm {

void TcpTokens::Allow(const std::string& token) {
  port::MutexLock lock(mutex_);
  tokens_.push_back(token);
}

void TcpTokens::Revoke(const std::string& token) {
  port::MutexLock lock(mutex_);
  tokens_.erase(std::remove(tokens_.begin(), tokens_.end(), token), tokens_.end());
}

bool TcpTokens::Allowed(const std::string& token) const {
  port::MutexLock lock(mutex_);
  bool allowed = false;
  for (const std::string& each : tokens_) {
    const bool same =
        each.size() == token.size() && CRYPTO_memcmp(each.data(), token.data(), token.size()) == 0;
    allowed = allowed || same;
  }
  return allowed;
}

}  // namespace dlsm
