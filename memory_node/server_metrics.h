// What a Server tells Prometheus. Part of the Server program, not of the library.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <new>
#include <vector>

#include "memory_node/memory_node.h"
#include "memory_node/node_server.h"
#include "util/metrics/metric_families.h"

namespace dlsm {

class ServerMetrics final : public prometheus::Collectable {
 public:
  // `server` outlives this.
  explicit ServerMetrics(const NodeServer* server) : server_(server), node_(&server->node()) {}

  // Returns none where there is no memory for them: Prometheus asks again at its next scrape.
  std::vector<prometheus::MetricFamily> Collect() const override try {
    MetricFamilies told;
    AddNode(&told);
    AddNetwork(&told);
    AddStore(&told);
    AddCalls(&told);
    return told.Take();
  } catch (const std::bad_alloc&) {
    return {};
  }

 private:
  static double Number(uint64_t number) { return static_cast<double>(number); }
  static double Seconds(uint64_t micros) { return static_cast<double>(micros) * 1e-6; }

  void AddNode(MetricFamilies* told) const {
    const NodeStatisticsReply now = node_->Statistics();
    told->Gauge("dlsm_capacity_bytes", "Memory of this node", Number(now.capacity_bytes));
    told->Gauge("dlsm_used_bytes", "Memory that databases own", Number(now.used_bytes));
    told->Gauge("dlsm_largest_free_bytes", "The largest free piece of memory",
                Number(now.largest_free_bytes));
    told->Gauge("dlsm_free_extents", "Pieces that the free memory is divided into",
                Number(node_->free_extents()));
    told->Gauge("dlsm_databases", "Databases on this node", Number(now.databases));
    told->Gauge("dlsm_sessions", "Databases that are open", Number(now.sessions));
    told->Gauge("dlsm_merges_running", "Merges under way", Number(now.merges_running));
    told->Gauge("dlsm_merges_queued", "Merges that have not begun", Number(now.merges_queued));
    told->Gauge("dlsm_merge_waiting_bytes",
                "Input of the merges that are queued, and what is left of those under way",
                Number(now.merge_bytes_waiting));
    told->Gauge("dlsm_merge_bytes_per_second", "How fast one merge runs, of late; 0: not known",
                Number(now.merge_bytes_per_second));
    told->Counter("dlsm_merges_total", "Merges that have ended", Number(now.merges_done));
    told->Counter("dlsm_merge_read_bytes_total", "Bytes read by merges",
                  Number(now.merge_bytes_read));
    told->Counter("dlsm_merge_written_bytes_total", "Bytes written by merges",
                  Number(now.merge_bytes_written));
    told->Counter("dlsm_merge_seconds_total", "Time spent in merges", Seconds(now.merge_micros));
    told->Counter("dlsm_peer_read_bytes_total",
                  "Bytes that merges have read from other memory nodes",
                  Number(now.peer_bytes_read));
    told->Counter("dlsm_merge_pauses_total", "Merges paused for others or the budget",
                  Number(now.merge_pauses));
    told->Counter("dlsm_merge_paused_seconds_total", "Time that merges were paused",
                  Seconds(now.merge_paused_micros));
    told->Gauge("dlsm_peak_memory_bytes", "The most memory that this process has had",
                Number(now.peak_rss_bytes));
    told->Counter("dlsm_cpu_seconds_total", "CPU time of this process", Seconds(now.cpu_micros));
    const AccessRevoker::Statistics access = node_->revocations();
    told->Counter("dlsm_revocations_total", "Clients whose access was taken away",
                  Number(access.revocations));
    told->Counter("dlsm_revocation_failures_total",
                  "Attempts to take a client's access away that were not confirmed",
                  Number(access.failures));
    told->Gauge(
        "dlsm_quarantined_bytes",
        "Memory that is not used because the access of its former client was not taken away",
        Number(node_->quarantined_bytes()));
    told->Counter("dlsm_take_overs_total",
                  "Databases that were taken over from whoever had them open",
                  Number(node_->take_overs()));
    const DatabaseTable::RefusedGrants refused = node_->refused_grants();
    told->Counter("dlsm_quota_refusals_total",
                  "Requests for memory that were refused because of a database's quota",
                  Number(refused.over_quota));
    told->Counter("dlsm_full_refusals_total",
                  "Requests for memory that were refused because there was none",
                  Number(refused.full));
  }

  void AddNetwork(MetricFamilies* told) const {
    const ConnectionCounts connections = server_->Connections();
    told->Gauge("dlsm_connections", "Connections that are open", Number(connections.control),
                {{"kind", "control"}});
    told->Gauge("dlsm_connections", "Connections that are open", Number(server_->DataConnections()),
                {{"kind", "data"}});
    told->Counter("dlsm_connections_refused_total",
                  "Connections that were refused, or ended before they had proved themselves",
                  Number(connections.refused));
    told->Counter("dlsm_connections_evicted_total",
                  "Connections that were closed for others before they had proved themselves",
                  Number(connections.evicted));
    const TcpTraffic traffic = server_->DataTraffic();
    told->Counter(
        "dlsm_tcp_received_bytes_total",
        "Bytes of one-sided requests over tcp; none where memory is mapped or RDMA is used",
        Number(traffic.received));
    told->Counter("dlsm_tcp_sent_bytes_total",
                  "Bytes of the answers to one-sided requests over tcp", Number(traffic.sent));
    const VerbsEventCounts events = server_->DeviceEvents();
    told->Counter("dlsm_rdma_device_failures_total", "Failures of the RDMA device",
                  Number(events.device_failures));
    told->Counter("dlsm_rdma_queue_pair_failures_total",
                  "Queue pairs that the RDMA device reported as failed",
                  Number(events.queue_pair_failures));
    told->Counter("dlsm_rdma_port_downs_total", "Times the RDMA port went down",
                  Number(events.port_downs));
    told->Counter("dlsm_rdma_address_changes_total", "Changes of the RDMA port's addresses",
                  Number(events.address_changes));
    const WaitCounts waits = server_->DataWaits();
    told->Counter("dlsm_tcp_waits_polled_total",
                  "Waits for one-sided requests over tcp that polling has answered",
                  Number(waits.polled));
    told->Counter("dlsm_tcp_waits_slept_total",
                  "Waits for one-sided requests over tcp that went to sleep", Number(waits.slept));
    told->Counter("dlsm_tcp_connections_handed_over_total",
                  "Data connections over tcp that a busy thread has handed to an idle one",
                  Number(server_->DataConnectionsHandedOver()));
  }

  void AddStore(MetricFamilies* told) const {
    const StoreKeeper* const store = node_->store();
    if (store == nullptr) return;
    const StoreKeeper::Counts counts = store->counts();
    told->Counter("dlsm_store_commits_total", "Transactions that changed the accounts",
                  Number(counts.commits));
    told->Counter("dlsm_store_persisted_commits_total",
                  "Those that were synchronised, with the region's file before them",
                  Number(counts.persisted_commits));
    told->Counter("dlsm_store_persist_calls_total",
                  "Calls of logs that asked for bytes to be synchronised",
                  Number(counts.persist_calls));
    told->Counter("dlsm_store_persist_groups_total",
                  "Groups of such calls that were synchronised together",
                  Number(counts.persist_groups));
    told->Gauge("dlsm_store_failing", "1: the disk is full, or has failed, and changes are refused",
                Number(store->Check().ok() ? 0 : 1));
  }

  void AddCalls(MetricFamilies* told) const {
    for (size_t number = 1; number < kMethodCount; ++number) {
      const auto method = static_cast<Method>(number);
      const MetricFamilies::Labels labels = {{"method", MethodName(method)}};
      told->Counter("dlsm_rpc_calls_total", "Calls by method", Number(node_->calls(method)),
                    labels);
      told->Counter("dlsm_rpc_request_bytes_total", "Bytes of requests by method",
                    Number(node_->request_bytes(method)), labels);
    }
  }

  const NodeServer* const server_;
  const MemoryNode* const node_;
};

}  // namespace dlsm
