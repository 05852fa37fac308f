#include "util/rpc/messages/merge_answers.h"

#include <algorithm>
#include <cassert>

#include "util/coding.h"

namespace dlsm {
namespace {

void PutNumbers(std::string* to, const std::vector<uint64_t>& numbers) {
  assert(numbers.size() <= MergeAnswers::kNumbersMax);
  PutFixed32(to, static_cast<uint32_t>(numbers.size()));
  for (const uint64_t number : numbers) PutFixed64(to, number);
}

bool GetNumbers(Slice* from, uint64_t next, std::vector<uint64_t>* numbers) {
  uint32_t count = 0;
  numbers->clear();
  if (!GetFixed32(from, &count) || count > MergeAnswers::kNumbersMax) return false;
  if (count > from->size() / sizeof(uint64_t)) return false;
  uint64_t before = 0;  // Which is no number.
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t number = 0;
    if (!GetFixed64(from, &number) || number <= before || number >= next) return false;
    numbers->push_back(number);
    before = number;
  }
  return true;
}

}  // namespace

bool MergeAnswers::IsLost(uint64_t number) const {
  return std::binary_search(lost.begin(), lost.end(), number);
}

// | next: 8 | awaited: count 4, 8 each | lost: count 4, 8 each |
void MergeAnswers::EncodeTo(std::string* to) const {
  PutFixed64(to, next);
  PutNumbers(to, awaited);
  PutNumbers(to, lost);
}

bool MergeAnswers::DecodeFrom(Slice* from) {
  return GetFixed64(from, &next) && GetNumbers(from, next, &awaited) &&
         GetNumbers(from, next, &lost);
}

// | own: 8 | answers |
void MergeNumber::EncodeTo(std::string* to) const {
  PutFixed64(to, own);
  answers.EncodeTo(to);
}

bool MergeNumber::DecodeFrom(Slice* from) {
  return GetFixed64(from, &own) && answers.DecodeFrom(from);
}

}  // namespace dlsm
