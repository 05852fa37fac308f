#include "util/fabric/tcp/tcp_addresses.h"

#include <fmt/core.h>
#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "port/error_text.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

struct AddressListDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

Status WaitConnected(int socket, Deadline deadline, int* error) {
  // A signal ends a wait as well.
  pollfd watched{socket, POLLOUT, 0};
  do {
    if (PollSockets({&watched, 1}, deadline) && watched.revents != 0) {
      socklen_t bytes = sizeof(*error);
      if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, error, &bytes) != 0) *error = errno;
      return Status::OK();
    }
  } while (!deadline.Passed());
  return Status::TimedOut("no answer in time");
}

Status ConnectAddress(const TcpAddresses::Address& address, Deadline deadline,
                      FileDescriptor* socket, ConnectFailure* failure) {
  FileDescriptor made(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = made.valid() ? 0 : errno;
  if (IsOutOfDescriptors(error)) *failure = ConnectFailure::kOwnLimit;
  if (error != 0) return CannotOpen("a connection", error);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(made.get(), generic, address.bytes) != 0) error = errno;
  if (error == EINPROGRESS) DLSM_RETURN_IF_ERROR(WaitConnected(made.get(), deadline, &error));
  if (error == ECONNREFUSED) *failure = ConnectFailure::kRefused;
  if (error != 0) return Status::IOError(port::ErrorText(error));
  *socket = std::move(made);
  return Status::OK();
}

}  // namespace

Status TcpAddresses::Resolve(const std::string& host, uint16_t port, TcpAddresses* addresses) {
  return Resolve(host, port, 0, addresses);
}

Status TcpAddresses::ResolveNumeric(const std::string& host, uint16_t port,
                                    TcpAddresses* addresses) {
  return Resolve(host, port, AI_PASSIVE | AI_NUMERICHOST, addresses);
}

Status TcpAddresses::Resolve(const std::string& host, uint16_t port, int flags,
                             TcpAddresses* addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Status::IOError(fmt::format(
        "cannot resolve host '{}': {}", host,
        error == EAI_SYSTEM ? port::ErrorText(errno) : std::string(::gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, AddressListDeleter> list(found);
  std::vector<Address> all;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    Address address;
    address.bytes = each->ai_addrlen;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    all.push_back(address);
  }
  *addresses = TcpAddresses(std::move(all));
  return Status::OK();
}

Status TcpAddresses::Connect(Deadline deadline, FileDescriptor* socket,
                             ConnectFailure* failure) const {
  *failure = ConnectFailure::kOther;
  Status status = Status::IOError("the host has no address");
  size_t left = addresses_.size();
  for (const Address& address : addresses_) {
    status.PermitUncheckedError();  // The last one tells enough.
    status = ConnectAddress(address, left == 1 ? deadline : deadline.PartOf(left), socket, failure);
    if (status.ok() || *failure == ConnectFailure::kOwnLimit) break;
    --left;
  }
  return status;
}

}  // namespace dlsm
