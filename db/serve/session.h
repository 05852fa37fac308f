// What the server knows of a client's connection, besides its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/serve/user_permissions.h"
#include "db/serve/watches.h"

namespace dlsm::serve {

// Of one event loop.
struct Session {
  uint64_t id = 0;
  std::string peer;   // Address and port.
  std::string local;  // Likewise, the server's.
  std::string name;
  std::string library_name;
  std::string library_version;
  std::string last_command;
  int64_t connected_at = 0;  // Milliseconds since 1970.
  int64_t active_at = 0;
  int database = 0;
  int protocol = 2;
  bool authenticated = true;
  std::shared_ptr<const UserPermissions> user;  // Set by ResetSession().
  std::string Describe(int64_t now) const;      // As CLIENT LIST has it.

  bool closes = false;  // When what has been written to it is sent.

  // MULTI: requests wait for EXEC.
  bool queues = false;
  bool queue_failed = false;
  std::vector<std::vector<std::string>> queued;
  std::shared_ptr<Watch> watch;  // Is null if nothing is watched.
};

}  // namespace dlsm::serve
