#include "script/tool/rdma_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "script/tool/host_checks.h"
#include "util/fabric/verbs/verbs_cm_library.h"
#include "util/fabric/verbs/verbs_device.h"
#include "util/format_bytes.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

namespace fs = std::filesystem;

// Sorted, so that the output is the same every time.
std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool IsZeroGid(const std::string& gid) {
  return gid.empty() || gid.find_first_not_of("0:") == std::string::npos;
}

// "4: ACTIVE" -> "ACTIVE"
std::string AfterColon(const std::string& line) {
  const size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

struct Gids {
  int total = 0;
  int version2 = 0;  // RoCE v2: the only ones that are routed.
  std::string netdev;
};

Gids GidsOf(const fs::path& port) {
  Gids gids;
  for (const fs::path& entry : EntriesOf(port / "gids")) {
    if (IsZeroGid(ReadLine(entry.string()))) continue;
    ++gids.total;
    const std::string index = entry.filename().string();
    if (ReadLine((port / "gid_attrs/types" / index).string()) == "RoCE v2") ++gids.version2;
    const std::string netdev = ReadLine((port / "gid_attrs/ndevs" / index).string());
    if (!netdev.empty()) gids.netdev = netdev;
  }
  return gids;
}

// A device's: all its ports speak the same.
bool IsIwarp(const fs::path& device) {
  return AfterColon(ReadLine((device / "node_type").string())) == "RNIC";
}

class PortCheck {
 public:
  PortCheck(const std::string& root, const fs::path& port, bool iwarp, std::string subject)
      : root_(root), port_(port), iwarp_(iwarp), subject_(std::move(subject)) {}

  Findings Run() {
    const std::string link_layer = Line("link_layer");
    Add(CheckState());
    // The connection manager finds the way by itself, and TCP cuts its packets.
    if (iwarp_) return std::move(findings_);
    const Gids gids = GidsOf(port_);
    Add(CheckGids(gids, link_layer));
    if (link_layer == "Ethernet" && !gids.netdev.empty()) Add(CheckMtu(gids.netdev));
    return std::move(findings_);
  }

 private:
  std::string Line(const char* name) const { return ReadLine((port_ / name).string()); }
  void Add(Finding finding) {
    finding.subject = subject_;
    findings_.push_back(std::move(finding));
  }

  std::string Transport() const {
    const std::string link_layer = Line("link_layer");
    if (iwarp_) return "iWARP over " + link_layer;
    return link_layer == "Ethernet" ? "RoCE over Ethernet" : link_layer;
  }

  Finding CheckState() const {
    const std::string state = AfterColon(Line("state"));
    const std::string physical = AfterColon(Line("phys_state"));
    const std::string detail =
        fmt::format("{}, {}, {}, {}", Transport(), state, physical, Line("rate"));
    if (state == "ACTIVE") return {Verdict::kGood, "", detail, ""};
    const bool ethernet = Line("link_layer") == "Ethernet";
    return {Verdict::kNote, "", detail,
            ethernet
                ? "plug in the cable and set its network device up: ip link set DEVICE up"
                : "plug in the cable; an InfiniBand port also needs a subnet manager (opensm)"};
  }

  Finding CheckGids(const Gids& gids, const std::string& link_layer) const {
    const std::string detail = fmt::format("{} GIDs, {} of RoCE v2", gids.total, gids.version2);
    if (link_layer != "Ethernet" || gids.version2 > 0) return {Verdict::kGood, "", detail, ""};
    return {Verdict::kNote, "", detail,
            "give its network device an IP address: a RoCE v2 GID is made of it"};
  }

  Finding CheckMtu(const std::string& netdev) const {
    const std::string mtu = ReadLine(root_ + "sys/class/net/" + netdev + "/mtu");
    const std::string detail = fmt::format("MTU of {}: {}", netdev, mtu);
    constexpr int kFourKilobytesAndHeaders = 4200;
    if (std::atoi(mtu.c_str()) >= kFourKilobytesAndHeaders) return {Verdict::kGood, "", detail, ""};
    return {Verdict::kNote, "", detail,
            fmt::format("packets carry at most 1024 bytes; for 4096 on every hop: ip link set {} "
                        "mtu 9000",
                        netdev)};
  }

  const std::string root_;
  const fs::path port_;
  const bool iwarp_;
  const std::string subject_;
  Findings findings_;
};

Finding CheckNumaNode(const fs::path& device) {
  const std::string node = ReadLine((device / "device/numa_node").string());
  if (node.empty() || node == "-1") return {Verdict::kGood, "", "on no NUMA node of its own", ""};
  return {
      Verdict::kGood, "",
      fmt::format("on NUMA node {}: run Server with --numa_node={}; handles are there by default",
                  node, node),
      ""};
}

Status OpenDevice(const std::string& device, std::shared_ptr<const VerbsDevice>* opened) {
  VerbsOptions options;
  DLSM_RETURN_IF_ERROR(ParseVerbsOptions(device, &options));
  return VerbsDevice::Open(options, opened);
}

// What one registration may have; regions beyond are registered in parts.
std::string DescribeBound(uint64_t bytes) {
  constexpr uint64_t kNoMemoryHas = uint64_t{1} << 60;
  if (bytes == 0 || bytes >= kNoMemoryHas) return "regions of any size";
  return fmt::format("regions up to {}, larger ones in parts", FormatBytes(bytes));
}

std::string DescribeDevice(const VerbsDevice& device) {
  std::string lacks;
  if (!device.has_atomics()) lacks = "; no atomics";
  if (!device.has_immediates()) lacks += "; calls over tcp only";
  return fmt::format("{}, {}{}", device.Describe(), DescribeBound(device.attributes().max_mr_size),
                     lacks);
}

}  // namespace

Finding CheckRdmaDevice(const std::string& device, bool required) {
  const std::string subject = "RDMA";
  std::shared_ptr<const VerbsDevice> opened;
  const Status status = OpenDevice(device, &opened);
  if (status.ok()) return {Verdict::kGood, subject, DescribeDevice(*opened), ""};
  return {required ? Verdict::kBad : Verdict::kNote, subject, status.message().ToString(), ""};
}

Finding CheckConnectionManager(const std::string& root, const std::string& device, bool required) {
  const std::string subject = "RDMA connections";
  std::shared_ptr<const VerbsDevice> opened;
  const bool needed = OpenDevice(device, &opened).ok() && opened->connects_by_manager();
  const Verdict missing = needed && required ? Verdict::kBad : Verdict::kNote;
  const char* const use = needed ? "this device needs it" : "iWARP and connection=cm need it";
  const VerbsCmLibrary* library = nullptr;
  const Status status = VerbsCmLibrary::Get(&library);
  if (!status.ok()) {
    return {missing, subject, fmt::format("no librdmacm: {}", status.message().ToString()), use};
  }
  const bool has_devices = !EntriesOf(root + "sys/class/infiniband").empty();
  if (has_devices && !fs::exists(root + "dev/infiniband/rdma_cm")) {
    return {missing, subject, "librdmacm is there, but not /dev/infiniband/rdma_cm",
            fmt::format("{}: as root: modprobe rdma_ucm", use)};
  }
  return {Verdict::kGood, subject, fmt::format("librdmacm is there; {}", use), ""};
}

Findings CheckRdmaPorts(const std::string& root) {
  Findings findings;
  for (const fs::path& device : EntriesOf(root + "sys/class/infiniband")) {
    const std::string name = device.filename().string();
    Finding node = CheckNumaNode(device);
    node.subject = name;
    findings.push_back(std::move(node));
    for (const fs::path& port : EntriesOf(device / "ports")) {
      const std::string subject = fmt::format("{} port {}", name, port.filename().string());
      Findings of_port = PortCheck(root, port, IsIwarp(device), subject).Run();
      findings.insert(findings.end(), of_port.begin(), of_port.end());
    }
  }
  if (!findings.empty()) return findings;
  return {{Verdict::kNote, "RDMA device", "this host has none",
           "use shm or tcp; or load the driver of the card (lspci, dmesg); for a software device: "
           "rdma link add rxe0 type rxe netdev DEVICE"}};
}

}  // namespace dlsm::tool
