#include "util/fabric/tcp/tcp_tokens.h"

#include <openssl/crypto.h>

#include <utility>

namespace dlsm {

void TcpTokens::Allow(const std::string& token, const std::string& key, ReachPointer reach) {
  port::MutexLock lock(mutex_);
  tokens_.push_back({token, key, std::move(reach)});
}

void TcpTokens::Revoke(const std::string& token) {
  port::MutexLock lock(mutex_);
  std::erase_if(tokens_, [&](const Token& each) { return each.token == token; });
}

bool TcpTokens::Allowed(const std::string& token, std::string* key, ReachPointer* reach) const {
  port::MutexLock lock(mutex_);
  bool allowed = false;
  for (const Token& each : tokens_) {
    const bool same = each.token.size() == token.size() &&
                      CRYPTO_memcmp(each.token.data(), token.data(), token.size()) == 0;
    if (same) {
      *key = each.key;
      *reach = each.reach;
    }
    allowed = allowed || same;
  }
  return allowed;
}

bool TcpTokens::Allowed(const std::string& token) const {
  std::string key;
  ReachPointer reach;
  return Allowed(token, &key, &reach);
}

}  // namespace dlsm
