// The two forms of DB::MultiGet(), which owners and followers share. `read_into`, of (keys, values,
// statuses) as in Reads::MultiGet(), reads all keys. Values and buffers for all of them together
// are large: if it lacks memory for those, no key is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/read/reads.h"
#include "util/null_argument.h"
#include "util/out_of_memory.h"

namespace dlsm {

template <typename ReadInto>
void MultiGetWithinMemory(std::span<const Slice> keys, const Reads::Values& values,
                          Status* statuses, const ReadInto& read_into) {
  try {
    read_into(keys, values, statuses);
  } catch (const std::bad_alloc&) {
    for (size_t i = 0; i < keys.size(); ++i) {
      statuses[i].PermitUncheckedError();
      statuses[i] = OutOfTransferMemory();
      values.Clear(i);
    }
  }
}

template <typename ReadInto>
std::vector<Status> MultiGetStrings(const std::vector<Slice>& keys,
                                    std::vector<std::string>* values, const ReadInto& read_into) {
  if (values == nullptr) return std::vector<Status>(keys.size(), NullArgument("values"));
  values->assign(keys.size(), std::string());
  std::vector<Status> statuses(keys.size());
  MultiGetWithinMemory(keys, {.strings = values->data()}, statuses.data(), read_into);
  return statuses;
}

template <typename ReadInto>
void MultiGetPinned(size_t count, const Slice* keys, PinnableSlice* values, Status* statuses,
                    const ReadInto& read_into) {
  if (statuses == nullptr) return;  // There is nobody to tell.
  if (keys == nullptr || values == nullptr) {
    std::fill_n(statuses, count, NullArgument(keys == nullptr ? "keys" : "values"));
    return;
  }
  for (size_t i = 0; i < count; ++i) values[i].Reset();
  MultiGetWithinMemory({keys, count}, {.pinned = values}, statuses, read_into);
}

}  // namespace dlsm
