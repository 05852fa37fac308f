// rpc_bench: what one call costs over each transport, without a database around it: a memory node's
// server and a client in one process. Prints, for each transport, a line with
//
//   the latency of calls one after another (median, 99th percentile), calls per second of one and
//   of two threads, the processor's seconds for each second in which the connection idles, and for
//   each call of one thread what client and memory node have the device do: work requests (receives
//   included), doorbells, completions, sleeps.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/flag_checks.h"
#include "benchmarks/seconds_since.h"
#include "benchmarks/tls_flags.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/program_version.h"
#include "util/rpc/node_connection.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server.h"
#include "util/rpc/verbs/verbs_rpc_server.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

DEFINE_string(transports, "tcp,verbs,ring", "which ones, separated by commas");
DEFINE_string(rdma_device, "", "for verbs and ring: as for db_bench");
DEFINE_uint64(calls, 5000, "calls of each thread");
DEFINE_uint64(request_bytes, 32, "bytes of a request");
DEFINE_uint64(reply_bytes, 32, "bytes of a reply");
DEFINE_double(idle_seconds, 2, "how long the connection idles");
DEFINE_uint64(rounds, 1, "how often all of it is repeated, the transports taking turns");

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

class EchoHandler : public RpcHandler {
 public:
  void Handle(const RpcPeer& /*peer*/, Method /*method*/, const Slice& /*request*/,
              RpcDone done) override {
    done(Status::OK(), std::string(FLAGS_reply_bytes, 'r'));
  }
  void Disconnected(const RpcPeer& /*peer*/) override {}
};

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
}

Status CallMany(RpcClient& client, std::vector<double>* latencies_us) {
  const std::string request(FLAGS_request_bytes, 'q');
  std::string reply;
  for (uint64_t i = 0; i < FLAGS_calls; ++i) {
    const auto start = Clock::now();
    DLSM_RETURN_IF_ERROR(
        client.Call(Method::kGrant, request, &reply, Deadline::In(std::chrono::seconds(60))));
    latencies_us->push_back(bench::SecondsSince(start) * 1e6);
  }
  return Status::OK();
}

Status CallsPerSecond(RpcClient& client, int thread_count, double* rate) {
  std::vector<std::thread> threads;
  std::vector<Status> statuses(static_cast<size_t>(thread_count));
  threads.reserve(statuses.size());
  const auto start = Clock::now();
  for (Status& status : statuses) {
    threads.emplace_back([&client, &status] {
      std::vector<double> ignored;
      status = CallMany(client, &ignored);
    });
  }
  for (std::thread& thread : threads) thread.join();
  *rate = static_cast<double>(FLAGS_calls) * thread_count / bench::SecondsSince(start);
  for (const Status& status : statuses) DLSM_RETURN_IF_ERROR(status);
  return Status::OK();
}

RpcCounts operator-(const RpcCounts& a, const RpcCounts& b) {
  return RpcCounts{a.work_requests - b.work_requests, a.doorbells - b.doorbells,
                   a.completions - b.completions, a.sleeps - b.sleeps};
}

std::string PerCall(const RpcCounts& counts) {
  const auto calls = static_cast<double>(FLAGS_calls);
  return fmt::format(
      "{:.2f}/{:.2f}/{:.2f}/{:.2f}", static_cast<double>(counts.work_requests) / calls,
      static_cast<double>(counts.doorbells) / calls,
      static_cast<double>(counts.completions) / calls, static_cast<double>(counts.sleeps) / calls);
}

// By the flags, which are both ends' here.
Status SecureBoth(RpcServerOptions* server, Credentials* client) {
  server->secret = client->secret = "of rpc_bench";
  TlsConfig tls = bench::TlsFromFlags();
  if (!tls.on()) return Status::OK();
  const auto key_of = [key = TlsKey(server->secret)](const std::string& /*identity*/) {
    return key;
  };
  DLSM_RETURN_IF_ERROR(TlsContext::ForServer(tls, key_of, &server->tls));
  if (tls.ca_file.empty()) tls.ca_file = tls.certificate_file;  // As between memory nodes.
  return UseTls(tls, client);
}

Status Measure(RpcTransport transport) {
  EchoHandler handler;
  RpcServerOptions server_options;
  Credentials credentials;
  DLSM_RETURN_IF_ERROR(SecureBoth(&server_options, &credentials));
  RpcTransportOptions client_options;
  client_options.kind = transport;
  DLSM_RETURN_IF_ERROR(ParseVerbsOptions(FLAGS_rdma_device, &client_options.verbs));
  std::shared_ptr<ServerTransport> end;
  if (transport != RpcTransport::kTcp) {
    ServerTransportFactory factory;
    DLSM_RETURN_IF_ERROR(NewVerbsTransportFactory(client_options.verbs, &factory));
    // The only connection's end is kept, for its counts.
    server_options.transports = [factory, &end](
                                    const ServerTransportContext& context, const Slice& offer,
                                    std::shared_ptr<ServerTransport>* made, std::string* answer) {
      DLSM_RETURN_IF_ERROR(factory(context, offer, made, answer));
      end = *made;
      return Status::OK();
    };
  }
  std::unique_ptr<RpcServer> server;
  DLSM_RETURN_IF_ERROR(RpcServer::Start(server_options, &handler, &server));
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> client;
  DLSM_RETURN_IF_ERROR(NodeRpcClient::Connect({"127.0.0.1", server->port()}, credentials,
                                              "rpc_bench", Deadline::In(std::chrono::seconds(20)),
                                              &info, &client, client_options));
  const auto served = [&end] { return end != nullptr ? end->counts() : RpcCounts{}; };
  std::vector<double> latencies;
  const RpcCounts client_before = client->counts();
  const RpcCounts server_before = served();
  const double processor_before = ProcessorSeconds();
  DLSM_RETURN_IF_ERROR(CallMany(*client, &latencies));
  const double processor_us = (ProcessorSeconds() - processor_before) * 1e6;
  const RpcCounts client_counts = client->counts() - client_before;
  const RpcCounts server_counts = served() - server_before;
  std::sort(latencies.begin(), latencies.end());
  double one = 0;
  double two = 0;
  DLSM_RETURN_IF_ERROR(CallsPerSecond(*client, 1, &one));
  DLSM_RETURN_IF_ERROR(CallsPerSecond(*client, 2, &two));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double idle_before = ProcessorSeconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_idle_seconds));
  const double idle = (ProcessorSeconds() - idle_before) / FLAGS_idle_seconds;
  fmt::print(
      "{:5}  p50 {:7.1f} us  p99 {:8.1f} us  cpu {:6.1f} us/call  {:8.0f} calls/s  2 threads "
      "{:8.0f} calls/s  idle {:.4f} cpu  client {}  memory node {}\n",
      RpcTransportName(transport), latencies[latencies.size() / 2],
      latencies[latencies.size() * 99 / 100], processor_us / static_cast<double>(FLAGS_calls), one,
      two, idle, PerCall(client_counts), PerCall(server_counts));
  std::fflush(stdout);
  client.reset();
  server.reset();
  return Status::OK();
}

Status CheckFlags() {
  constexpr uint64_t kCountMax = uint64_t{1} << 40;
  return bench::FirstError({
      bench::CheckRange<uint64_t>("calls", FLAGS_calls, 1, kCountMax),
      bench::CheckRange<double>("idle_seconds", FLAGS_idle_seconds, 0.001, 1e6),
      bench::CheckRange<uint64_t>("rounds", FLAGS_rounds, 1, kCountMax),
  });
}

Status ParseTransports(std::vector<RpcTransport>* transports) {
  for (const std::string& name : bench::SplitAtCommas(FLAGS_transports)) {
    const std::optional<RpcTransport> transport = RpcTransportFromName(name);
    if (!transport.has_value()) {
      return bench::Wrong("transports", name, "a list of tcp, verbs, ring");
    }
    transports->push_back(*transport);
  }
  if (!transports->empty()) return Status::OK();
  return bench::Wrong("transports", FLAGS_transports, "a list of tcp, verbs, ring");
}

Status MeasureAll() {
  DLSM_RETURN_IF_ERROR(CheckFlags());
  std::vector<RpcTransport> transports;
  DLSM_RETURN_IF_ERROR(ParseTransports(&transports));
  fmt::print(
      "requests of {} bytes, replies of {}; per call: work requests/doorbells/completions/"
      "sleeps\n",
      FLAGS_request_bytes, FLAGS_reply_bytes);
  for (uint64_t round = 0; round < FLAGS_rounds; ++round) {
    for (const RpcTransport transport : transports) DLSM_RETURN_IF_ERROR(Measure(transport));
  }
  return Status::OK();
}

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  gflags::SetUsageMessage("measures calls to a memory node over tcp, verbs and ring");
  dlsm::Status status = dlsm::CheckFlagsAreKnown(argc, argv);
  if (status.ok()) {
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    status = argc > 1 ? dlsm::bench::UnknownArgument(argv[1]) : dlsm::MeasureAll();
  }
  if (status.ok()) return 0;
  fmt::print(stderr, "rpc_bench: {}\n", status.ToString());
  return 1;
}
