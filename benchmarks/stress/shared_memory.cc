#include "benchmarks/stress/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "port/error_text.h"

namespace dlsm::stress {

Status SharedMemory::Open(int descriptor, size_t bytes, std::unique_ptr<SharedMemory>* memory) {
  if (descriptor < 0) {
    descriptor = memfd_create("dlsm-stress", 0);
    if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
      return Status::IOError("no memory for the expected state", port::ErrorText(errno));
    }
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    return Status::IOError("the expected state cannot be mapped", port::ErrorText(errno));
  }
  memory->reset(new SharedMemory(descriptor, data, bytes));
  return Status::OK();
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
  close(descriptor_);
}

void SharedMemory::Clear() { std::memset(data_, 0, bytes_); }

}  // namespace dlsm::stress
