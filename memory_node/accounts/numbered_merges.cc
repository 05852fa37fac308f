#include "memory_node/accounts/numbered_merges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace dlsm {

Status NumberedMerges::Begin(uint64_t number) {
  if (number == 0) return Status::OK();
  if (!IsAwaited(number) || begun_.contains(number)) {
    return Status::Aborted(
        fmt::format("merge {} of this session has begun already, or its client has told that it "
                    "does not wait for it; ask with a new number",
                    number));
  }
  if (begun_.size() >= MergeAnswers::kNumbersMax) {
    return Status::Busy(
        fmt::format("{} merges of this session have been begun whose answers its client has not "
                    "told to be there; send a heartbeat first",
                    begun_.size()));
  }
  begun_.emplace(number, ByteRanges());
  return Status::OK();
}

void NumberedMerges::Kept(uint64_t number, const ByteRanges& outputs) {
  if (number == 0) return;
  const auto begun = begun_.find(number);
  assert(begun != begun_.end());
  assert(begun->second.empty());
  begun->second = outputs;
}

void NumberedMerges::Freed(const ByteRanges& ranges) {
  for (auto& [number, outputs] : begun_) {
    const bool heard_of =
        std::any_of(outputs.ranges().begin(), outputs.ranges().end(), [&ranges](const auto& each) {
          return ranges.Overlaps({each.first, each.second});
        });
    if (heard_of) outputs = ByteRanges();
  }
}

// What this message or any before it has settled is settled, whatever order they come in. No more
// are awaited than one of the messages has told: the list has either those of the message, or, if
// that is the older one, some of those that it had.
ByteRanges NumberedMerges::Settle(const MergeAnswers& answers) {
  std::vector<uint64_t> awaited;
  for (const uint64_t number : answers.awaited) {
    if (IsAwaited(number)) awaited.push_back(number);
  }
  for (const uint64_t number : awaited_) {
    if (number >= answers.next) awaited.push_back(number);
  }
  awaited_ = std::move(awaited);
  next_ = std::max(next_, answers.next);
  assert(awaited_.size() <= MergeAnswers::kNumbersMax);
  assert(std::is_sorted(awaited_.begin(), awaited_.end()));
  ByteRanges lost;
  std::erase_if(begun_, [&](const auto& each) {
    if (IsAwaited(each.first)) return false;
    if (answers.IsLost(each.first)) lost.Add(each.second);
    return true;
  });
  return lost;
}

bool NumberedMerges::IsAwaited(uint64_t number) const {
  return number == 0 || number >= next_ ||
         std::binary_search(awaited_.begin(), awaited_.end(), number);
}

ByteRanges NumberedMerges::outputs() const {
  ByteRanges all;
  for (const auto& [number, outputs] : begun_) all.Add(outputs);
  return all;
}

}  // namespace dlsm
