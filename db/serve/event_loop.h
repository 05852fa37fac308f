// One thread that serves many clients: it takes what has come from all of them, does that in rounds
// (round.h), and sends what is to be answered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "db/serve/client.h"
#include "db/serve/executor.h"
#include "db/serve/response_times.h"
#include "db/serve/round.h"
#include "db/serve/server_state.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/tls/tls_context.h"
#include "util/file_descriptor.h"

namespace dlsm::serve {

class EventLoop {
 public:
  struct Limits {
    size_t query_bytes = size_t{1} << 30;   // Of one client, that are no whole request yet.
    size_t output_bytes = size_t{1} << 28;  // Of one client, that it does not take.
    int64_t idle_seconds = 0;               // 0: for ever.
  };

  // `server` and `latencies` outlive this. `tls`: of all clients; null: none.
  EventLoop(ServerState* server, ResponseTimes* latencies, const Limits& limits,
            std::shared_ptr<const TlsContext> tls)
      : server_(*server), latencies_(*latencies), limits_(limits), tls_(std::move(tls)) {}
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop() { Stop(); }

  Status Start();
  // Requests that have been taken are answered first.
  void Stop();
  // Serves a client from now on. By any thread.
  void Add(FileDescriptor socket);

 private:
  // A request of the round under way.
  struct Request {
    Client* client = nullptr;
    std::vector<Slice> arguments;
    const Command* command = nullptr;  // Is null if there is none of that name.
    bool writes = false;
    bool uses_data = false;
    bool refused = false;   // Before the round began.
    bool executed = false;  // It was neither refused nor queued.
    size_t taken_before = 0;
    size_t reply_begin = 0;
    size_t reply_end = 0;
  };

  void Run();
  void TakeNew();
  void Close(Client* client);
  void KeepHouse(int64_t now);
  void CloseIdle(int64_t now);
  // Does all that has come from these clients, as far as they take the answers.
  void Serve(const std::vector<Client*>& clients);
  // One round of them. Returns false if there was nothing to do.
  bool ServeRound(const std::vector<Client*>& clients);
  // Adds requests of the client to the round. Returns false if no other request fits into it.
  bool AddRequests(Client* client, Round* round);
  std::span<Request> requests() { return std::span(requests_).first(request_count_); }
  // Reads the elements ahead that the requests of the round name.
  void ReadElements();
  void Answer(Round* round);
  // The answers of the round's requests are ready.
  void CountLatencies();
  void SendTo(Client* client);
  void Wake() const;

  ServerState& server_;
  ResponseTimes& latencies_;
  const Limits limits_;
  const std::shared_ptr<const TlsContext> tls_;
  FileDescriptor poll_;
  FileDescriptor wakeup_;
  std::atomic<bool> stopping_{false};
  std::unordered_map<int, std::unique_ptr<Client>> clients_;  // By their sockets.
  int64_t house_kept_at_ = 0;
  int64_t told_at_ = 0;
  // Of the round under way. Those behind the first so many are spare: they keep their memory, and
  // so do the next two.
  std::vector<Request> requests_;
  size_t request_count_ = 0;
  Needs needs_;
  std::vector<std::string> reads_;
  std::optional<Round> round_;
  port::Clock::time_point received_at_;  // When those that are served now were received.
  std::vector<char> scratch_;
  port::Mutex mutex_;
  std::vector<FileDescriptor> new_ GUARDED_BY(mutex_);
  port::Thread thread_;
};

// Milliseconds since 1970.
int64_t UnixMilliseconds();

}  // namespace dlsm::serve
