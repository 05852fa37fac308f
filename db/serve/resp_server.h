// A server of RESP clients: it listens, and shares connections out among its event loops.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/status.h"
#include "db/serve/event_loop.h"
#include "db/serve/server_state.h"
#include "db/serve/store.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/tls/tls_context.h"
#include "util/file_descriptor.h"

namespace dlsm::serve {

struct RespServerOptions {
  std::string bind = "127.0.0.1";  // A numeric address.
  int port = 6379;                 // 0: any free one.
  size_t threads = 1;
  size_t clients_max = 10'000;
  bool sync = false;       // Each write is on disk before it is answered.
  std::string password;    // Of the default user; empty: it needs none.
  std::string backup_dir;  // Of SAVE and BGSAVE; empty: they are refused.
  std::string acl_file;    // Has the users (acl.h); empty: there is only the default one.
  // Start() fails if a client needs no password.
  bool wants_passwords = false;
  EventLoop::Limits limits;
  std::shared_ptr<const TlsContext> tls;  // Clients use plain connections without it.
};

class RespServer {
 public:
  // IOError if it cannot listen there. The server owns the database.
  static Status Start(const RespServerOptions& options, std::unique_ptr<DB> db,
                      std::unique_ptr<RespServer>* server);
  RespServer(const RespServer&) = delete;
  RespServer& operator=(const RespServer&) = delete;
  ~RespServer();

  int port() const { return state_.port; }
  // For metrics.
  const ServerState& state() const { return state_; }
  DB& db() { return store_.db(); }
  // Another password for the default user. Clients that have given the one before stay.
  void SetPassword(const std::string& password) { state_.acl.SetPassword(password); }
  // Takes the users from the file again, as ACL LOAD does: all stays as it is if the file is wrong.
  Status LoadUsers();

  // Answers what has been taken, and closes the database.
  Status Stop();

 private:
  RespServer(const RespServerOptions& options, std::unique_ptr<DB> db)
      : options_(options), store_(std::move(db), options.sync), stop_(mutex_) {}

  Status SetUpUsers();
  Status Listen();
  void Accept();
  void KeepHouse();

  const RespServerOptions options_;
  Store store_;
  ServerState state_;
  FileDescriptor socket_;
  FileDescriptor wakeup_;
  std::atomic<bool> stopping_{false};
  port::Mutex mutex_;
  port::CondVar stop_;  // Signalled when stopping_ has been set.
  std::vector<std::unique_ptr<EventLoop>> loops_;
  port::Thread acceptor_;
  port::Thread housekeeper_;
};

}  // namespace dlsm::serve
