#include "util/fabric/mapped/copy_thread.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "port/clock.h"
#include "port/cpu.h"
#include "port/prefetch.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

// It looks for work for so long before it sleeps, because to be woken takes as long.
constexpr std::chrono::microseconds kLooksFor{50};
constexpr int kLooksBetweenClocks = 64;

// The first lines of what is copied next are asked for while something else is copied.
constexpr size_t kPrefetchedBytes = 8 * port::kCacheLineBytes;

void Prefetch(const CopyThread::Copy& copy) {
  port::PrefetchBytes(copy.from, copy.bytes, kPrefetchedBytes);
}

}  // namespace

CopyThread::CopyThread(uint64_t wakes_for_bytes)
    : wakes_for_bytes_(wakes_for_bytes), thread_([this] { Run(); }) {}

CopyThread::~CopyThread() {
  {
    port::MutexLock lock(mutex_);
    ending_ = true;
    work_.Signal();
  }
  thread_.join();
}

bool CopyThread::Submit(std::span<const Copy> copies) {
  size_t bytes = 0;
  for (const Copy& copy : copies) bytes += copy.bytes;
  port::MutexLock lock(mutex_);
  if (asleep_) {
    woken_ = true;
    work_.Signal();
    if (bytes < wakes_for_bytes_) return false;
    asleep_ = false;  // Whoever comes next must not overtake these.
  }
  submitted_.insert(submitted_.end(), copies.begin(), copies.end());
  any_.store(true, std::memory_order_relaxed);
  return true;
}

void CopyThread::Make(std::span<const Copy> copies) {
  constexpr size_t kAhead = 4;
  for (size_t i = 0; i < std::min(kAhead, copies.size()); ++i) Prefetch(copies[i]);
  for (size_t i = 0; i < copies.size(); ++i) {
    if (i + kAhead < copies.size()) Prefetch(copies[i + kAhead]);
    const Copy copy = copies[i];
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    copy.done->store(copy.number, std::memory_order_release);
  }
}

void CopyThread::Run() {
  std::vector<Copy> copies;
  while (Take(&copies)) {
    Make(copies);
    copies.clear();
  }
}

bool CopyThread::Take(std::vector<Copy>* copies) {
  const auto until = Clock::now() + kLooksFor;
  for (int looks = 1; !any_.load(std::memory_order_relaxed); ++looks) {
    if (looks % kLooksBetweenClocks == 0 && Clock::now() > until) break;
    port::CpuRelax();
  }
  port::MutexLock lock(mutex_);
  while (submitted_.empty() && !ending_ && !woken_) {
    asleep_ = true;
    work_.Wait();
    asleep_ = false;
  }
  woken_ = false;
  if (submitted_.empty() && ending_) return false;
  copies->swap(submitted_);
  any_.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace dlsm
