// A process that is started in order to be killed. That a database survives its process tells
// something only if the process was alive, and about its work, when it was killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dLSM/status.h"

namespace dlsm::stress {

struct ProcessToKill {
  std::string program;                 // Its path.
  std::vector<std::string> arguments;  // The first is what it is called.
  std::chrono::milliseconds life{0};   // After so long its end is due.
  // A number that grows while the process does what it should. It is killed when it is seen to grow
  // once its end is due. Null: it is killed at once then, whatever it is about.
  std::function<uint64_t()> progress;
  std::chrono::milliseconds patience{0};  // To wait for that.
  // Called when it may be killed, and before it is: perhaps it is to live on for a while. An error
  // is that of StartAndKill(). May be empty.
  std::function<Status()> before;
};

// Starts it and kills it. Corruption if it ended in any other way, or makes no progress: then it is
// killed, too. It never outlives the calling thread.
Status StartAndKill(const ProcessToKill& process);

}  // namespace dlsm::stress
