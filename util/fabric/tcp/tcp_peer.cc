#include "util/fabric/tcp/tcp_peer.h"

#include <fmt/core.h>

namespace dlsm {
namespace {

Status Refused(const TcpPeer& peer, const TcpExpectation& expected, TcpCode code) {
  if (code == TcpCode::kOutOfBounds) {
    return Status::InvalidArgument(
        fmt::format("{} refused a transfer of {} bytes: it is not inside one of its regions; has "
                    "it restarted?",
                    peer.name, expected.bytes));
  }
  if (code == TcpCode::kForbidden) {
    return Status::InvalidArgument(
        fmt::format("{} refused a transfer of {} bytes: they belong to no database that its access "
                    "list gives to this client",
                    peer.name, expected.bytes));
  }
  return Status::Corruption(
      fmt::format("{} received a damaged request; check the network between", peer.name));
}

}  // namespace

Status ReadTcpReply(const TcpPeer& peer, const TcpExpectation& expected, const char* header,
                    TcpReply* reply) {
  if (reply->Decode(header) != TcpCode::kOk || reply->sequence != expected.sequence) [[unlikely]] {
    return Status::Corruption(peer.name + " sent a malformed reply on a data connection");
  }
  if (reply->code != TcpCode::kOk) [[unlikely]]
    return Refused(peer, expected, reply->code);
  if (reply->opcode != expected.opcode || (!expected.is_atomic() && reply->value != expected.bytes))
      [[unlikely]] {
    return Status::Corruption(peer.name + " answered another request than was posted");
  }
  return Status::OK();
}

Status TcpConnectionLost(const TcpPeer& peer, const std::string& why) {
  return Status::IOError(
      fmt::format("the data connection to {} is lost ({}): is its Server still "
                  "running?",
                  peer.name, why));
}

}  // namespace dlsm
