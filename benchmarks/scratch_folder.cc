#include "benchmarks/scratch_folder.h"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "port/error_text.h"

namespace dlsm::bench {
namespace {

// A store's threads go on making files until the folder is gone.
void Remove(const std::string& path) {
  constexpr auto kPatience = std::chrono::seconds(10);
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    std::error_code ignored;  // Nobody is left to be told, and what is left is visible.
    std::filesystem::remove_all(path, ignored);
    if (!std::filesystem::exists(path, ignored) || std::chrono::steady_clock::now() > give_up) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Those that would end the process.
sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

Status ScratchFolder::Create() {
  const char* parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string path = fmt::format("{}/db_bench-XXXXXX", parent);
  if (mkdtemp(path.data()) == nullptr) {
    return Status::IOError(fmt::format("cannot make a folder in {}", parent),
                           fmt::format("{}; name one with --db", port::ErrorText(errno)));
  }
  folder_ = path;
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([path, signals, removing = removing_] {
    int signal = 0;
    sigwait(&signals, &signal);
    const port::MutexLock lock(*removing);
    Remove(path);
    _exit(128 + signal);
  }).detach();
  return Status::OK();
}

ScratchFolder::~ScratchFolder() {
  const port::MutexLock lock(*removing_);
  if (!folder_.empty()) Remove(folder_);
}

}  // namespace dlsm::bench
