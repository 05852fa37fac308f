// Memory that the processes of one run share.
#pragma once

#include <cstddef>
#include <memory>

#include "dLSM/status.h"

namespace dlsm::stress {

class SharedMemory {
 public:
  // `descriptor`: of another process' memory of that size, inherited; negative: makes one, zeroed.
  static Status Open(int descriptor, size_t bytes, std::unique_ptr<SharedMemory>* memory);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  void* data() const { return data_; }
  void Clear();

 private:
  SharedMemory(int descriptor, void* data, size_t bytes)
      : descriptor_(descriptor), data_(data), bytes_(bytes) {}

  const int descriptor_;
  void* const data_;
  const size_t bytes_;
};

}  // namespace dlsm::stress
