// Has commands run by the executor, over a database in this process's memory, and by a model, and
// compares the replies. The commands come from bytes: any bytes are some commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/status.h"
#include "db/serve/command_model_testing.h"
#include "db/serve/server_state.h"
#include "db/serve/session.h"
#include "db/serve/store.h"

namespace dlsm::serve {

// One thread.
class CommandDriver {
 public:
  static Status Open(std::unique_ptr<CommandDriver>* driver);
  // Returns what is wrong with the first reply that is not the model's, with the commands before
  // it; or "".
  std::string Run(const uint8_t* data, size_t bytes);
  // How many commands have been compared so far.
  uint64_t commands() const { return commands_; }

 private:
  using Words = std::vector<std::string>;

  explicit CommandDriver(std::unique_ptr<DB> db);

  // Both begin with no keys.
  void Begin();
  // Runs what waits in one round. The replies go to replies_.
  void RunRound();
  std::string Compare();
  std::string CompareAllKeys();
  void FlushAndCollect();

  Store store_;
  ServerState server_;
  Session session_;
  CommandModel model_;
  int64_t now_ = 0;
  std::vector<Words> waiting_;
  std::vector<std::string> replies_;
  std::vector<std::string> log_;  // For people.
  uint64_t commands_ = 0;
};

}  // namespace dlsm::serve
