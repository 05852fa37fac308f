#include "util/fabric/verbs/verbs_farewells.h"

#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "port/allocation_point.h"

namespace dlsm {

bool LifeLineEnded(int life_line) {
  char byte;
  const ssize_t got = ::recv(life_line, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void VerbsFarewells::Add(FileDescriptor life_line) {
  const port::MutexLock lock(mutex_);
  MakeRoomLocked(life_lines_.size() + 1);
  life_lines_.push_back(std::move(life_line));
  CountLocked();
}

void VerbsFarewells::Expect() {
  const port::MutexLock lock(mutex_);
  MakeRoomLocked(life_lines_.size() + queue_pairs_ + 1);
  ++queue_pairs_;
}

void VerbsFarewells::Forgo() {
  const port::MutexLock lock(mutex_);
  assert(queue_pairs_ > 0);
  --queue_pairs_;
}

void VerbsFarewells::MakeRoomLocked(size_t count) {
  if (count <= life_lines_.capacity()) return;
  port::AllocationPoint("farewell");
  life_lines_.reserve(std::max(count, 2 * life_lines_.capacity()));
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
