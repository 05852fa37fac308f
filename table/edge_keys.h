// What tells the first and the last key of a table from their neighbours within it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "dLSM/slice.h"
#include "table/key_prefix.h"
#include "table/short_keys.h"

namespace dlsm {

struct EdgeKeys {
  // How many bytes of the first user key tell it from the second one, and of the last from the one
  // before. 0: that key is short, or there is no other.
  size_t first_told = 0;
  size_t last_told = 0;

  // Of user keys that follow one another.
  void Note(const Slice& before, const Slice& key) {
    last_told = 0;
    if (std::max(before.size(), key.size()) > kShortKeyBytes) [[unlikely]]
      last_told = CommonPrefix(before, key) + 1;
    if (!noted_) first_told = last_told;
    noted_ = true;
  }

 private:
  bool noted_ = false;
};

}  // namespace dlsm
