#include "db/serve/serve_metrics.h"

#include <new>

#include "db/serve/command.h"
#include "util/latency_counts.h"
#include "util/metrics/metric_families.h"

namespace dlsm::serve {
namespace {

void AddCounts(const ServerState& server, MetricFamilies* told) {
  const auto counter = [told](const char* name, const char* help, uint64_t count) {
    told->Counter(name, help, static_cast<double>(count));
  };
  counter("dlsm_serve_connections_total", "Clients that have connected", server.connections);
  counter("dlsm_serve_clients_refused_total",
          "Clients that were refused because there were --maxclients", server.rejected);
  counter("dlsm_serve_clients_slow_total",
          "Clients that were cut off because they did not take their answers", server.slow_clients);
  counter("dlsm_serve_clients_idle_total", "Clients that were cut off because of --timeout",
          server.idle_clients);
  counter("dlsm_serve_commands_total", "Requests, refused ones included", server.commands);
  counter("dlsm_serve_errors_total", "Requests that were refused or have failed", server.errors);
  counter("dlsm_serve_slow_commands_total", "Commands that went into SLOWLOG",
          server.slow_log.added());
  counter("dlsm_serve_rounds_total", "Rounds in which event loops did them", server.rounds);
  counter("dlsm_serve_key_hits_total", "Keys that reads found", server.hits);
  counter("dlsm_serve_key_misses_total", "Keys that reads did not find", server.misses);
  counter("dlsm_serve_keys_expired_total", "Keys that had expired and were removed",
          server.expired);
  counter("dlsm_serve_received_bytes_total", "Bytes of requests", server.bytes_in);
  counter("dlsm_serve_sent_bytes_total", "Bytes of answers", server.bytes_out);
  told->Gauge("dlsm_serve_clients", "Clients that are connected",
              static_cast<double>(server.clients));
}

// Of commands that have been called.
void AddLatencies(const ServerState& server, MetricFamilies* told) {
  for (size_t number = 0; number < AllCommands().size(); ++number) {
    LatencySums sums;
    for (const auto& loop : server.latencies) loop->AddTo(number, &sums);
    const HistogramData data = sums.Data();
    if (data.count == 0) continue;
    told->Latencies("dlsm_serve_command_seconds",
                    "How long commands take, from when they were received until their answers were "
                    "ready",
                    data, {{"command", AllCommands()[number]->name}});
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> ServeMetrics::Collect() const try {
  MetricFamilies told;
  AddCounts(*server_, &told);
  AddLatencies(*server_, &told);
  return told.Take();
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace dlsm::serve
