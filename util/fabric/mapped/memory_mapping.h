// A range of mapped memory, aligned to huge pages, unmapped when destroyed.
#pragma once

#include <cstddef>
#include <string>

#include "dLSM/status.h"

namespace dlsm {

class MemoryMapping {
 public:
  MemoryMapping() = default;
  MemoryMapping(MemoryMapping&& other) noexcept;
  MemoryMapping& operator=(MemoryMapping&& other) noexcept;
  ~MemoryMapping();

  // Zeroed memory; its pages are taken when they are first written.
  static Status Anonymous(size_t bytes, MemoryMapping* mapping);
  // The first `bytes` of the file, shared with everyone else who maps it.
  static Status File(int file, size_t bytes, MemoryMapping* mapping);

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static Status Map(int file, int flags, size_t bytes, MemoryMapping* mapping);

  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// Asks the kernel for huge pages and returns what a person should know: "huge pages", or why not
// and what to do about it. `shared`: the memory is a file in /dev/shm.
std::string AdviseHugePages(const MemoryMapping& mapping, bool shared);

// Has a child that this process forks be without it: until then the kernel would copy a page that
// either writes next, and a device goes on writing to the page that it was told (kernels
// before 5.12 do so even to what is pinned). Of anonymous memory that no child is to use.
void KeepFromChildren(const MemoryMapping& mapping);

}  // namespace dlsm
