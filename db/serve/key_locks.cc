#include "db/serve/key_locks.h"

#include "util/hash.h"

namespace dlsm::serve {

bool HeldLocks::Take(std::span<const std::string> keys) {
  std::bitset<KeyLocks::kCount> wanted;
  for (const std::string& key : keys) wanted.set(Hash64(key) % KeyLocks::kCount);
  wanted &= ~mine_;
  if (wanted.none()) return true;
  const port::MutexLock lock(locks_.mutex_);
  while (locks_.all_wanted_ > 0 || (locks_.held_ & wanted).any()) {
    if (mine_.any()) return false;
    ++locks_.waiting_;
    locks_.released_.Wait();
    --locks_.waiting_;
  }
  locks_.held_ |= wanted;
  mine_ |= wanted;
  return true;
}

void HeldLocks::TakeAll() {
  const port::MutexLock lock(locks_.mutex_);
  ++locks_.all_wanted_;
  while (locks_.held_.any()) {
    ++locks_.waiting_;
    locks_.released_.Wait();
    --locks_.waiting_;
  }
  --locks_.all_wanted_;
  locks_.held_.set();
  mine_.set();
}

void HeldLocks::Release() {
  if (mine_.none()) return;
  const port::MutexLock lock(locks_.mutex_);
  locks_.held_ &= ~mine_;
  mine_.reset();
  if (locks_.waiting_ > 0) locks_.released_.SignalAll();
}

}  // namespace dlsm::serve
