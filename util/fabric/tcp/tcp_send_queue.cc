#include "util/fabric/tcp/tcp_send_queue.h"

#include <algorithm>
#include <cassert>

namespace dlsm {
namespace {

// When a queue is never quite empty, its sent part is dropped at this many segments.
constexpr size_t kConsumedMax = 4096;

}  // namespace

char* TcpSendQueue::AddHeader(size_t bytes) {
  const size_t offset = headers_.size();
  headers_.resize(offset + bytes);
  // Headers that follow each other are one segment, unless the one before may be on its way.
  if (segments_.size() > rung_ && segments_.back().payload == nullptr) {
    segments_.back().bytes += bytes;
  } else {
    segments_.push_back(Segment{nullptr, offset, bytes});
  }
  added_ += bytes;
  return headers_.data() + offset;
}

void TcpSendQueue::AddPayload(const char* data, size_t bytes) {
  if (bytes > 0) segments_.push_back(Segment{data, 0, bytes});
  added_ += bytes;
}

void TcpSendQueue::Clear() {
  headers_.clear();
  segments_.clear();
  next_ = next_sent_ = rung_ = 0;
  passed_ = added_;
}

size_t TcpSendQueue::Gather(iovec* parts, size_t count_max) const {
  const size_t count = std::min(count_max, rung_ - next_);
  for (size_t i = 0; i < count; ++i) {
    const Segment& segment = segments_[next_ + i];
    const size_t skip = i == 0 ? next_sent_ : 0;
    parts[i].iov_base = const_cast<char*>(Data(segment) + skip);  // sendmsg() does not write there.
    parts[i].iov_len = segment.bytes - skip;
  }
  return count;
}

void TcpSendQueue::Consume(size_t bytes) {
  passed_ += bytes;
  while (bytes > 0) {
    assert(next_ < rung_);
    const size_t left = segments_[next_].bytes - next_sent_;
    if (bytes < left) {
      next_sent_ += bytes;
      break;
    }
    bytes -= left;
    ++next_;
    next_sent_ = 0;
  }
  if (next_ == segments_.size()) {
    Clear();
  } else if (next_ >= kConsumedMax && next_ >= segments_.size() / 2) {
    DropConsumed();
  }
}

void TcpSendQueue::DropConsumed() {
  using Distance = std::vector<Segment>::difference_type;
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<Distance>(next_));
  rung_ -= next_;
  next_ = 0;
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.payload == nullptr;
  });
  const size_t dropped = first == segments_.end() ? headers_.size() : first->header_offset;
  headers_.erase(headers_.begin(), headers_.begin() + static_cast<Distance>(dropped));
  for (Segment& segment : segments_) {
    if (segment.payload == nullptr) segment.header_offset -= dropped;
  }
}

}  // namespace dlsm
