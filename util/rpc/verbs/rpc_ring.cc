#include "util/rpc/verbs/rpc_ring.h"

#include <atomic>
#include <cassert>
#include <cstring>

namespace dlsm {
namespace {

constexpr uint16_t kMagic = 0xd15c;

// Words that a peer writes while they are looked at. Memory of rings is aligned to them.
std::atomic_ref<uint64_t> WordAt(const char* at) {
  assert(reinterpret_cast<uintptr_t>(at) % kRingWordBytes == 0);
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(const_cast<char*>(at)));
}

uint64_t BeginWord(RingKind kind, uint32_t body_bytes) {
  return uint64_t{kMagic} << 48 | uint64_t{static_cast<uint16_t>(kind)} << 32 | body_bytes;
}

const char* EndAt(const char* at, size_t segments) {
  return at + segments * kSegmentBytes - kRingWordBytes;
}

}  // namespace

uint64_t RendezvousWord(uint64_t salt, uint64_t number) {
  // Odd times anything is a permutation: no two numbers of a connection have the same word.
  return (salt + number) * 0x9e3779b97f4a7c15;
}

void FrameRingMessage(RingKind kind, size_t body_bytes, uint64_t rendezvous, char* to) {
  const size_t segments = SegmentsOf(body_bytes);
  const uint64_t begin = BeginWord(kind, static_cast<uint32_t>(body_bytes));
  std::memcpy(to, &begin, sizeof(begin));
  char* const body_end = to + kRingWordBytes + body_bytes;
  char* const end = to + segments * kSegmentBytes - kRingWordBytes;
  // What was there before is nobody's business.
  std::memset(body_end, 0, static_cast<size_t>(end - body_end));
  std::memcpy(end, &rendezvous, sizeof(rendezvous));
}

bool LookAtMessage(const char* at, size_t segments, uint64_t rendezvous, RingMessage* message) {
  const uint64_t begin = WordAt(at).load(std::memory_order_acquire);
  const auto bytes = static_cast<uint32_t>(begin);
  if (begin >> 48 != kMagic || bytes > BodyBytesMax(segments)) return false;
  // Pairs with the write that places the end, after all of the message.
  const char* const end = EndAt(at, SegmentsOf(bytes));
  if (WordAt(end).load(std::memory_order_acquire) != rendezvous) return false;
  message->kind = static_cast<RingKind>(static_cast<uint16_t>(begin >> 32));
  message->body = Slice(at + kRingWordBytes, bytes);
  return true;
}

void ClearMessagePlace(char* at) { WordAt(at).store(0, std::memory_order_relaxed); }

Status RingReader::Next(bool* found, std::string* body) {
  // Twice at most: a reset leads to segment 0, and must not stand there.
  while (true) {
    RingMessage message;
    char* const at = ring_ + at_ * kSegmentBytes;
    *found = LookAtMessage(at, segments_ - at_, RendezvousWord(salt_, number_), &message);
    if (!*found) return Status::OK();
    const size_t segments = SegmentsOf(message.body.size());
    if (message.kind == RingKind::kMessage) {
      body->assign(message.body.data(), message.body.size());
    } else if (message.kind != RingKind::kReset || at_ == 0) {
      *found = false;
      return Status::Corruption("a reset or reply where a request belongs");
    }
    for (size_t i = 0; i < segments; ++i) ClearMessagePlace(at + i * kSegmentBytes);
    ++number_;
    at_ += segments;
    if (at_ == segments_ || message.kind == RingKind::kReset) at_ = 0;
    if (message.kind == RingKind::kMessage) return Status::OK();
  }
}

bool RingAllocator::Allocate(size_t segments, Allocation* allocation) {
  assert(segments > 0 && segments <= segments_max());
  const size_t left = segments_ - at_;
  const size_t skipped = left < segments ? left : 0;
  if (used_ + skipped + segments > segments_) return false;
  allocation->reset = skipped > 0;
  if (skipped > 0) {
    allocation->reset_at = at_;
    ++number_;
    at_ = 0;
  }
  allocation->at = at_;
  allocation->segments = segments;
  allocation->number = number_++;
  taken_.push_back(Taken{allocation->number, skipped + segments});
  used_ += skipped + segments;
  at_ += segments;
  if (at_ == segments_) at_ = 0;
  return true;
}

void RingAllocator::Release(uint64_t number) {
  while (!taken_.empty() && taken_.front().number <= number) {
    used_ -= taken_.front().segments;
    taken_.pop_front();
  }
}

bool SegmentAllocator::Allocate(size_t segments, size_t* at) {
  assert(segments > 0);
  if (free_ < segments) return false;
  const size_t all = used_.size();
  size_t run = 0;
  // From the last one on, once around, and on until a run that begins near its start has ended.
  for (size_t i = 0; i < all + segments; ++i) {
    const size_t here = (next_ + i) % all;
    if (here == 0) run = 0;
    run = used_[here] ? 0 : run + 1;
    if (run < segments) continue;
    *at = here + 1 - segments;
    for (size_t taken = *at; taken <= here; ++taken) used_[taken] = true;
    free_ -= segments;
    next_ = (here + 1) % all;
    return true;
  }
  return false;
}

void SegmentAllocator::Free(size_t at, size_t segments) {
  for (size_t i = at; i < at + segments; ++i) {
    assert(used_[i]);
    used_[i] = false;
  }
  free_ += segments;
}

}  // namespace dlsm
