// HSCAN, SSCAN and ZSCAN: the elements of a collection, some at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "db/serve/collection.h"
#include "db/serve/command.h"

namespace dlsm::serve {

struct ElementScan {
  uint64_t cursor = 0;
  std::optional<Slice> pattern;  // Of the element's name.
  int64_t count = 10;
};
// The arguments behind the key. Returns false if the answer is an error.
bool ParseElementScan(const Call& call, ElementScan* scan);

// Answers with the next elements whose places begin with `prefix`: for each that matches, what
// `tell` makes of its place, without the prefix, and its value.
void AnswerElementScan(
    const Call& call, const ElementScan& scan, const Collection& collection, const Slice& prefix,
    const std::function<std::vector<std::string>(const Slice& name, const Slice& value)>& tell);

}  // namespace dlsm::serve
