#include "util/fabric/mapped/memory_mapping.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "port/error_text.h"
#include "util/memory/huge_memory.h"
#include "util/memory/huge_pages.h"

namespace dlsm {

MemoryMapping::MemoryMapping(MemoryMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryMapping& MemoryMapping::operator=(MemoryMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MemoryMapping::~MemoryMapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Status MemoryMapping::Anonymous(size_t bytes, MemoryMapping* mapping) {
  return Map(-1, MAP_PRIVATE | MAP_ANONYMOUS, bytes, mapping);
}

Status MemoryMapping::File(int file, size_t bytes, MemoryMapping* mapping) {
  return Map(file, MAP_SHARED, bytes, mapping);
}

// Reserves addresses with a huge page to spare, maps over an aligned part of them, and gives the
// rest back: mmap() alone aligns to small pages.
Status MemoryMapping::Map(int file, int flags, size_t bytes, MemoryMapping* mapping) {
  assert(bytes > 0);
  const auto failed = [bytes] {
    return Status::IOError(fmt::format("cannot map {} bytes of memory: {}; ask for less", bytes,
                                       port::ErrorText(errno)));
  };
  if (bytes > SIZE_MAX / 2) {
    errno = ENOMEM;
    return failed();
  }
  const size_t reserved_bytes = bytes + kHugePageBytes;
  void* reserved = ::mmap(nullptr, reserved_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return failed();
  const auto start = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = (start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* data = ::mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE,
                      flags | MAP_FIXED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) {
    const Status status = failed();
    ::munmap(reserved, reserved_bytes);
    return status;
  }
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t end = aligned + (bytes + page - 1) / page * page;
  if (aligned > start) ::munmap(reserved, aligned - start);
  if (start + reserved_bytes > end) {
    ::munmap(reinterpret_cast<void*>(end), start + reserved_bytes - end);
  }
  MemoryMapping made;
  made.data_ = static_cast<char*>(data);
  made.bytes_ = bytes;
  *mapping = std::move(made);
  return Status::OK();
}

std::string AdviseHugePages(const MemoryMapping& mapping, bool shared) {
  if (::madvise(mapping.data(), mapping.bytes(), MADV_HUGEPAGE) != 0) {
    return fmt::format("no huge pages: the kernel refuses them ({})", port::ErrorText(errno));
  }
  const HugePages found = shared ? ShmHugePages("/") : AnonymousHugePages("/");
  if (!found.offered) {
    return fmt::format("no huge pages: {}{}{}", found.detail, found.remedy.empty() ? "" : "; ",
                       found.remedy);
  }
  return "huge pages";
}

// Every kernel can do that; one that does not leaves all as it was.
void KeepFromChildren(const MemoryMapping& mapping) {
  (void)::madvise(mapping.data(), mapping.bytes(), MADV_DONTFORK);
}

}  // namespace dlsm
