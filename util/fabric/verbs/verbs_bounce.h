// A queue pair's own registered memory, for bytes whose place at the caller is not registered: a
// ring of pieces, taken when a work request is made and given back in the same order.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dLSM/status.h"
#include "util/fabric/verbs/verbs_buffers.h"

namespace dlsm {

// Not thread-safe.
class VerbsBounce {
 public:
  // No piece is longer, so that several fit.
  static constexpr size_t kPieceBytesMax = size_t{64} << 10;

  struct Piece {
    char* data = nullptr;
    size_t taken = 0;  // Bytes of the ring, what was skipped at its end included.
  };

  explicit VerbsBounce(std::shared_ptr<VerbsBuffers> buffers) : buffers_(std::move(buffers)) {}

  // Many queue pairs never need it: so it is made when one does.
  Status Prepare() {
    if (ring_.data() != nullptr) return Status::OK();
    return buffers_->NewBuffer(kRingBytes, &ring_);
  }
  // See VerbsBuffers.
  void Abandon() { buffers_->Abandon(); }
  uint32_t local_key() const { return ring_.span().local_key; }

  // Aligned to a word. False: there is no room until something is given back.
  bool Take(size_t bytes, Piece* piece) {
    assert(bytes <= kPieceBytesMax);
    constexpr size_t kWord = 8;
    const size_t rounded = (bytes + kWord - 1) / kWord * kWord;
    const size_t at = head_ % kRingBytes;
    const size_t skipped = kRingBytes - at < rounded ? kRingBytes - at : 0;
    if (head_ - tail_ + skipped + rounded > kRingBytes) return false;
    piece->data = ring_.data() + (skipped > 0 ? 0 : at);
    piece->taken = skipped + rounded;
    head_ += piece->taken;
    return true;
  }
  void Give(const Piece& piece) { tail_ += piece.taken; }

 private:
  static constexpr size_t kRingBytes = 4 * kPieceBytesMax;

  const std::shared_ptr<VerbsBuffers> buffers_;
  RegisteredBuffer ring_;
  uint64_t head_ = 0;  // All bytes ever taken.
  uint64_t tail_ = 0;  // All bytes ever given back.
};

}  // namespace dlsm
