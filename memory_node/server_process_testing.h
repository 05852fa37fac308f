// The Server program as a process of its own, as its users start it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace dlsm {

// Built beside this test.
inline std::string ServerPath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "Server").string();
}

// A Server process. Its standard output and error are read together.
class ServerProcess {
 public:
  // `closed`: descriptors that it is started without.
  explicit ServerProcess(std::vector<std::string> arguments, const std::vector<int>& closed = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    arguments.insert(arguments.begin(), ServerPath());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      for (const int descriptor : closed) close(descriptor);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~ServerProcess() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    fclose(output_);
  }

  // The next line that it prints, without its end; empty when it has ended.
  std::string Line() {
    std::string line;
    for (int c = fgetc(output_); c != EOF && c != '\n'; c = fgetc(output_)) {
      line.push_back(static_cast<char>(c));
    }
    return line;
  }
  // Skips the log.
  std::string LineWith(const std::string& text) {
    std::string line;
    do {
      line = Line();
    } while (!line.empty() && line.find(text) == std::string::npos);
    return line;
  }
  std::string Rest() {
    std::string rest;
    for (int c = fgetc(output_); c != EOF; c = fgetc(output_)) {
      rest.push_back(static_cast<char>(c));
    }
    return rest;
  }
  pid_t id() const { return process_; }
  void Signal(int signal) { kill(process_, signal); }
  // Waits for its end; -1 if it did not exit by itself.
  int ExitCode() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = -1;
  FILE* output_ = nullptr;
};

// Where it listens, by the line with which it is ready.
inline uint16_t PortOf(const std::string& ready) {
  const size_t at = ready.find("127.0.0.1:");
  if (at == std::string::npos) return 0;
  return static_cast<uint16_t>(std::stoi(ready.substr(at + std::strlen("127.0.0.1:"))));
}

}  // namespace dlsm
