// What all clients of a server have in common, besides the database.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/serve/acl.h"
#include "db/serve/backups.h"
#include "db/serve/clients.h"
#include "db/serve/command_latency.h"
#include "db/serve/latency_monitor.h"
#include "db/serve/response_times.h"
#include "db/serve/slow_log.h"
#include "db/serve/store.h"
#include "port/mutex.h"

namespace dlsm::serve {

// Positions of SCAN, by the numbers that clients have of them.
class ScanCursors {
 public:
  // 0 is the number of the begin and of the end.
  uint64_t Add(std::string position);
  // Empty, the begin, if it is not known any more: then a scan begins anew, and finds everything.
  std::string Take(uint64_t cursor);

 private:
  static constexpr size_t kMost = 10'000;

  port::Mutex mutex_;
  std::map<uint64_t, std::string> positions_ GUARDED_BY(mutex_);
  uint64_t next_ GUARDED_BY(mutex_) = 1;
};

// Settings of Redis that say how it lays out its memory: they are kept and told, and change
// nothing.
class Hints {
 public:
  Hints();
  // Returns false if there is no such setting.
  bool Set(const std::string& name, const std::string& value);
  std::map<std::string, std::string> All() const;

 private:
  mutable port::Mutex mutex_;
  std::map<std::string, std::string> values_ GUARDED_BY(mutex_);
};

// Thread-safe.
struct ServerState {
  Store* store = nullptr;
  std::unique_ptr<Backups> backups;  // Constant while clients are served.
  int port = 0;
  int64_t started_at = 0;  // Milliseconds since 1970.
  std::string run_id;
  Acl acl;
  size_t threads = 1;
  ScanCursors cursors;
  Hints hints;
  SlowLog slow_log;
  CommandLatency command_latency;
  LatencyMonitor latency_monitor;
  Clients clients_by_id;
  std::vector<std::unique_ptr<ResponseTimes>> latencies;  // Of each event loop. Constant.

  std::atomic<uint64_t> connections{0};  // So far.
  std::atomic<uint64_t> clients{0};      // Now.
  std::atomic<uint64_t> rejected{0};
  std::atomic<uint64_t> slow_clients{0};  // Cut off because they did not take their answers.
  std::atomic<uint64_t> idle_clients{0};  // Cut off because they asked for nothing.
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> expired{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
  std::atomic<uint64_t> rounds{0};
};

}  // namespace dlsm::serve
