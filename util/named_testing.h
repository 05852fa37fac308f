// Values of a parameterised test with the names that its cases have: of an enum class, Google Test
// shows the bytes.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace dlsm {

template <typename T>
struct Named {
  const char* name;
  T value;

  operator T() const { return value; }  // NOLINT: it stands for the value.
};

template <typename T>
void PrintTo(const Named<T>& named, std::ostream* out) {
  *out << named.name;
}

template <typename T>
std::string NameOf(const testing::TestParamInfo<Named<T>>& info) {
  return info.param.name;
}

}  // namespace dlsm
