#include "util/fabric/decorators/fault_injector.h"

#include <cassert>

namespace dlsm {

void FaultInjector::OnlyPurpose(std::optional<Purpose> purpose) {
  port::MutexLock lock(mutex_);
  only_purpose_ = purpose;
}

void FaultInjector::HarmAll(bool all) {
  port::MutexLock lock(mutex_);
  harm_all_ = all;
}

void FaultInjector::FailNth(uint64_t n, FaultKind kind) {
  assert(n > 0);
  port::MutexLock lock(mutex_);
  nth_ = posts_ + n;
  nth_kind_ = kind;
}

void FaultInjector::SetProbability(FaultKind kind, double probability) {
  port::MutexLock lock(mutex_);
  probabilities_[static_cast<size_t>(kind)] = probability;
}

void FaultInjector::SetDelay(std::chrono::nanoseconds delay) {
  port::MutexLock lock(mutex_);
  delay_ = delay;
}

uint64_t FaultInjector::CountPosts() const {
  port::MutexLock lock(mutex_);
  return posts_;
}

uint64_t FaultInjector::CountFaults() const {
  port::MutexLock lock(mutex_);
  return faults_;
}

void FaultInjector::Clear() {
  port::MutexLock lock(mutex_);
  nth_ = 0;
  probabilities_.fill(0);
}

Fault FaultInjector::Decide(Purpose purpose) {
  port::MutexLock lock(mutex_);
  if (only_purpose_.has_value() && *only_purpose_ != purpose) return Fault{};
  return DecideLocked();
}

Fault FaultInjector::Decide(FaultSite site) {
  port::MutexLock lock(mutex_);
  if (!harm_all_ || only_purpose_.has_value()) return Fault{};
  Fault fault = DecideLocked();
  // There are no bytes that could arrive wrong.
  const bool of_bytes = fault.kind == FaultKind::kCorrupt || fault.kind == FaultKind::kMangle;
  if (site != FaultSite::kCall && of_bytes) fault.kind = FaultKind::kNone;
  return fault;
}

Fault FaultInjector::DecideLocked() {
  ++posts_;
  Fault fault;
  fault.kind = posts_ == nth_ ? nth_kind_ : DrawKindLocked();
  if (fault.kind == FaultKind::kNone) return fault;
  ++faults_;
  fault.delay = delay_;
  fault.draw = random_.Next();
  return fault;
}

FaultKind FaultInjector::DrawKindLocked() {
  double draw = random_.NextDouble();
  for (size_t kind = 1; kind < kFaultKindCount; ++kind) {
    if (draw < probabilities_[kind]) return static_cast<FaultKind>(kind);
    draw -= probabilities_[kind];
  }
  return FaultKind::kNone;
}

}  // namespace dlsm
