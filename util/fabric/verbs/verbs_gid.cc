#include "util/fabric/verbs/verbs_gid.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace dlsm {
namespace {

constexpr std::array<uint8_t, 12> kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t kIpv4Bytes = 4;

bool WillDo(const GidEntry& entry, const GidWish& wish) {
  if (wish.index.has_value() && entry.index != *wish.index) return false;
  if (wish.netdev.has_value() && entry.netdev != *wish.netdev) return false;
  if (!wish.peer.has_value()) return true;
  if (entry.type != wish.peer->type) return false;
  // The two families are different packets.
  return entry.type != GidType::kRoceV2 || IsIpv4(entry.gid) == IsIpv4(wish.peer->gid);
}

// Larger is better.
auto Rank(const GidEntry& entry, const GidWish& wish) {
  const bool family = wish.address.has_value() ? IsIpv4(*wish.address) : true;
  return std::make_tuple(entry.type == GidType::kRoceV2, wish.address == entry.gid,
                         IsIpv4(entry.gid) == family, !IsLinkLocal(entry.gid));
}

}  // namespace

const char* GidTypeName(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

bool IsIpv4(const VerbsGid& gid) {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), gid.begin());
}

bool IsLinkLocal(const VerbsGid& gid) {
  if (IsIpv4(gid)) return gid[12] == 169 && gid[13] == 254;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

std::optional<VerbsGid> GidOfSocketAddress(const sockaddr* address) {
  VerbsGid gid{};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET6) {
    std::memcpy(gid.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, gid.size());
    return gid;
  }
  if (address->sa_family != AF_INET) return std::nullopt;
  std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), gid.begin());
  std::memcpy(gid.data() + kIpv4Prefix.size(),
              &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, kIpv4Bytes);
  return gid;
}

sockaddr_storage SocketAddressOfGid(const VerbsGid& gid, uint16_t port) {
  sockaddr_storage address{};
  if (IsIpv4(gid)) {
    auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&address);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    std::memcpy(&ipv4->sin_addr, gid.data() + kIpv4Prefix.size(), kIpv4Bytes);
    return address;
  }
  auto* const ipv6 = reinterpret_cast<sockaddr_in6*>(&address);
  ipv6->sin6_family = AF_INET6;
  ipv6->sin6_port = htons(port);
  std::memcpy(&ipv6->sin6_addr, gid.data(), gid.size());
  return address;
}

std::string GidToString(const VerbsGid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool ipv4 = IsIpv4(gid);
  const uint8_t* const bytes = ipv4 ? gid.data() + kIpv4Prefix.size() : gid.data();
  const char* made = ::inet_ntop(ipv4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return made != nullptr ? made : "?";
}

std::optional<VerbsGid> GidOfAddress(const std::string& address) {
  VerbsGid gid{};
  if (::inet_pton(AF_INET6, address.c_str(), gid.data()) == 1) return gid;
  std::array<uint8_t, kIpv4Bytes> ipv4{};
  if (::inet_pton(AF_INET, address.c_str(), ipv4.data()) != 1) return std::nullopt;
  std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), gid.begin());
  std::copy(ipv4.begin(), ipv4.end(), gid.begin() + kIpv4Prefix.size());
  return gid;
}

const GidEntry* ChooseGid(const std::vector<GidEntry>& table, const GidWish& wish) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    if (!WillDo(entry, wish)) continue;
    if (best == nullptr || Rank(entry, wish) > Rank(*best, wish)) best = &entry;
  }
  return best;
}

}  // namespace dlsm
