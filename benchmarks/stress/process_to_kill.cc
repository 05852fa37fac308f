#include "benchmarks/stress/process_to_kill.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "port/error_text.h"

namespace dlsm::stress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr int kExitNotStarted = 127;  // As of a shell.

Status Start(const ProcessToKill& process, pid_t* child) {
  std::vector<char*> raw;
  raw.reserve(process.arguments.size() + 1);
  for (const std::string& argument : process.arguments) {
    raw.push_back(const_cast<char*>(argument.c_str()));
  }
  raw.push_back(nullptr);
  *child = fork();
  if (*child < 0) return Status::IOError("no process can be started", port::ErrorText(errno));
  if (*child > 0) return Status::OK();
  // A parent that fails takes its child along, which would go on without memory nodes.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execv(process.program.c_str(), raw.data());
  _exit(kExitNotStarted);
}

std::string Ending(int exited) {
  return WIFSIGNALED(exited) ? fmt::format("died of signal {}", WTERMSIG(exited))
                             : fmt::format("ended with exit code {}", WEXITSTATUS(exited));
}

// Whether it is still there.
bool Lives(pid_t child, int* exited) { return waitpid(child, exited, WNOHANG) == 0; }

// OK if it may be killed now.
Status AwaitDue(const ProcessToKill& process, pid_t child, bool* gone) {
  const auto due = Clock::now() + process.life;
  const auto give_up = due + process.patience;
  std::optional<uint64_t> when_due;
  while (true) {
    int exited = 0;
    *gone = !Lives(child, &exited);
    if (*gone) {
      return Status::Corruption("the process that was to be killed " + Ending(exited) +
                                " by itself");
    }
    if (Clock::now() >= due) {
      if (!process.progress) return Status::OK();
      const uint64_t progress = process.progress();
      if (!when_due) when_due = progress;
      if (progress > *when_due) return Status::OK();
      if (Clock::now() >= give_up) {
        return Status::Corruption(
            fmt::format("the process that was to be killed has made no progress for {} ms, after "
                        "{} operations",
                        process.patience.count(), progress));
      }
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace

Status StartAndKill(const ProcessToKill& process) {
  pid_t child = 0;
  Status status = Start(process, &child);
  if (!status.ok()) return status;
  bool gone = false;
  status = AwaitDue(process, child, &gone);
  if (gone) return status;
  if (status.ok() && process.before) status = process.before();
  int exited = 0;
  kill(child, SIGKILL);
  waitpid(child, &exited, 0);
  // It may have ended just before.
  const bool killed = WIFSIGNALED(exited) && WTERMSIG(exited) == SIGKILL;
  if (!status.ok() || killed) return status;
  return Status::Corruption("the process that was to be killed " + Ending(exited) + " by itself");
}

}  // namespace dlsm::stress
