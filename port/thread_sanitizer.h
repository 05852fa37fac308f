// What ThreadSanitizer has to be told. In other builds all of this is nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define DLSM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DLSM_THREAD_SANITIZER 1
#endif
#endif

#ifdef DLSM_THREAD_SANITIZER
// Of the sanitizer's runtime, which names them so.
extern "C" {
void __tsan_read_range(void* address, unsigned long bytes);  // NOLINT
void AnnotateIgnoreReadsBegin(const char* file, int line);   // NOLINT
void AnnotateIgnoreReadsEnd(const char* file, int line);     // NOLINT
}
#endif

namespace dlsm::port {

#ifdef DLSM_THREAD_SANITIZER
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

// The calling thread counts as reading these bytes now.
inline void AnnotateRead([[maybe_unused]] const void* address, [[maybe_unused]] size_t bytes) {
#ifdef DLSM_THREAD_SANITIZER
  if (bytes > 0) __tsan_read_range(const_cast<void*>(address), bytes);
#endif
}

// While one lives, what the thread that made it reads counts as not read: it has been annotated
// before, at the moment that the memory model needs.
class UnseenReads {
 public:
#ifdef DLSM_THREAD_SANITIZER
  UnseenReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~UnseenReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  UnseenReads() {}
  ~UnseenReads() {}
#endif
  UnseenReads(const UnseenReads&) = delete;
  UnseenReads& operator=(const UnseenReads&) = delete;
};

}  // namespace dlsm::port
