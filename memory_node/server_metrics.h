// What a Server tells Prometheus. Part of the Server program, not of the library.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/memory_node.h"
#include "memory_node/node_server.h"

namespace dlsm {

class ServerMetrics final : public prometheus::Collectable {
 public:
  // `server` outlives this.
  explicit ServerMetrics(const NodeServer* server) : server_(server), node_(&server->node()) {}

  // None where there is no memory for them: whoever asks asks again.
  std::vector<prometheus::MetricFamily> Collect() const override try {
    const NodeStatisticsReply now = node_->Statistics();
    std::vector<prometheus::MetricFamily> families;
    const auto add = [&](prometheus::MetricType type, const char* name, const char* help,
                         uint64_t value) {
      families.push_back({name, help, type, {Sample(type, value)}});
    };
    using prometheus::MetricType;
    add(MetricType::Gauge, "dlsm_capacity_bytes", "Memory of this node", now.capacity_bytes);
    add(MetricType::Gauge, "dlsm_used_bytes", "Memory that databases own", now.used_bytes);
    add(MetricType::Gauge, "dlsm_largest_free_bytes", "The largest free piece of memory",
        now.largest_free_bytes);
    add(MetricType::Gauge, "dlsm_databases", "Databases on this node", now.databases);
    add(MetricType::Gauge, "dlsm_sessions", "Databases that are open", now.sessions);
    add(MetricType::Gauge, "dlsm_merges_running", "Merges under way", now.merges_running);
    add(MetricType::Gauge, "dlsm_merges_queued", "Merges that have not begun", now.merges_queued);
    add(MetricType::Gauge, "dlsm_merge_waiting_bytes",
        "Input of the merges that are queued, and what is left of those under way",
        now.merge_bytes_waiting);
    add(MetricType::Gauge, "dlsm_merge_bytes_per_second",
        "How fast one merge runs, of late; 0: not known", now.merge_bytes_per_second);
    add(MetricType::Counter, "dlsm_merges_total", "Merges that have ended", now.merges_done);
    add(MetricType::Counter, "dlsm_merge_read_bytes_total", "Bytes read by merges",
        now.merge_bytes_read);
    add(MetricType::Counter, "dlsm_merge_written_bytes_total", "Bytes written by merges",
        now.merge_bytes_written);
    add(MetricType::Counter, "dlsm_merge_microseconds_total", "Time spent in merges",
        now.merge_micros);
    add(MetricType::Counter, "dlsm_peer_read_bytes_total",
        "Bytes that merges have read from other memory nodes", now.peer_bytes_read);
    add(MetricType::Counter, "dlsm_merge_pauses_total", "Merges paused for others or the budget",
        now.merge_pauses);
    add(MetricType::Counter, "dlsm_merge_paused_microseconds_total", "Time that merges were paused",
        now.merge_paused_micros);
    add(MetricType::Counter, "dlsm_cpu_microseconds_total", "CPU time of this process",
        now.cpu_micros);
    const AccessRevoker::Statistics access = node_->revocations();
    add(MetricType::Counter, "dlsm_revocations_total", "Clients whose access was taken away",
        access.revocations);
    add(MetricType::Counter, "dlsm_revocation_failures_total",
        "Attempts to take a client's access away that were not confirmed", access.failures);
    add(MetricType::Gauge, "dlsm_quarantined_bytes",
        "Memory that is not used because the access of its former client was not taken away",
        node_->quarantined_bytes());
    add(MetricType::Counter, "dlsm_take_overs_total",
        "Databases that were taken over from whoever had them open", node_->take_overs());
    const DatabaseTable::RefusedGrants refused = node_->refused_grants();
    add(MetricType::Counter, "dlsm_quota_refusals_total",
        "Requests for memory that were refused because of a database's quota", refused.over_quota);
    add(MetricType::Counter, "dlsm_full_refusals_total",
        "Requests for memory that were refused because there was none", refused.full);
    const ConnectionCounts connections = server_->Connections();
    add(MetricType::Counter, "dlsm_connections_refused_total",
        "Connections that were refused, or ended before they had proved themselves",
        connections.refused);
    add(MetricType::Counter, "dlsm_connections_evicted_total",
        "Connections that were closed for others before they had proved themselves",
        connections.evicted);
    const VerbsEventCounts events = server_->DeviceEvents();
    add(MetricType::Counter, "dlsm_rdma_device_failures_total", "Failures of the RDMA device",
        events.device_failures);
    add(MetricType::Counter, "dlsm_rdma_queue_pair_failures_total",
        "Queue pairs that the RDMA device reported as failed", events.queue_pair_failures);
    add(MetricType::Counter, "dlsm_rdma_port_downs_total", "Times the RDMA port went down",
        events.port_downs);
    add(MetricType::Counter, "dlsm_rdma_address_changes_total",
        "Changes of the RDMA port's addresses", events.address_changes);
    const WaitCounts waits = server_->DataWaits();
    add(MetricType::Counter, "dlsm_tcp_waits_polled_total",
        "Waits for one-sided requests over tcp that polling has answered", waits.polled);
    add(MetricType::Counter, "dlsm_tcp_waits_slept_total",
        "Waits for one-sided requests over tcp that went to sleep", waits.slept);
    add(MetricType::Counter, "dlsm_tcp_connections_handed_over_total",
        "Data connections over tcp that a busy thread has handed to an idle one",
        server_->DataConnectionsHandedOver());
    if (const StoreKeeper* const store = node_->store(); store != nullptr) {
      const StoreKeeper::Counts counts = store->counts();
      add(MetricType::Counter, "dlsm_store_commits_total", "Transactions that changed the accounts",
          counts.commits);
      add(MetricType::Counter, "dlsm_store_persisted_commits_total",
          "Those that were synchronised, with the region's file before them",
          counts.persisted_commits);
      add(MetricType::Counter, "dlsm_store_persist_calls_total",
          "Calls of logs that asked for bytes to be synchronised", counts.persist_calls);
      add(MetricType::Counter, "dlsm_store_persist_groups_total",
          "Groups of such calls that were synchronised together", counts.persist_groups);
      add(MetricType::Gauge, "dlsm_store_failing",
          "1: the disk is full, or has failed, and changes are refused",
          store->Check().ok() ? 0 : 1);
    }
    families.push_back(Calls());
    return families;
  } catch (const std::bad_alloc&) {
    return {};
  }

 private:
  static prometheus::ClientMetric Sample(prometheus::MetricType type, uint64_t value) {
    prometheus::ClientMetric sample;
    if (type == prometheus::MetricType::Counter) {
      sample.counter.value = static_cast<double>(value);
    } else {
      sample.gauge.value = static_cast<double>(value);
    }
    return sample;
  }

  prometheus::MetricFamily Calls() const {
    prometheus::MetricFamily family{
        "dlsm_rpc_calls_total", "Calls by method", prometheus::MetricType::Counter, {}};
    for (size_t number = 1; number < kMethodCount; ++number) {
      const auto method = static_cast<Method>(number);
      prometheus::ClientMetric sample =
          Sample(prometheus::MetricType::Counter, node_->calls(method));
      sample.label = {{"method", MethodName(method)}};
      family.metric.push_back(std::move(sample));
    }
    return family;
  }

  const NodeServer* const server_;
  const MemoryNode* const node_;
};

}  // namespace dlsm
