// Bytes that wait to be sent: headers, which it holds, and payloads, which stay where they are. Not
// thread-safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlsm {

class TcpSendQueue {
 public:
  // Room for a header, to be filled before the next call.
  char* AddHeader(size_t bytes);
  // `data` stays valid and unchanged until it is consumed.
  void AddPayload(const char* data, size_t bytes);

  // Releases everything added so far for sending.
  void Ring() { rung_ = segments_.size(); }
  // Whether nothing that was released is left.
  bool drained() const { return next_ == rung_; }
  void Clear();
  // How many bytes were ever added; and how many of them, the first ones, are sent or cleared away.
  uint64_t added() const { return added_; }
  uint64_t passed() const { return passed_; }

  // Points up to `count_max` of *parts to the next released bytes. Returns how many it set.
  size_t Gather(iovec* parts, size_t count_max) const;
  // The first `bytes` of what Gather() pointed to are sent.
  void Consume(size_t bytes);

 private:
  struct Segment {
    const char* payload = nullptr;  // Null: bytes of headers_, from header_offset on.
    size_t header_offset = 0;
    size_t bytes = 0;
  };
  const char* Data(const Segment& segment) const {
    return segment.payload != nullptr ? segment.payload : headers_.data() + segment.header_offset;
  }
  void DropConsumed();

  std::vector<char> headers_;
  std::vector<Segment> segments_;
  size_t next_ = 0;       // The first segment that is not wholly sent.
  size_t next_sent_ = 0;  // Its bytes that are sent.
  size_t rung_ = 0;       // Segments released.
  uint64_t added_ = 0;
  uint64_t passed_ = 0;
};

}  // namespace dlsm
