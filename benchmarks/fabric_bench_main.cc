// fabric_bench: what one read of a memory node costs, without a database around it: latency of
// single reads, and bandwidth of reads kept under way. For comparison with a network's own tools
// (perftest for RDMA), see script/softroce/compare-perftest.
#include <fmt/core.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/flag_checks.h"
#include "benchmarks/tls_flags.h"
#include "util/fabric/fabric.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/program_version.h"
#include "util/rpc/node_connection.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

DEFINE_string(memory_node, "127.0.0.1:19843", "host:port of the memory node");
DEFINE_string(fabric, "verbs", "shm, tcp or verbs");
DEFINE_string(rdma_device, "",
              "for verbs: device, port, network interface or address, then settings; empty: the "
              "first active port");
DEFINE_string(secret_file, "", "file with the secret of the cluster");
DEFINE_uint64(latency_bytes, 512, "bytes of a read whose latency is measured");
DEFINE_uint64(latency_reads, 1000, "how many of them");
DEFINE_uint64(bandwidth_bytes, 1 << 20, "bytes of a read whose bandwidth is measured");
DEFINE_uint64(bandwidth_reads, 200, "how many of them");
DEFINE_uint64(window, 16, "reads under way at once for bandwidth");

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

Deadline Soon() { return Deadline::In(std::chrono::seconds(30)); }

// What one read may bring, and what all that are under way may, fits into 64 bits.
Status CheckFlags() {
  constexpr uint64_t kCountMax = uint64_t{1} << 40;
  constexpr uint64_t kBytesMax = uint64_t{1} << 40;
  return bench::FirstError({
      bench::CheckRange<uint64_t>("latency_bytes", FLAGS_latency_bytes, 1, kBytesMax),
      bench::CheckRange<uint64_t>("latency_reads", FLAGS_latency_reads, 1, kCountMax),
      bench::CheckRange<uint64_t>("bandwidth_bytes", FLAGS_bandwidth_bytes, 1, kBytesMax),
      bench::CheckRange<uint64_t>("bandwidth_reads", FLAGS_bandwidth_reads, 1, kCountMax),
      bench::CheckRange<uint64_t>("window", FLAGS_window, 1, 1 << 20),
  });
}

Status Connect(std::unique_ptr<NodeConnection>* connection) {
  const size_t colon = FLAGS_memory_node.rfind(':');
  const unsigned long port = colon == std::string::npos
                                 ? 0
                                 : std::strtoul(FLAGS_memory_node.c_str() + colon + 1, nullptr, 10);
  if (port == 0 || port > 65535) {
    return Status::InvalidArgument("--memory_node=" + FLAGS_memory_node + " is no host:port");
  }
  const std::optional<FabricKind> kind = FabricKindFromName(FLAGS_fabric);
  if (!kind.has_value()) return Status::InvalidArgument("unknown --fabric=" + FLAGS_fabric);
  NodeConnectionOptions options;
  options.fabric.kind = *kind;
  options.client_name = "fabric_bench";
  DLSM_RETURN_IF_ERROR(ParseVerbsOptions(FLAGS_rdma_device, &options.fabric.verbs));
  if (!FLAGS_secret_file.empty()) {
    DLSM_RETURN_IF_ERROR(ReadSecretFile(FLAGS_secret_file, &options.credentials.secret));
  }
  DLSM_RETURN_IF_ERROR(UseTls(bench::TlsFromFlags(), &options.credentials));
  const NodeAddress address{FLAGS_memory_node.substr(0, colon), static_cast<uint16_t>(port)};
  return ConnectNode(address, options, Soon(), connection);
}

class Bench {
 public:
  explicit Bench(NodeConnection& node) : fabric_(node.fabric()), peer_(node.peer()) {}

  Status Prepare() {
    if (peer_.regions.empty()) return Status::IOError("the memory node has no region");
    const uint64_t most = std::max(FLAGS_latency_bytes, FLAGS_window * FLAGS_bandwidth_bytes);
    if (most > peer_.regions[0].bytes) {
      return Status::InvalidArgument(
          fmt::format("the memory node has {} bytes, these sizes take {}: give smaller ones, or a "
                      "smaller --window",
                      peer_.regions[0].bytes, most));
    }
    DLSM_RETURN_IF_ERROR(fabric_.NewBuffer(most, &buffer_));
    return fabric_.NewQueuePair(Soon(), &queue_pair_);
  }

  Status Latency() {
    std::vector<double> us;
    for (uint64_t i = 0; i < FLAGS_latency_reads; ++i) {
      Ticket ticket{};
      const auto begin = Clock::now();
      DLSM_RETURN_IF_ERROR(Post(0, FLAGS_latency_bytes, &ticket));
      DLSM_RETURN_IF_ERROR(queue_pair_->Wait(ticket, Soon()));
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::sort(us.begin(), us.end());
    fmt::print("read latency {} B: median {:.2f} us, p99 {:.2f} us\n", FLAGS_latency_bytes,
               us[us.size() / 2], us[us.size() * 99 / 100]);
    return Status::OK();
  }

  Status Bandwidth() {
    const uint64_t window = FLAGS_window;
    std::vector<Ticket> tickets(window);
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < FLAGS_bandwidth_reads; ++i) {
      // The buffer's part is read into again once its last read has ended.
      const uint64_t slot = i % window;
      if (i >= window) DLSM_RETURN_IF_ERROR(queue_pair_->Wait(tickets[slot], Soon()));
      DLSM_RETURN_IF_ERROR(
          Post(slot * FLAGS_bandwidth_bytes, FLAGS_bandwidth_bytes, &tickets[slot]));
      DLSM_RETURN_IF_ERROR(queue_pair_->Ring());
    }
    const uint64_t last = (FLAGS_bandwidth_reads + window - 1) % window;
    DLSM_RETURN_IF_ERROR(queue_pair_->Wait(tickets[last], Soon()));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double bytes = static_cast<double>(FLAGS_bandwidth_reads * FLAGS_bandwidth_bytes);
    fmt::print("read bandwidth {} B: {:.2f} MiB/s\n", FLAGS_bandwidth_bytes,
               bytes / seconds / (1 << 20));
    return Status::OK();
  }

 private:
  Status Post(uint64_t offset, uint64_t bytes, Ticket* ticket) {
    const RemoteSpan from{peer_.node, peer_.regions[0].id, offset, bytes};
    return queue_pair_->PostRead(from, buffer_.span().Sub(offset, bytes), Purpose::kRead, ticket);
  }

  FabricConnection& fabric_;
  const FabricPeer& peer_;
  RegisteredBuffer buffer_;
  std::unique_ptr<QueuePair> queue_pair_;
};

Status Run() {
  DLSM_RETURN_IF_ERROR(CheckFlags());
  std::unique_ptr<NodeConnection> connection;
  DLSM_RETURN_IF_ERROR(Connect(&connection));
  Bench bench(*connection);
  DLSM_RETURN_IF_ERROR(bench.Prepare());
  DLSM_RETURN_IF_ERROR(bench.Latency());
  DLSM_RETURN_IF_ERROR(bench.Bandwidth());
  fmt::print("fabric: {}\n", connection->fabric().Describe());
  return Status::OK();
}

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  gflags::SetUsageMessage("fabric_bench [flags]: latency and bandwidth of one-sided reads");
  dlsm::Status status = dlsm::CheckFlagsAreKnown(argc, argv);
  if (status.ok()) {
    gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
    status = argc > 1 ? dlsm::bench::UnknownArgument(argv[1]) : dlsm::Run();
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "fabric_bench: {}\n", status.message().ToStringView());
  return 1;
}
