// Any bytes are requests, an error, or wait for more; and are the same however they come in pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "db/serve/request_parser.h"

namespace dlsm::serve {
namespace {

using Requests = std::vector<std::vector<std::string>>;

// An error is the last of them.
Requests Parse(const Slice& bytes, size_t piece) {
  RequestParser parser;
  Requests requests;
  size_t done = 0;
  for (size_t there = 0; there < bytes.size();) {
    there = std::min(there + piece, bytes.size());
    while (true) {
      // Of its own memory, so that a sanitizer sees what lies beyond.
      const std::string part(bytes.data() + done, there - done);
      std::vector<Slice> arguments;
      size_t taken = 0;
      const RequestParser::State state = parser.Next(part, &arguments, &taken);
      if (state == RequestParser::State::kMore) break;
      if (state == RequestParser::State::kError) {
        requests.push_back({parser.error()});
        return requests;
      }
      if (taken == 0 || taken > part.size()) std::abort();
      std::vector<std::string>& request = requests.emplace_back();
      for (const Slice& argument : arguments) request.push_back(argument.ToString());
      done += taken;
    }
  }
  return requests;
}

}  // namespace
}  // namespace dlsm::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = dlsm::serve::Parse(bytes, SIZE_MAX);
  if (size < 300 && whole != dlsm::serve::Parse(bytes, 1)) std::abort();
  return 0;
}
