#include "script/tool/node_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "util/format_bytes.h"
#include "util/rpc/auth/hello_messages.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kConnectTimeout = std::chrono::seconds(5);
constexpr auto kReadTimeout = std::chrono::seconds(5);
constexpr size_t kSmallBytes = 512;
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr int kSmallReads = 2000;
constexpr int kLargeReads = 50;
// However slow the fabric is, its check ends about then.
constexpr auto kProbeTime = std::chrono::seconds(3);

Status Connect(const NodeAddress& address, const Credentials& credentials,
               const FabricOptions& fabric, std::unique_ptr<NodeConnection>* connection) {
  NodeConnectionOptions options;
  options.fabric = fabric;
  options.credentials = credentials;
  options.client_name = "dlsm_tool doctor";
  return ConnectNode(address, options, Deadline::In(kConnectTimeout), connection);
}

std::string RemedyFor(const Status& status, const NodeAddress& address) {
  if (status.IsInvalidArgument()) return "";  // The message says what does not match.
  if (status.IsTimedOut()) {
    return fmt::format(
        "packets to it are lost or dropped: is the host up, and does a firewall let "
        "TCP port {} through? (on its side: nft list ruleset)",
        address.port);
  }
  return fmt::format(
      "start it there: Server {} GIGABYTES NODEID --bind=ADDRESS; by default it "
      "listens on 127.0.0.1 only",
      address.port);
}

struct Speed {
  double small_micros = 0;  // The median.
  double large_bytes_per_second = 0;
};

Status TimeReads(QueuePair& queue_pair, const RemoteSpan& from, const LocalSpan& to, int count,
                 std::vector<double>* micros) {
  const auto give_up = Clock::now() + kProbeTime;
  for (int i = 0; i < count && (i == 0 || Clock::now() < give_up); ++i) {
    const auto start = Clock::now();
    Ticket ticket;
    DLSM_RETURN_IF_ERROR(queue_pair.PostRead(from, to, Purpose::kRead, &ticket));
    DLSM_RETURN_IF_ERROR(queue_pair.Wait(ticket, Deadline::In(kReadTimeout)));
    micros->push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(micros->begin(), micros->end());
  return Status::OK();
}

// What a read takes.
struct Channel {
  std::unique_ptr<QueuePair> queue_pair;
  RegisteredBuffer buffer;
};

Status Prepare(NodeConnection& node, Channel* channel) {
  if (node.peer().regions.empty()) return Status::IOError("it has no region");
  DLSM_RETURN_IF_ERROR(
      node.fabric().NewQueuePair(Deadline::In(kConnectTimeout), &channel->queue_pair));
  return node.fabric().NewBuffer(kLargeBytes, &channel->buffer);
}

Status Measure(const NodeConnection& node, Channel& channel, Speed* speed) {
  const RegionInfo& region = node.peer().regions.front();
  const uint64_t large = std::min<uint64_t>(kLargeBytes, region.bytes);
  const RemoteSpan span{node.peer().node, region.id, 0, large};
  const LocalSpan to = channel.buffer.span();
  const uint64_t few = std::min<uint64_t>(kSmallBytes, large);
  std::vector<double> small;
  std::vector<double> whole;
  DLSM_RETURN_IF_ERROR(
      TimeReads(*channel.queue_pair, span.Sub(0, few), to.Sub(0, few), kSmallReads, &small));
  DLSM_RETURN_IF_ERROR(TimeReads(*channel.queue_pair, span, to.Sub(0, large), kLargeReads, &whole));
  speed->small_micros = small[small.size() / 2];
  speed->large_bytes_per_second = static_cast<double>(large) / whole[whole.size() / 2] * 1e6;
  return Status::OK();
}

}  // namespace

Findings CheckNode(const NodeAddress& address, const Credentials& credentials, bool* reachable) {
  const std::string subject = fmt::format("{}:{}", address.host, address.port);
  FabricOptions tcp;
  tcp.kind = FabricKind::kTcp;
  std::unique_ptr<NodeConnection> node;
  const Status connected = Connect(address, credentials, tcp, &node);
  *reachable = connected.ok();
  if (!connected.ok()) {
    return {
        {Verdict::kBad, subject, connected.message().ToString(), RemedyFor(connected, address)}};
  }
  Findings findings;
  findings.push_back({Verdict::kGood, subject,
                      fmt::format("memory node {}, protocol version {}, secret {}",
                                  static_cast<uint32_t>(node->peer().node), kProtocolVersion,
                                  credentials.secret.empty() ? "not used" : "agreed"),
                      ""});
  std::string bytes;
  NodeStatisticsReply statistics;
  Status status =
      node->rpc().Call(Method::kNodeStatistics, Slice(), &bytes, Deadline::In(kReadTimeout));
  if (status.ok()) status = statistics.Decode(bytes);
  if (!status.ok()) {
    findings.push_back({Verdict::kBad, subject, status.message().ToString(), ""});
    return findings;
  }
  const bool full = statistics.used_bytes >= statistics.capacity_bytes / 10 * 9;
  findings.push_back({full ? Verdict::kNote : Verdict::kGood, subject,
                      fmt::format("{} of {} used, {} databases", FormatBytes(statistics.used_bytes),
                                  FormatBytes(statistics.capacity_bytes), statistics.databases),
                      full ? "delete data, or start Server with more memory" : ""});
  return findings;
}

Finding CheckFabric(const NodeAddress& address, const Credentials& credentials,
                    const FabricOptions& fabric, bool required) {
  const std::string subject = fmt::format("fabric {}", FabricKindName(fabric.kind));
  std::unique_ptr<NodeConnection> node;
  Status status = Connect(address, credentials, fabric, &node);
  Channel channel;
  if (status.ok()) status = Prepare(*node, &channel);
  // A client of the access list may read where its databases are, and nobody knows of a place that
  // is sure to be one: the memory node would take the read for an attack.
  const bool may_measure = credentials.access_name.empty();
  Speed speed;
  if (status.ok() && may_measure) status = Measure(*node, channel, &speed);
  if (!status.ok()) {
    return {required ? Verdict::kBad : Verdict::kNote, subject, status.message().ToString(), ""};
  }
  if (!may_measure) {
    return {Verdict::kGood, subject,
            "connected; not measured: this client may read its own databases only", ""};
  }
  return {Verdict::kGood, subject,
          fmt::format("512 bytes in {:.1f} us, 1 MB at {:.2f} GB/s (medians of reads)",
                      speed.small_micros, speed.large_bytes_per_second / 1e9),
          ""};
}

}  // namespace dlsm::tool
