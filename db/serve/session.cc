#include "db/serve/session.h"

#include <fmt/core.h>

namespace dlsm::serve {

std::string Session::Describe(int64_t now) const {
  return fmt::format(
      "id={} addr={} laddr={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi={} "
      "cmd={} user={} "
      "resp={} lib-name={} lib-ver={}",
      id, peer, local, name, (now - connected_at) / 1000, (now - active_at) / 1000,
      queues ? "x" : "N", database, queues ? static_cast<int64_t>(queued.size()) : -1, last_command,
      user->name(), protocol, library_name, library_version);
}

}  // namespace dlsm::serve
