// How often tests repeat what is drawn at random.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dlsm {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif
#else
inline constexpr bool kUnderSanitizer = false;
#endif

// An eighth of `all` under a sanitizer, where each round takes several times as long. For what is
// right or wrong in every build alike: what a sanitizer has to find it finds in an eighth, too.
constexpr uint64_t Rounds(uint64_t all) {
  return kUnderSanitizer ? std::max<uint64_t>(all / 8, 1) : all;
}

}  // namespace dlsm
