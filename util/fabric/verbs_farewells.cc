#include "util/fabric/verbs_farewells.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace dlsm {

bool LifeLineEnded(int life_line) {
  char byte;
  const ssize_t got = ::recv(life_line, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void VerbsFarewells::Add(FileDescriptor life_line) {
  const port::MutexLock lock(mutex_);
  life_lines_.push_back(std::move(life_line));
  CountLocked();
}

void VerbsFarewells::Break() {
  const port::MutexLock lock(mutex_);
  broken_ = true;
  CountLocked();
}

bool VerbsFarewells::broken() const {
  const port::MutexLock lock(mutex_);
  return broken_;
}

void VerbsFarewells::CountLocked() const {
  count_.store(life_lines_.size() + (broken_ ? 1 : 0), std::memory_order_relaxed);
}

bool VerbsFarewells::AnyOpen() const {
  const port::MutexLock lock(mutex_);
  std::erase_if(life_lines_, [](const FileDescriptor& each) { return LifeLineEnded(each.get()); });
  CountLocked();
  return broken_ || !life_lines_.empty();
}

}  // namespace dlsm
