#include "util/fabric/verbs/verbs_socket.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>

#include "util/fabric/tcp/peer_dialer.h"
#include "util/status_macros.h"

namespace dlsm {

Status ReceiveVerbsFrame(const std::string& peer, int socket, Deadline deadline,
                         VerbsFrameKind* kind, std::string* body) {
  std::array<char, VerbsFrameHeader::kBytes> bytes;
  DLSM_RETURN_IF_ERROR(ReceiveWhole(peer, socket, bytes.data(), bytes.size(), deadline));
  VerbsFrameHeader header;
  DLSM_RETURN_IF_ERROR(header.Decode(Slice(bytes.data(), bytes.size())));
  if (header.version != kVerbsVersion) {
    return Status::NotSupported(
        fmt::format("{} speaks version {} of the verbs fabric, this process version {}; run the "
                    "same release on both",
                    peer, header.version, kVerbsVersion));
  }
  body->resize(header.body_bytes);
  DLSM_RETURN_IF_ERROR(ReceiveWhole(peer, socket, body->data(), body->size(), deadline));
  DLSM_RETURN_IF_ERROR(header.CheckBody(*body));
  *kind = header.kind;
  return Status::OK();
}

Status ReceiveVerbsAnswer(const std::string& peer, int socket, Deadline deadline,
                          VerbsFrameKind wanted, std::string* body) {
  VerbsFrameKind kind{};
  DLSM_RETURN_IF_ERROR(ReceiveVerbsFrame(peer, socket, deadline, &kind, body));
  if (kind == wanted) return Status::OK();
  if (kind != VerbsFrameKind::kRefusal) {
    return Status::Corruption(peer + " answered the offer of a queue pair with something else");
  }
  VerbsRefusal refusal;
  DLSM_RETURN_IF_ERROR(refusal.Decode(*body));
  return Status::IOError(fmt::format("{} refused a queue pair: {}", peer, refusal.reason));
}

std::optional<VerbsGid> SocketAddress(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  if (::getsockname(socket, generic, &bytes) != 0 ||
      ::getnameinfo(generic, bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  std::string text = host.data();
  return GidOfAddress(text.substr(0, text.find('%')));  // Without the zone of a link-local one.
}

}  // namespace dlsm
