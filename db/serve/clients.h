// All clients of a server, as CLIENT LIST and CLIENT KILL have them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "port/mutex.h"

namespace dlsm::serve {

// Thread-safe. A client's event loop keeps its description up to date, and removes the client
// before it closes the socket.
class Clients {
 public:
  struct Known {
    int socket = -1;
    std::string peer;
    std::string local;
    std::string user;
    std::string text;
  };

  void Put(uint64_t id, Known known) {
    const port::MutexLock lock(mutex_);
    clients_[id] = std::move(known);
  }
  // Of a client that is known, if it is.
  void Update(uint64_t id, const std::string& user, std::string text) {
    const port::MutexLock lock(mutex_);
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    found->second.user = user;
    found->second.text = std::move(text);
  }
  void Remove(uint64_t id) {
    const port::MutexLock lock(mutex_);
    clients_.erase(id);
  }
  // A line for each client that `which` chooses.
  std::string List(const std::function<bool(uint64_t id)>& which) const {
    const port::MutexLock lock(mutex_);
    std::string text;
    for (const auto& [id, known] : clients_) {
      if (which(id)) text += known.text + "\n";
    }
    return text;
  }
  // Cuts off the clients that `which` chooses, and returns how many. Their event loops hear of that
  // from the system.
  int64_t Kill(const std::function<bool(uint64_t id, const Known& known)>& which) const {
    const port::MutexLock lock(mutex_);
    int64_t killed = 0;
    for (const auto& [id, known] : clients_) {
      if (!which(id, known)) continue;
      shutdown(known.socket, SHUT_RDWR);
      ++killed;
    }
    return killed;
  }

 private:
  mutable port::Mutex mutex_;
  std::map<uint64_t, Known> clients_ GUARDED_BY(mutex_);
};

}  // namespace dlsm::serve
