// Which entry of a port's GID table a queue pair sends from. A GID is how a RoCE port is addressed;
// its table has an entry for each address of the network interface, in each version of RoCE.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlsm {

// 16 bytes in network order; an IPv4 address is ::ffff:a.b.c.d.
using VerbsGid = std::array<uint8_t, 16>;

enum class GidType : uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };
const char* GidTypeName(GidType type);

// "10.0.0.7", "fe80::1".
std::string GidToString(const VerbsGid& gid);
// Reads a numeric IPv4 or IPv6 address.
std::optional<VerbsGid> GidOfAddress(const std::string& address);
bool IsIpv4(const VerbsGid& gid);
bool IsLinkLocal(const VerbsGid& gid);
// The same as the kernel writes addresses. nullopt: null, or neither IPv4 nor IPv6.
std::optional<VerbsGid> GidOfSocketAddress(const sockaddr* address);
sockaddr_storage SocketAddressOfGid(const VerbsGid& gid, uint16_t port);

struct GidEntry {
  uint32_t index = 0;
  GidType type = GidType::kInfiniBand;
  uint32_t netdev = 0;  // The network interface's index; 0: none.
  VerbsGid gid{};
};

// What an entry has to be (each that is set), and which address it had better have.
struct GidWish {
  std::optional<uint32_t> index;
  std::optional<uint32_t> netdev;
  std::optional<GidEntry> peer;  // The type is its; of RoCE v2, the address family too.
  std::optional<VerbsGid> address;
};

// The best of `table`; nullptr if none will do. RoCE v2 comes before v1 (which no router passes);
// then the wished address, then its family (IPv4 without one), then global before link-local.
const GidEntry* ChooseGid(const std::vector<GidEntry>& table, const GidWish& wish);

}  // namespace dlsm
