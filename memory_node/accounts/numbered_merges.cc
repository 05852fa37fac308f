#include "memory_node/accounts/numbered_merges.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "port/allocation_point.h"

namespace dlsm {
namespace {

bool MayBeAwaited(uint64_t number, const std::vector<uint64_t>& awaited, uint64_t next) {
  return number == 0 || number >= next ||
         std::binary_search(awaited.begin(), awaited.end(), number);
}

}  // namespace

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

void NumberedMerges::Kept(uint64_t number, ByteRanges&& outputs) noexcept {
  if (number == 0) return;
  const auto begun = begun_.find(number);
  assert(begun != begun_.end());
  assert(begun->second.empty());
  begun->second = std::move(outputs);
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
NumberedMerges::Settlement NumberedMerges::SettlementOf(const MergeAnswers& answers) const {
  port::AllocationPoint("merge answers");
  Settlement settlement;
  std::vector<uint64_t>& awaited = settlement.awaited;
  for (const uint64_t number : answers.awaited) {
    if (IsAwaited(number)) awaited.push_back(number);
  }
  for (const uint64_t number : awaited_) {
    if (number >= answers.next) awaited.push_back(number);
  }
  settlement.next = std::max(next_, answers.next);
  assert(awaited.size() <= MergeAnswers::kNumbersMax);
  assert(std::is_sorted(awaited.begin(), awaited.end()));
  for (const auto& [number, outputs] : begun_) {
    if (MayBeAwaited(number, awaited, settlement.next) || !answers.IsLost(number)) continue;
    settlement.lost.Add(outputs);
  }
  return settlement;
}

void NumberedMerges::Settle(Settlement settlement) noexcept {
  awaited_ = std::move(settlement.awaited);
  next_ = settlement.next;
  std::erase_if(begun_, [this](const auto& each) { return !IsAwaited(each.first); });
}

bool NumberedMerges::IsAwaited(uint64_t number) const {
  return MayBeAwaited(number, awaited_, next_);
}

ByteRanges NumberedMerges::outputs() const {
  ByteRanges all;
  for (const auto& [number, outputs] : begun_) all.Add(outputs);
  return all;
}

}  // namespace dlsm
