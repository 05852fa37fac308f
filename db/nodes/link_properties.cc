#include "db/nodes/link_properties.h"

#include <fmt/core.h>

#include <chrono>
#include <optional>

#include "db/nodes/memory_node_link.h"
#include "util/fabric/fabric.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status AskForStatistics(MemoryNodeLink& link, NodeStatisticsReply* reply) {
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(link.rpc().Call(Method::kNodeStatistics, Slice(), &reply_bytes,
                                       Deadline::In(std::chrono::seconds(5))));
  return reply->Decode(reply_bytes);
}

std::string NodeStatistics(MemoryNodeLink& link) {
  NodeStatisticsReply reply;
  const Status asked = AskForStatistics(link, &reply);
  if (!asked.ok()) return asked.ToString();
  return fmt::format(
      "capacity {}\nused {}\nlargest-free {}\ndatabases {}\nsessions {}\nmerges-done {}\n"
      "merge-bytes-read {}\nmerge-bytes-written {}\nmerges-running {}\nmerges-queued {}\n"
      "merge-bytes-waiting {}\nmerge-bytes-per-second {}\n",
      reply.capacity_bytes, reply.used_bytes, reply.largest_free_bytes, reply.databases,
      reply.sessions, reply.merges_done, reply.merge_bytes_read, reply.merge_bytes_written,
      reply.merges_running, reply.merges_queued, reply.merge_bytes_waiting,
      reply.merge_bytes_per_second);
}

std::string Fabrics(const Links& links) {
  std::string text;
  for (MemoryNodeLink* link : links) {
    const std::string described = link->fabric().Describe();
    if (text.find(described) != std::string::npos) continue;
    text += (text.empty() ? "" : "; ") + described;
  }
  return text;
}

std::string Wire(const Links& links) {
  WireTotals totals{};
  for (MemoryNodeLink* link : links) {
    const WireTotals of_link = link->fabric().Totals();
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += of_link[i];
    WireCounts& calls = totals[static_cast<size_t>(Purpose::kRpc)];
    for (const CallCounts& counts : link->rpc().Totals()) {
      calls += {.round_trips = counts.calls,
                .work_requests = counts.calls,
                .doorbells = counts.calls,
                .read_bytes = counts.reply_bytes,
                .write_bytes = counts.request_bytes};
    }
  }
  std::string text;
  for (size_t i = 0; i < totals.size(); ++i) {
    const WireCounts& counts = totals[i];
    text +=
        fmt::format("{} {} {} {} {} {}\n", PurposeName(static_cast<Purpose>(i)), counts.round_trips,
                    counts.work_requests, counts.doorbells, counts.read_bytes, counts.write_bytes);
  }
  return text;
}

std::string Waits(const Links& links) {
  WaitCounts sum;
  for (MemoryNodeLink* link : links) sum += link->fabric().Waits();
  return fmt::format("polled {}\nslept {}\nshared {}\n", sum.polled, sum.slept, sum.shared);
}

std::string Calls(const Links& links) {
  CallTotals totals{};
  for (MemoryNodeLink* link : links) {
    const CallTotals of_link = link->rpc().Totals();
    for (size_t i = 0; i < totals.size(); ++i) {
      totals[i].calls += of_link[i].calls;
      totals[i].failures += of_link[i].failures;
      totals[i].request_bytes += of_link[i].request_bytes;
      totals[i].reply_bytes += of_link[i].reply_bytes;
    }
  }
  std::string text = "method               calls  failures  request bytes    reply bytes\n";
  for (size_t i = 1; i < totals.size(); ++i) {
    const CallCounts& counts = totals[i];
    text += fmt::format("{:16} {:9} {:9} {:14} {:14}\n", MethodName(static_cast<Method>(i)),
                        counts.calls, counts.failures, counts.request_bytes, counts.reply_bytes);
  }
  return text;
}

// An embedded memory node's are this process's own. None if one does not answer: without its share
// the sum would be less than it was before.
std::optional<uint64_t> RemoteCpuMicros(const Links& links) {
  uint64_t micros = 0;
  for (MemoryNodeLink* link : links) {
    if (link->fabric().kind() == FabricKind::kLocal) continue;
    NodeStatisticsReply reply;
    if (!AskForStatistics(*link, &reply).ok()) return std::nullopt;
    micros += reply.cpu_micros;
  }
  return micros;
}

}  // namespace

std::string ForEachNode(const Links& links,
                        const std::function<std::string(MemoryNodeLink&)>& of_node) {
  std::string text;
  for (MemoryNodeLink* link : links) {
    if (links.size() > 1) text += "memory-node " + link->name() + "\n";
    text += of_node(*link);
  }
  return text;
}

bool GetLinkProperty(const Links& links, const std::string& property, std::string* value) {
  if (property == "dlsm.wire") {
    *value = Wire(links);
  } else if (property == "dlsm.waits") {
    *value = Waits(links);
  } else if (property == "dlsm.rpc") {
    *value = Calls(links);
  } else if (property == "dlsm.fabric") {
    *value = Fabrics(links);
  } else if (property == "dlsm.memory-node") {
    *value = ForEachNode(links, NodeStatistics);
  } else if (property == "dlsm.remote-cpu-micros") {
    const std::optional<uint64_t> micros = RemoteCpuMicros(links);
    if (!micros.has_value()) return false;
    *value = std::to_string(*micros);
  } else {
    return false;
  }
  return true;
}

}  // namespace dlsm
