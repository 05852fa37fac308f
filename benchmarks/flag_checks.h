// How flags are checked: an error names the flag, its value and what is allowed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/status_macros.h"

namespace dlsm::bench {

inline std::vector<std::string> SplitAtCommas(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

template <typename Value>
Status Wrong(const char* flag, const Value& value, const std::string& allowed) {
  return Status::InvalidArgument(fmt::format("--{}={}: allowed is {}", flag, value, allowed));
}

// What is left when flags have been parsed; a flag that lacks its dashes, for example.
inline Status UnknownArgument(const char* argument) {
  return Status::InvalidArgument(fmt::format("unknown argument {}: flags begin with --", argument));
}

template <typename Value>
Status CheckRange(const char* flag, Value value, Value least, Value most) {
  if (least <= value && value <= most) return Status::OK();
  return Wrong(flag, value, fmt::format("{} to {}", least, most));
}

// *chosen gets the index of `value` among `allowed`.
inline Status CheckChoice(const char* flag, const std::string& value,
                          const std::vector<std::string>& allowed, size_t* chosen) {
  const auto found = std::find(allowed.begin(), allowed.end(), value);
  if (found == allowed.end())
    return Wrong(flag, value, fmt::format("{}", fmt::join(allowed, ", ")));
  *chosen = static_cast<size_t>(found - allowed.begin());
  return Status::OK();
}

inline Status FirstError(std::initializer_list<Status> statuses) {
  Status first;
  for (const Status& status : statuses) KeepFirstError(status, &first);
  return first;
}

}  // namespace dlsm::bench
