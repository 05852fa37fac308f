// An RDMA device and one of its ports, found and opened.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_events.h"
#include "util/fabric/verbs/verbs_gid.h"
#include "util/fabric/verbs/verbs_library.h"
#include "util/fabric/verbs/verbs_options.h"
#include "util/numa.h"

namespace dlsm {

// Constant once opened; thread-safe.
class VerbsDevice {
 public:
  // The port that options.device asks for. NotSupported, with the cause and the remedy, where there
  // is no library or no device; InvalidArgument where there is another one than was asked for.
  static Status Open(const VerbsOptions& options, std::shared_ptr<const VerbsDevice>* device);
  // The same through other calls than the library's own: for tests, of calls that fail.
  static Status Open(const VerbsOptions& options, const VerbsLibrary& library,
                     std::shared_ptr<const VerbsDevice>* device);

  const VerbsLibrary& library() const { return library_; }
  ibv_context* context() const { return context_.get(); }
  const VerbsOptions& options() const { return options_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  const std::string& name() const { return name_; }
  uint8_t port() const { return port_; }
  // The NUMA node that it is attached to; kNoNumaNode: it is near to none, or that is not known.
  int numa_node() const { return numa_node_; }
  bool is_ethernet() const;
  // Of this device, while it is open.
  VerbsEvents& events() const { return *events_; }
  bool is_iwarp() const;
  const char* transport_name() const;  // "InfiniBand", "RoCE" or "iWARP".
  // A client's queue pairs; a memory node does as the client asks where it can do either.
  bool connects_by_manager() const;
  // If the options name them.
  const std::optional<uint32_t>& netdev() const { return netdev_; }
  const std::optional<VerbsGid>& address() const { return address_; }

  // What it can do beyond reads, writes and sends. iWARP has no writes with an immediate.
  bool has_immediates() const { return !is_iwarp(); }
  bool has_atomics() const { return attributes_.atomic_cap != IBV_ATOMIC_NONE; }

  // The access that memory needs which is to hold what reads bring: on iWARP the far end writes it
  // under a key that travels with the read.
  int read_access() const {
    return IBV_ACCESS_LOCAL_WRITE | (is_iwarp() ? IBV_ACCESS_REMOTE_WRITE : 0);
  }

  // As it is now.
  Status QueryPort(ibv_port_attr* attributes) const;
  // The entry to send from: to `peer` if that is known, and rather from `address`, which is this
  // end's of the connection over which the queue pair is arranged.
  Status FindGid(const std::optional<GidEntry>& peer, const std::optional<VerbsGid>& address,
                 GidEntry* entry) const;

  // The table's entry of that index, as it is now.
  Status GidAt(uint32_t index, VerbsGid* gid) const;

  // "rxe0 port 1 (RoCE v2 GID 10.0.0.7, index 1, MTU 4096)", for people.
  std::string Describe() const;

 private:
  VerbsDevice(const VerbsLibrary& library, const VerbsOptions& options)
      : library_(library), options_(options) {}
  std::vector<GidEntry> GidTable() const;
  // Whether packets to `own` still come here.
  Status CheckAddress(const VerbsOwnAddress& own) const;

  friend class VerbsDeviceFinder;
  const VerbsLibrary& library_;
  const VerbsOptions options_;
  VerbsPointer<ibv_context> context_{nullptr, nullptr};
  ibv_device_attr attributes_{};
  std::string name_;
  uint8_t port_ = 0;
  int numa_node_ = kNoNumaNode;
  std::optional<uint32_t> netdev_;       // If options_.device is a network interface or an address.
  std::optional<VerbsGid> address_;      // If it is an address.
  std::unique_ptr<VerbsEvents> events_;  // Last: its thread uses all of the above.
};

// The bytes of `mtu`, and the other way; the largest that is not larger.
int MtuBytes(ibv_mtu mtu);
ibv_mtu MtuOfBytes(int bytes);

}  // namespace dlsm
