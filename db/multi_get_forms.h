// The two forms of DB::MultiGet(), which owners and followers share. `read_into`, of (keys, values,
// statuses) as in Reads::MultiGet(), reads all keys; if it lacks memory, no key is read.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/reads.h"
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

// Throws std::bad_alloc if not even the two vectors can be had.
template <typename ReadInto>
std::vector<Status> MultiGetStrings(const std::vector<Slice>& keys,
                                    std::vector<std::string>* values, const ReadInto& read_into) {
  values->assign(keys.size(), std::string());
  std::vector<Status> statuses(keys.size());
  MultiGetWithinMemory(keys, {.strings = values->data()}, statuses.data(), read_into);
  return statuses;
}

template <typename ReadInto>
void MultiGetPinned(std::span<const Slice> keys, PinnableSlice* values, Status* statuses,
                    const ReadInto& read_into) {
  for (size_t i = 0; i < keys.size(); ++i) values[i].Reset();
  MultiGetWithinMemory(keys, {.pinned = values}, statuses, read_into);
}

}  // namespace dlsm
