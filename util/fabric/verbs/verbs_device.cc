// Finding a port:
//   1. every port of every device is looked at;
//   2. those that are not what was asked for are dropped: by device and port, or by network
//      interface, whose index stands beside each GID of a RoCE port;
//   3. the first that is active is taken.
#include "util/fabric/verbs/verbs_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "port/error_text.h"
#include "util/file_descriptor.h"
#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// The network interface with this address; 0: none.
uint32_t NetdevOf(const VerbsGid& wanted) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return 0;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(all, &::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (GidOfSocketAddress(each->ifa_addr) == wanted) return ::if_nametoindex(each->ifa_name);
  }
  return 0;
}

// InfiniBand's GIDs name no interface, but the interface's device says whose it is.
bool BelongsTo(uint32_t netdev, const std::string& device) {
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(netdev, name.data()) == nullptr) return false;
  std::error_code ignored;
  return std::filesystem::exists(
      fmt::format("/sys/class/net/{}/device/infiniband/{}", name.data(), device), ignored);
}

// An iWARP port's GID names no interface, but begins with the interface's Ethernet address.
bool BeginsWithAddressOf(const VerbsGid& gid, uint32_t netdev) {
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(netdev, name.data()) == nullptr) return false;
  std::istringstream file(TextOf(fmt::format("/sys/class/net/{}/address", name.data())));
  std::string address;
  return std::getline(file, address) &&
         address == fmt::format("{:02x}", fmt::join(gid.begin(), gid.begin() + 6, ":"));
}

// The kernel says -1 where it does not know; a device that is software has no such file.
int NumaNodeOf(const ibv_device& device) {
  std::istringstream file(TextOf(fmt::format("{}/device/numa_node", device.ibdev_path)));
  int node = kNoNumaNode;
  return file >> node && node >= 0 ? node : kNoNumaNode;
}

const char* StateName(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "waits for a subnet manager";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "not usable";
  }
}

}  // namespace

int MtuBytes(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

ibv_mtu MtuOfBytes(int bytes) {
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && MtuBytes(static_cast<ibv_mtu>(mtu + 1)) <= bytes) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

// Lives while Open() looks for the port.
class VerbsDeviceFinder {
 public:
  VerbsDeviceFinder(const VerbsLibrary& library, const VerbsOptions& options)
      : library_(library), options_(options) {}

  Status Find(std::shared_ptr<const VerbsDevice>* device) {
    int count = 0;
    errno = 0;
    ibv_device** const list = library_.get_device_list(&count);
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owned(list,
                                                                     library_.free_device_list);
    if (list == nullptr || count == 0) return NoDevice();
    DLSM_RETURN_IF_ERROR(ParseWish(list, count));
    for (int i = 0; i < count && found_ == nullptr; ++i) LookAt(list[i]);
    if (found_ == nullptr) return NoneWillDo();
    DLSM_RETURN_IF_ERROR(VerbsEvents::Watch(
        library_, found_->context(), found_->name_, found_->port_,
        [opened = found_.get()](const VerbsOwnAddress& own) { return opened->CheckAddress(own); },
        &found_->events_));
    *device = std::move(found_);
    return Status::OK();
  }

 private:
  static Status NoDevice() {
    const int error = errno;
    return Status::NotSupported(fmt::format(
        "the verbs fabric cannot be used: this machine has no RDMA device that this process may "
        "use{}; load its driver (for tests: \"rdma link add rxe0 type rxe netdev eth0\"), or use "
        "another fabric",
        error != 0 ? fmt::format(" ({})", port::ErrorText(error)) : ""));
  }

  Status ParseWish(ibv_device** list, int count) {
    const std::string& wish = options_.device;
    if (wish.empty()) return Status::OK();
    const size_t colon = wish.find(':');
    const std::string name = wish.substr(0, colon);
    for (int i = 0; i < count; ++i) {
      if (name != library_.get_device_name(list[i])) continue;
      wanted_name_ = name;
      if (colon == std::string::npos) return Status::OK();
      const char* const end = wish.data() + wish.size();
      const auto parsed = std::from_chars(wish.data() + colon + 1, end, wanted_port_);
      if (parsed.ec == std::errc() && parsed.ptr == end && wanted_port_ > 0) return Status::OK();
      return Status::InvalidArgument(fmt::format("\"{}\" does not end in a port number", wish));
    }
    address_ = GidOfAddress(wish);
    netdev_ = address_.has_value() ? NetdevOf(*address_) : ::if_nametoindex(wish.c_str());
    if (netdev_ != 0) return Status::OK();
    std::string names;
    for (int i = 0; i < count; ++i) names += fmt::format(" {}", library_.get_device_name(list[i]));
    return Status::InvalidArgument(
        fmt::format("\"{}\" is no RDMA device, network interface or address of this machine; its "
                    "RDMA devices are:{}",
                    wish, names));
  }

  void LookAt(ibv_device* device) {
    const std::string name = library_.get_device_name(device);
    if (!wanted_name_.empty() && name != wanted_name_) return;
    std::shared_ptr<VerbsDevice> opened(new VerbsDevice(library_, options_));
    opened->name_ = name;
    opened->numa_node_ = NumaNodeOf(*device);
    OccupyStandardDescriptors();
    opened->context_ = {library_.open_device(device), library_.close_device};
    if (opened->context_ == nullptr) {
      Reject(name, fmt::format("cannot be opened: {}; check the rights on /dev/infiniband",
                               port::ErrorText(errno)));
    } else if (library_.query_device(opened->context(), &opened->attributes_) != 0) {
      Reject(name, "does not answer");
    } else if (device->transport_type != IBV_TRANSPORT_IB && !opened->is_iwarp()) {
      Reject(name, "is no InfiniBand, RoCE or iWARP device");
    } else if (opened->is_iwarp() && options_.connect == VerbsConnect::kHello) {
      Reject(name,
             "is an iWARP device, which the connection manager alone can connect: leave out "
             "connection=hello");
    } else {
      for (int port = 1; port <= opened->attributes_.phys_port_cnt && found_ == nullptr; ++port) {
        opened->port_ = static_cast<uint8_t>(port);
        LookAtPort(opened);
      }
    }
  }

  void LookAtPort(const std::shared_ptr<VerbsDevice>& device) {
    if (wanted_port_ != 0 && device->port_ != wanted_port_) return;
    if (netdev_ != 0 && !IsAt(*device)) return;
    ibv_port_attr attributes;
    const std::string where = fmt::format("{} port {}", device->name_, device->port_);
    if (!device->QueryPort(&attributes).ok()) return Reject(where, "does not answer");
    if (attributes.state != IBV_PORT_ACTIVE) return Reject(where, StateName(attributes.state));
    if (netdev_ != 0 && device->is_ethernet()) device->netdev_ = netdev_;
    device->address_ = address_;
    found_ = device;
  }

  bool IsAt(const VerbsDevice& device) const {
    const std::vector<GidEntry> table = device.GidTable();
    const bool listed = std::any_of(table.begin(), table.end(), [&](const GidEntry& e) {
      return e.netdev == netdev_ || (device.is_iwarp() && BeginsWithAddressOf(e.gid, netdev_));
    });
    return listed || BelongsTo(netdev_, device.name_);
  }

  void Reject(const std::string& what, const std::string& why) {
    rejected_ += fmt::format("{}{} {}", rejected_.empty() ? "" : "; ", what, why);
  }

  Status NoneWillDo() const {
    const std::string wish =
        options_.device.empty() ? "" : fmt::format(" that is \"{}\"", options_.device);
    return Status::InvalidArgument(
        fmt::format("the verbs fabric cannot be used: no active RDMA port{} ({})", wish,
                    rejected_.empty() ? "there is no RDMA device on that interface" : rejected_));
  }

  const VerbsLibrary& library_;
  const VerbsOptions& options_;
  std::string wanted_name_;
  int wanted_port_ = 0;  // 0: any.
  uint32_t netdev_ = 0;  // 0: any.
  std::optional<VerbsGid> address_;
  std::string rejected_;
  std::shared_ptr<VerbsDevice> found_;
};

Status VerbsDevice::Open(const VerbsOptions& options, std::shared_ptr<const VerbsDevice>* device) {
  const VerbsLibrary* library = nullptr;
  DLSM_RETURN_IF_ERROR(VerbsLibrary::Get(&library));
  return Open(options, *library, device);
}

Status VerbsDevice::Open(const VerbsOptions& options, const VerbsLibrary& library,
                         std::shared_ptr<const VerbsDevice>* device) {
  return VerbsDeviceFinder(library, options).Find(device);
}

bool VerbsDevice::is_ethernet() const {
  ibv_port_attr attributes;
  return QueryPort(&attributes).ok() && attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
}

bool VerbsDevice::is_iwarp() const {
  return context()->device->transport_type == IBV_TRANSPORT_IWARP;
}

bool VerbsDevice::connects_by_manager() const {
  return options_.connect == VerbsConnect::kCm ||
         (options_.connect == VerbsConnect::kAuto && is_iwarp());
}

const char* VerbsDevice::transport_name() const {
  if (is_iwarp()) return "iWARP";
  return is_ethernet() ? "RoCE" : "InfiniBand";
}

Status VerbsDevice::QueryPort(ibv_port_attr* attributes) const {
  const int error = library_.QueryPort(context(), port_, attributes);
  if (error == 0) return Status::OK();
  return Status::IOError(fmt::format("RDMA device {} does not answer about its port {}: {}", name_,
                                     port_, port::ErrorText(error)));
}

std::vector<GidEntry> VerbsDevice::GidTable() const {
  // Of all ports together; the devices known have at most 256 each. The kernel takes less than 64
  // KB.
  constexpr size_t kEntriesMax = 2000;
  static_assert(kEntriesMax * sizeof(ibv_gid_entry) < 1 << 16);
  std::vector<ibv_gid_entry> all(kEntriesMax);
  const ssize_t count =
      library_.query_gid_table(context(), all.data(), all.size(), 0, sizeof(ibv_gid_entry));
  std::vector<GidEntry> table;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& from = all[static_cast<size_t>(i)];
    if (from.port_num != port_) continue;
    GidEntry entry;
    entry.index = from.gid_index;
    entry.type = static_cast<GidType>(from.gid_type);
    entry.netdev = from.ndev_ifindex;
    std::memcpy(entry.gid.data(), from.gid.raw, entry.gid.size());
    table.push_back(entry);
  }
  return table;
}

Status VerbsDevice::CheckAddress(const VerbsOwnAddress& own) const {
  ibv_port_attr port;
  DLSM_RETURN_IF_ERROR(QueryPort(&port));
  if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
    if (port.lid == own.lid) return Status::OK();
    return Status::IOError(fmt::format("RDMA device {} port {} has now LID {}, not {}", name_,
                                       port_, port.lid, own.lid));
  }
  for (const GidEntry& each : GidTable()) {
    if (each.index == own.gid_index && each.gid == own.gid) return Status::OK();
  }
  return Status::IOError(
      fmt::format("RDMA device {} port {} has no longer the GID {} (index {}): has the address of "
                  "its network interface been changed?",
                  name_, port_, GidToString(own.gid), own.gid_index));
}

Status VerbsDevice::GidAt(uint32_t index, VerbsGid* gid) const {
  for (const GidEntry& each : GidTable()) {
    if (each.index != index) continue;
    *gid = each.gid;
    return Status::OK();
  }
  return Status::IOError(
      fmt::format("RDMA device {} port {} has no GID of index {}: has the address of its network "
                  "interface been changed?",
                  name_, port_, index));
}

Status VerbsDevice::FindGid(const std::optional<GidEntry>& peer,
                            const std::optional<VerbsGid>& address, GidEntry* entry) const {
  GidWish wish;
  if (options_.gid_index >= 0) wish.index = static_cast<uint32_t>(options_.gid_index);
  wish.netdev = netdev_;
  wish.peer = peer;
  wish.address = address_.has_value() ? address_ : address;
  const std::vector<GidEntry> table = GidTable();
  const GidEntry* const chosen = ChooseGid(table, wish);
  if (chosen != nullptr) {
    *entry = *chosen;
    return Status::OK();
  }
  std::string known;
  for (const GidEntry& each : table) {
    known += fmt::format(" {}:{} {}", each.index, GidTypeName(each.type), GidToString(each.gid));
  }
  const std::string to =
      peer.has_value()
          ? fmt::format(" that reaches {} {}", GidTypeName(peer->type), GidToString(peer->gid))
          : "";
  return Status::InvalidArgument(fmt::format(
      "RDMA device {} port {} has no GID{} that will do; give the interface an address, "
      "or choose one with gid_index; it has:{}",
      name_, port_, to, known.empty() ? " none" : known));
}

std::string VerbsDevice::Describe() const {
  ibv_port_attr attributes;
  if (is_iwarp()) return fmt::format("{} port {} (iWARP, by connection manager)", name_, port_);
  if (connects_by_manager() && QueryPort(&attributes).ok()) {
    return fmt::format("{} port {} ({}, MTU {}, by connection manager)", name_, port_,
                       transport_name(), MtuBytes(attributes.active_mtu));
  }
  GidEntry entry;
  const Status status = FindGid({}, {}, &entry);
  if (!QueryPort(&attributes).ok() || !status.ok()) {
    return fmt::format("{} port {} (not usable now)", name_, port_);
  }
  const int mtu = MtuBytes(attributes.active_mtu);
  if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
    return fmt::format("{} port {} (InfiniBand LID {}, MTU {})", name_, port_, attributes.lid, mtu);
  }
  return fmt::format("{} port {} ({} GID {}, index {}, MTU {})", name_, port_,
                     GidTypeName(entry.type), GidToString(entry.gid), entry.index, mtu);
}

}  // namespace dlsm
