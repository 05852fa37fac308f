// Any bytes either are refused or decode to a frame that encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "util/fabric/tcp/tcp_frame.h"

namespace {

template <typename Frame>
void CheckFrame(const char* bytes, size_t size) {
  if (size < Frame::kBytes) return;
  Frame frame;
  if (frame.Decode(bytes) != dlsm::TcpCode::kOk) return;
  typename Frame::Encoded again;
  frame.Encode(again.data());
  if (std::memcmp(again.data(), bytes, again.size()) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* bytes = reinterpret_cast<const char*>(data);
  CheckFrame<dlsm::TcpRequest>(bytes, size);
  CheckFrame<dlsm::TcpReply>(bytes, size);
  return 0;
}
