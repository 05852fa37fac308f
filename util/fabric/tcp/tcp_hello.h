// How a data connection begins, after its preamble:
//
//   client                                    server
//     token (32) | nonce (32)          ->
//                                      <-       nonce (32) | proof (32)      or it closes
//     proof (32)                       ->
//
// Each proves, by HMAC over both nonces, that it has the key of the token. The key is never sent:
// who has read a token from the network, or a whole hello, can do nothing with it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/secret_proof.h"

namespace dlsm {

inline constexpr size_t kTcpOpeningBytes = kTcpTokenBytes + kNonceBytes;
inline constexpr size_t kTcpChallengeBytes = kNonceBytes + kProofBytes;

// The client's side of one hello.
class TcpHello {
 public:
  TcpHello(std::string token, std::string key) : token_(std::move(token)), key_(std::move(key)) {}
  Status Open(std::string* opening);
  // False: the server has not proved itself.
  bool Answer(const std::string& challenge, std::string* proof) const;

 private:
  const std::string token_;
  const std::string key_;
  std::string nonce_;
};

// The server's side: what to send to who has sent `opening`, and the proof to expect.
Status MakeTcpChallenge(const std::string& opening, const std::string& key, std::string* challenge,
                        std::string* expected);

}  // namespace dlsm
