// A file descriptor that the library has opened, whatever it is of.
//
// Everything that opens one hands it to a FileDescriptor at once, which keeps two promises
// (script/check-descriptors finds what does not):
//
//   1. No number below 3. A process that was started with its standard output closed would
//      otherwise write into the file or connection that gets the number 1.
//   2. None in children. fork() copies descriptors: what a child writes, its parent's peer
//   receives;
//      and a connection that its parent closes, or a lock of a file, stays as long as the child.
//      So a child closes them when it begins.
#pragma once

#include <string_view>
#include <utility>

#include "dLSM/status.h"
#include "port/process_mark.h"

namespace dlsm {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  // Owns `opened`, which a call has just returned: if that has failed (-1), this is not valid, and
  // errno is that call's. It gets another number if it is below 3; if there is none for it, it is
  // closed, and errno is EMFILE.
  explicit FileDescriptor(int opened) noexcept;
  FileDescriptor(FileDescriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)), opened_by_(other.opened_by_) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
      opened_by_ = other.opened_by_;
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // It is the caller's from now on, and its children's.
  int Release() noexcept;
  void Close() noexcept;
  // Of a socket: ends both directions, so that a thread that waits on it wakes up and finds its
  // end.
  void Shutdown() const noexcept;

 private:
  int number_ = -1;
  port::ProcessMark opened_by_;
};

// Whether `error`, of a call that opens one, says that there are as many as there may be.
bool IsOutOfDescriptors(int error);
// What to tell of a call that has failed with `error` to open one: an IOError. `what` it was to be,
// "a connection".
Status CannotOpen(std::string_view what, int error);

// Makes sure that the numbers 0 to 2 are in use. main() calls it before anything is opened, and
// what opens descriptors by code that keeps their numbers to itself does. Whoever reads or writes
// those that were closed gets the same error as before.
void OccupyStandardDescriptors();

}  // namespace dlsm
