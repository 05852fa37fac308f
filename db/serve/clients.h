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

  // A new client.
  void Add(uint64_t id, Known known) {
    const port::MutexLock lock(mutex_);
    clients_[id] = std::move(known);
  }
  // Has no effect on a client that was cut off.
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
  // from the system; they are not listed any more at once.
  int64_t Kill(const std::function<bool(uint64_t id, const Known& known)>& which) {
    const port::MutexLock lock(mutex_);
    return static_cast<int64_t>(std::erase_if(clients_, [&which](const auto& client) {
      if (!which(client.first, client.second)) return false;
      shutdown(client.second.socket, SHUT_RDWR);
      return true;
    }));
  }

 private:
  mutable port::Mutex mutex_;
  std::map<uint64_t, Known> clients_ GUARDED_BY(mutex_);
};

}  // namespace dlsm::serve
