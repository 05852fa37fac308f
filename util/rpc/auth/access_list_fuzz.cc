// Reads arbitrary bytes as an access list, and matches names of arbitrary bytes with its patterns.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "util/rpc/auth/access_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  dlsm::AccessList list;
  const dlsm::Status status = dlsm::AccessList::Parse(text, "fuzz", &list);
  const auto rights = list.Find(text.substr(0, text.find(' ')));
  if (status.ok() && rights != nullptr) {
    // What may be owned may be read.
    if (rights->MayOwn(text) && !rights->MayRead(text)) std::abort();
  }
  const size_t half = size / 2;
  const std::string pattern = text.substr(half);
  if (!dlsm::MatchesPattern(text, "*") || !dlsm::MatchesPattern(text, "*" + pattern)) std::abort();
  static_cast<void>(dlsm::MatchesPattern(text.substr(0, half), pattern));
  return 0;
}
