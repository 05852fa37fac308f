// Server TCPIPPORT MEMORYSIZE NODEID: the process that makes a machine's memory a memory node.
//
// Exit codes: 0 after SIGTERM or SIGINT, 1 when it could not start, 2 for wrong arguments. SIGHUP
// has it read --access_file again.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "dLSM/db.h"
#include "memory_node/node_server.h"
#include "memory_node/server_metrics.h"
#include "util/cluster_config.h"
#include "util/file_descriptor.h"
#include "util/format_bytes.h"
#include "util/known_flags.h"
#include "util/log.h"
#include "util/metrics/metrics_endpoint.h"
#include "util/out_of_memory.h"
#include "util/program_version.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

// The three arguments as flags: a --flagfile has flags only.
DEFINE_int32(port, 19843, "TCPIPPORT, where there are no arguments");
DEFINE_string(memory_gb, "", "MEMORYSIZE; given, there are no arguments");
DEFINE_int32(node_id, 1, "NODEID, where there are no arguments");
DEFINE_string(bind, "127.0.0.1", "numeric address to listen on");
DEFINE_bool(insecure, false, "allow --bind to other machines without --secret_file");
DEFINE_string(secret_file, "", "file with the cluster's secret; readable by its owner only");
DEFINE_bool(tls, false,
            "TLS for control and tcp data connections; without a certificate, clients and memory "
            "node know each other by the secret");
DEFINE_string(tls_certificate_file, "", "PEM: this memory node's certificate; implies --tls");
DEFINE_string(tls_key_file, "", "PEM: its key; readable by its owner only");
DEFINE_string(tls_ca_file, "",
              "PEM: clients must show a certificate that leads there; other memory nodes, too");
DEFINE_string(access_file, "",
              "clients with secrets and databases of their own; readable by its owner only; read "
              "again at SIGHUP");
DEFINE_bool(access_shares_memory, false,
            "clients of --access_file may use shm and verbs, which reach all databases' memory");
DEFINE_string(fabric, "shm",
              "shm: compute nodes on this host map the memory, others use tcp; tcp: all use tcp; "
              "verbs: RDMA, and tcp for those who ask for it");
DEFINE_string(
    rdma_device, "",
    "for --fabric=verbs: a device (mlx5_0), port (mlx5_0:2), network interface or address "
    "of this machine, then settings as in ,mtu=1024; empty: the first active port");
DEFINE_string(merge_scheduler, "greedy",
              "which merges go on when there are more than threads: single, fair, greedy, "
              "spring_and_gear");
DEFINE_int32(merge_bandwidth_mb, 0, "megabytes of input a second for all merges; 0: no limit");
DEFINE_int32(merge_threads, 2,
             "threads that merge tables; 0: none, compute nodes must merge for themselves");
DEFINE_double(database_quota_gb, 0,
              "memory that each database may have, unless dlsm_tool quota gives it another quota, "
              "in GB; may be a fraction; 0: no limit");
DEFINE_int32(fabric_threads, 0,
             "threads that answer one-sided requests over tcp; 0: one for each processor, but 4 at "
             "most");
DEFINE_int32(tcp_poll_us, 50,
             "how long a thread of --fabric_threads may poll for the next request before it "
             "sleeps, while that pays; 0: never");
DEFINE_int32(numa_node, -1, "NUMA node for all memory and threads; -1: the kernel's choice");
DEFINE_bool(huge_pages, true, "ask for huge pages; without them it works, more slowly");
DEFINE_bool(
    take_all_memory, true,
    "take all of the memory at the start, as far as the machine can spare it: so nobody who "
    "writes waits for the kernel; false: each page when it is first written");
DEFINE_string(
    data_dir, "",
    "directory where the contents outlive this process, of MEMORYSIZE or less; made if its "
    "parent is there; empty: the contents are in memory alone");
DEFINE_int32(metrics_port, 0, "port for Prometheus; 0: none");
DEFINE_int32(status_seconds, 60, "print a status line every so often; 0: never");

namespace dlsm {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr const char* kUsage =
    "Server TCPIPPORT MEMORYSIZE NODEID [flags]\n"
    "Server --memory_gb=MEMORYSIZE [--port=TCPIPPORT] [--node_id=NODEID] [flags]\n"
    "  TCPIPPORT   the port to listen on, 1 to 65535; 0: any free one\n"
    "  MEMORYSIZE  memory to offer, in GB; may be a fraction, such as 0.5\n"
    "  NODEID      the number of this memory node in its cluster\n"
    "Server --help lists the flags.";

constexpr double kGigabytesMax = 1 << 20;
constexpr double kGigabyte = static_cast<double>(uint64_t{1} << 30);

bool ParseUnsigned(const char* text, uint64_t max, uint64_t* value) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long parsed = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed > max) return false;
  *value = parsed;
  return true;
}

bool ParseGigabytes(const char* text, uint64_t* bytes) {
  // A page is the least that makes sense, a PB more than any machine has.
  constexpr double kBytesMin = 4096;
  constexpr double kBytesMax = kGigabyte * kGigabytesMax;
  char* end = nullptr;
  const double parsed = std::strtod(text, &end) * kGigabyte;
  if (end == text || *end != '\0' || !(parsed >= kBytesMin && parsed <= kBytesMax)) return false;
  *bytes = static_cast<uint64_t>(parsed) / 4096 * 4096;
  return true;
}

Status ParseNode(const std::string& tcp_port, const std::string& memory, const std::string& id,
                 NodeServerOptions* options) {
  uint64_t port = 0;
  uint64_t node = 0;
  if (!ParseUnsigned(tcp_port.c_str(), std::numeric_limits<uint16_t>::max(), &port)) {
    return Status::InvalidArgument(fmt::format("TCPIPPORT '{}' is no port", tcp_port));
  }
  if (!ParseGigabytes(memory.c_str(), &options->bytes)) {
    return Status::InvalidArgument(
        fmt::format("MEMORYSIZE '{}' must be a number of GB: at least a page, at most {:.0f}",
                    memory, kGigabytesMax));
  }
  if (!ParseUnsigned(id.c_str(), std::numeric_limits<uint32_t>::max(), &node)) {
    return Status::InvalidArgument(fmt::format("NODEID '{}' is no node number", id));
  }
  options->port = static_cast<uint16_t>(port);
  options->node.node = NodeId{static_cast<uint32_t>(node)};
  return Status::OK();
}

// Three arguments, or flags in their place.
Status ParseNode(int count, char** arguments, NodeServerOptions* options) {
  if (FLAGS_memory_gb.empty()) {
    if (count != 4) return Status::InvalidArgument("three arguments are needed");
    return ParseNode(arguments[1], arguments[2], arguments[3], options);
  }
  if (count != 1) return Status::InvalidArgument("there are arguments besides --memory_gb");
  return ParseNode(std::to_string(FLAGS_port), FLAGS_memory_gb, std::to_string(FLAGS_node_id),
                   options);
}

Status CheckRange(const char* flag, int value, int min, int max) {
  if (min <= value && value <= max) return Status::OK();
  return Status::InvalidArgument(fmt::format("--{}={} is not in {} to {}", flag, value, min, max));
}

Status ParseFlags(NodeServerOptions* options) {
  const std::optional<FabricKind> fabric = FabricKindFromName(FLAGS_fabric);
  if (!fabric.has_value() || fabric == FabricKind::kLocal) {
    return Status::InvalidArgument(
        fmt::format("--fabric={} is not known; use shm, tcp or verbs", FLAGS_fabric));
  }
  if (!FLAGS_rdma_device.empty() && fabric != FabricKind::kVerbs) {
    return Status::InvalidArgument("--rdma_device needs --fabric=verbs");
  }
  DLSM_RETURN_IF_ERROR(ParseVerbsOptions(FLAGS_rdma_device, &options->verbs));
  DLSM_RETURN_IF_ERROR(CheckRange("merge_threads", FLAGS_merge_threads, 0, 1024));
  DLSM_RETURN_IF_ERROR(CheckRange("merge_bandwidth_mb", FLAGS_merge_bandwidth_mb, 0, 1 << 20));
  const std::optional<MergeSchedule> schedule = MergeScheduleFromName(FLAGS_merge_scheduler);
  if (!schedule.has_value()) {
    return Status::InvalidArgument(fmt::format(
        "--merge_scheduler={} is not known; use single, fair, greedy or spring_and_gear",
        FLAGS_merge_scheduler));
  }
  DLSM_RETURN_IF_ERROR(CheckRange("fabric_threads", FLAGS_fabric_threads, 0, 256));
  DLSM_RETURN_IF_ERROR(CheckRange("tcp_poll_us", FLAGS_tcp_poll_us, 0, 1'000'000));
  DLSM_RETURN_IF_ERROR(CheckRange("numa_node", FLAGS_numa_node, -1, 1023));
  DLSM_RETURN_IF_ERROR(CheckRange("metrics_port", FLAGS_metrics_port, 0, 65535));
  DLSM_RETURN_IF_ERROR(CheckRange("status_seconds", FLAGS_status_seconds, 0, 1 << 20));
  if (!(FLAGS_database_quota_gb >= 0) || FLAGS_database_quota_gb > kGigabytesMax) {
    return Status::InvalidArgument(fmt::format("--database_quota_gb={} is not from 0 to {}",
                                               FLAGS_database_quota_gb, kGigabytesMax));
  }
  options->node.database_quota_bytes = static_cast<uint64_t>(FLAGS_database_quota_gb * kGigabyte);
  options->fabric = *fabric;
  options->data_dir = FLAGS_data_dir;
  options->bind_address = FLAGS_bind;
  options->node.merge_threads = FLAGS_merge_threads;
  options->node.merge_schedule = *schedule;
  options->node.merge_bytes_per_second = static_cast<uint64_t>(FLAGS_merge_bandwidth_mb) << 20;
  options->fabric_threads = FLAGS_fabric_threads;
  options->tcp_poll = std::chrono::microseconds(FLAGS_tcp_poll_us);
  options->numa_node = FLAGS_numa_node;
  options->huge_pages = FLAGS_huge_pages;
  options->take_all_pages = FLAGS_take_all_memory;
  return Status::OK();
}

bool IsLoopback(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

// Strangers must not get at the memory.
Status CheckSecret(NodeServerOptions* options) {
  options->tls.enabled = FLAGS_tls;
  options->tls.certificate_file = FLAGS_tls_certificate_file;
  options->tls.key_file = FLAGS_tls_key_file;
  options->tls.ca_file = FLAGS_tls_ca_file;
  options->access_shares_memory = FLAGS_access_shares_memory;
  if (!FLAGS_access_file.empty()) {
    DLSM_RETURN_IF_ERROR(AccessList::Read(FLAGS_access_file, &options->access));
  }
  if (!FLAGS_secret_file.empty()) return ReadSecretFile(FLAGS_secret_file, &options->secret);
  if (IsLoopback(FLAGS_bind) || FLAGS_insecure) return Status::OK();
  return Status::InvalidArgument(fmt::format(
      "--bind={} lets other machines read and write this memory; give a --secret_file, or "
      "--insecure if nobody else can reach that address",
      FLAGS_bind));
}

// Not all pages are taken at the start: some are left (TakeAllPages()), or all with
// --take_all_memory=false, until they are first written. Without this check a node that promises
// too much would be killed then, with all its data.
Status CheckMemory(uint64_t bytes) {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::string unit;
  uint64_t kilobytes = 0;
  while (meminfo >> name >> kilobytes) {
    std::getline(meminfo, unit);
    if (name != "MemAvailable:") continue;
    if (bytes / 1024 <= kilobytes) return Status::OK();
    return Status::IOError(
        fmt::format("not enough memory: {} asked for, {} available; ask for less, or stop other "
                    "programs",
                    FormatBytes(bytes), FormatBytes(kilobytes * 1024)));
  }
  return Status::OK();  // Not known here.
}

// Each connection takes descriptors: as many as the system allows.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // It works with less.
}

void PrintReady(NodeServer& server, const NodeServerOptions& options) {
  ExportedRegion& region = server.node().region();
  const HostPort where{options.bind_address, server.port()};
  fmt::print("dLSM memory node {} ready on {}: {} {} ({}), {} merge threads\n",
             static_cast<uint32_t>(server.node().id()), where.ToString(),
             FormatBytes(region.info().bytes), server.DescribeFabric(), server.DescribePlace(),
             options.node.merge_threads);
  std::fflush(stdout);
}

void PrintStatus(MemoryNode& node) {
  const NodeStatisticsReply now = node.Statistics();
  fmt::print(
      "memory node {}: {} of {} used, {} databases, {} open, {} merges done, {} "
      "running, {} queued, "
      "{} merged, {:.1f} s CPU\n",
      static_cast<uint32_t>(node.id()), FormatBytes(now.used_bytes),
      FormatBytes(now.capacity_bytes), now.databases, now.sessions, now.merges_done,
      now.merges_running, now.merges_queued, FormatBytes(now.merge_bytes_written),
      static_cast<double>(now.cpu_micros) / 1e6);
  std::fflush(stdout);
}

// To stop; and to read the access file again, where there is one.
sigset_t AwaitedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (!FLAGS_access_file.empty()) sigaddset(&signals, SIGHUP);
  return signals;
}

void ReadAccessFileAgain(AccessList* list) {
  std::shared_ptr<AccessList> next;
  const Status read = AccessList::Read(FLAGS_access_file, &next);
  if (!read.ok()) {
    Log().Error("the access file is not obeyed, and what it said before counts on: {}",
                read.ToString());
    return;
  }
  list->Replace(*next);
  Log().Warn("the access file {} has been read again: {} clients", FLAGS_access_file, list->size());
}

void RunUntilStopped(MemoryNode& node, AccessList* access) {
  const sigset_t signals = AwaitedSignals();
  const timespec period{FLAGS_status_seconds > 0 ? FLAGS_status_seconds : 3600, 0};
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &period);
    if (signal == SIGTERM || signal == SIGINT) return;
    const bool time_is_up = signal < 0 && errno == EAGAIN && FLAGS_status_seconds > 0;
    const Status done = WithinMemory(
        [&] {
          if (signal == SIGHUP) ReadAccessFileAgain(access);
          if (time_is_up) PrintStatus(node);
          return Status::OK();
        },
        &OutOfNodeMemory);
    if (!done.ok()) Log().Error("{}", done.message().ToStringView());
  }
}

// The kernel's way to say that a page of the directory cannot be read.
void TellUnreadable(int /*signal*/) {
  constexpr char kText[] =
      "Server: the disk of --data_dir cannot be read or is full; is it in order? Start again "
      "then\n";
  if (write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) _exit(kExitFailed);
  _exit(kExitFailed);
}

Status StartMetrics(const NodeServer& server, std::unique_ptr<MetricsEndpoint>* metrics) {
  if (FLAGS_metrics_port == 0) return Status::OK();
  return MetricsEndpoint::Start(FLAGS_bind, FLAGS_metrics_port,
                                {std::make_shared<ServerMetrics>(&server)}, metrics);
}

int Fail(const Status& status, int code) {
  fmt::print(stderr, "Server: {}\n", status.message().ToStringView());
  if (code == kExitUsage) fmt::print(stderr, "usage: {}\n", kUsage);
  return code;
}

int Run(int count, char** arguments) {
  NodeServerOptions options;
  Status status = ParseNode(count, arguments, &options);
  if (status.ok()) status = ParseFlags(&options);
  if (!status.ok()) return Fail(status, kExitUsage);

  RaiseDescriptorLimit();
  status = CheckSecret(&options);
  // A directory's bytes are in the kernel's page cache, as far as there is memory.
  if (status.ok() && options.data_dir.empty()) status = CheckMemory(options.bytes);
  if (!options.data_dir.empty()) signal(SIGBUS, TellUnreadable);
  std::unique_ptr<NodeServer> server;
  if (status.ok()) status = NodeServer::Start(options, &server);
  if (!status.ok()) return Fail(status, kExitFailed);

  std::unique_ptr<MetricsEndpoint> metrics;
  status = StartMetrics(*server, &metrics);
  if (!status.ok()) return Fail(status, kExitFailed);

  PrintReady(*server, options);
  RunUntilStopped(server->node(), options.access.get());
  metrics.reset();
  server.reset();
  fmt::print("memory node {} stopped\n", static_cast<uint32_t>(options.node.node));
  return 0;
}

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  signal(SIGPIPE, SIG_IGN);
  gflags::SetUsageMessage(dlsm::kUsage);
  const dlsm::Status known = dlsm::CheckFlagsAreKnown(argc, argv);
  if (!known.ok()) return dlsm::Fail(known, dlsm::kExitUsage);
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  // All threads inherit this: the signals are for RunUntilStopped() alone.
  const sigset_t signals = dlsm::AwaitedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return dlsm::Run(argc, argv);
}
