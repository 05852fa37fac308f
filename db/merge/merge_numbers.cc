#include "db/merge/merge_numbers.h"

#include <cassert>
#include <string>
#include <utility>

#include "util/status_macros.h"

namespace dlsm {
namespace {

Status GivenUp() { return Status::Aborted("this merge was given up: its handle is being closed"); }

}  // namespace

Status MergeNumbers::Awaited::Begin(MergeNumber* number) {
  assert(number_ == 0);
  DLSM_RETURN_IF_ERROR(numbers_->Next(&number_));
  number->own = number_;
  number->answers = numbers_->Answers();  // This one is among those that are awaited.
  return Status::OK();
}

Status MergeNumbers::Awaited::Arrived() {
  assert(number_ != 0);
  const bool awaited = numbers_->Settle(std::exchange(number_, 0), /*arrived=*/true);
  return awaited ? Status::OK() : GivenUp();
}

Status MergeNumbers::Next(uint64_t* number) {
  port::MutexLock lock(mutex_);
  if (given_up_) return GivenUp();
  if (awaited_.size() + lost_.size() >= MergeAnswers::kNumbersMax) {
    // They have failed one after the other. What is Busy passes by itself, and may be done
    // elsewhere.
    if (lost_.size() > awaited_.size()) {
      return Status::IOError("the memory node has answered no heartbeat since " +
                                 std::to_string(lost_.size()) + " merges there failed",
                             "is it overloaded, or its network down?");
    }
    return Status::Busy("too many merges are under way at the memory node, or have had no answer",
                        "more begin once it has answered some, or a heartbeat");
  }
  awaited_.insert(next_);
  *number = next_++;
  return Status::OK();
}

bool MergeNumbers::Settle(uint64_t number, bool arrived) {
  port::MutexLock lock(mutex_);
  auto settled = awaited_.extract(number);
  if (settled.empty()) return false;
  if (!arrived) lost_.insert(std::move(settled));
  return true;
}

void MergeNumbers::GiveUp() {
  port::MutexLock lock(mutex_);
  given_up_ = true;
  lost_.merge(awaited_);
}

MergeAnswers MergeNumbers::Answers() const {
  port::MutexLock lock(mutex_);
  MergeAnswers answers;
  answers.next = next_;
  answers.awaited.assign(awaited_.begin(), awaited_.end());
  answers.lost.assign(lost_.begin(), lost_.end());
  return answers;
}

void MergeNumbers::Told(const MergeAnswers& answers) {
  port::MutexLock lock(mutex_);
  for (const uint64_t number : answers.lost) lost_.erase(number);
}

}  // namespace dlsm
