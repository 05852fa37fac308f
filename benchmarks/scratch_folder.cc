#include "benchmarks/scratch_folder.h"

#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "port/error_text.h"

namespace dlsm::bench {
namespace {

void Remove(const std::string& path) {
  std::error_code ignored;  // Nobody is left to be told, and what is left is visible.
  std::filesystem::remove_all(path, ignored);
}

sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
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
  path_ = path;
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([path, signals] {
    int signal = 0;
    sigwait(&signals, &signal);
    Remove(path);
    _exit(128 + signal);
  }).detach();
  return Status::OK();
}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) Remove(path_);
}

}  // namespace dlsm::bench
