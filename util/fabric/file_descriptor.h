// An open file or socket, closed when destroyed.
#pragma once

#include <unistd.h>

#include <utility>

namespace dlsm {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // It is the caller's from now on.
  int Release() { return std::exchange(number_, -1); }
  void Close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace dlsm
