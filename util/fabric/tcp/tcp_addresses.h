// The addresses behind a host's name, and connecting to one of them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Why there is no connection.
enum class ConnectFailure : uint8_t {
  kOther,
  kRefused,   // Nobody listened at one of the addresses, which may change soon.
  kOwnLimit,  // This process, or its machine, has no descriptor left: the other one was not asked.
};

// Constant once resolved; thread-safe.
class TcpAddresses {
 public:
  struct Address {
    sockaddr_storage storage{};
    socklen_t bytes = 0;
  };

  TcpAddresses() = default;
  explicit TcpAddresses(std::vector<Address> addresses) : addresses_(std::move(addresses)) {}

  // Asks the resolver, which knows no deadline. IOError with its reason.
  static Status Resolve(const std::string& host, uint16_t port, TcpAddresses* addresses);
  // Of what is a numeric address already, to listen at.
  static Status ResolveNumeric(const std::string& host, uint16_t port, TcpAddresses* addresses);

  const std::vector<Address>& all() const { return addresses_; }

  // Connects to the first address that takes a connection; the socket does not block. Each has an
  // equal part of the time that is left: one that is silent does not keep the others from being
  // tried. The error is that of the last one, with nothing but the reason in it; *failure (never
  // null) then tells more.
  Status Connect(Deadline deadline, FileDescriptor* socket, ConnectFailure* failure) const;

 private:
  static Status Resolve(const std::string& host, uint16_t port, int flags, TcpAddresses* addresses);

  std::vector<Address> addresses_;
};

}  // namespace dlsm
