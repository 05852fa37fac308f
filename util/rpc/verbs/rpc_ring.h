// Messages in memory that a peer writes one-sided: their layout, and who may use which bytes of it.
// Nothing here knows what carries the bytes. RDMA does (verbs_rpc_channel.h); tests copy them.
//
// Memory is cut into segments of 128 bytes. A message takes whole segments, one after the other:
//
//   segment  | begin 8 | body ...                |
//   segment  | ... body | nothing      | end 8   |
//
//   begin    magic 16 | kind 16 | bytes of the body 32: never 0
//   end      the rendezvous word: a number that only this message of this connection has. A message
//            is complete when its end is there, because one write places bytes in ascending order.
//            (The body has its own checksums for networks where that should not hold.) Before that,
//            nothing of it means anything: a reader can meet half of the begin word.
//
// The request ring is the memory node's, one for each client:
//   1. The client alone allocates in it (RingAllocator): messages follow each other.
//   2. Where one does not fit before the ring's end, a message of kind kReset takes the next
//      segment, and the following one starts at segment 0. At the ring's very end no reset is
//      needed.
//   3. The reader polls the begin of the segment that comes next. It zeroes the first word of every
//      segment that it has read: so what is not 0 there is new.
//   4. It takes requests in order, so the reply to one tells that all before it have been read too.
//
// The reply ring is the client's. The client alone allocates in it as well (SegmentAllocator): each
// request names the segments that its reply may take. Replies come in any order, some of them much
// later than others, so the next free run of segments is taken, and slow ones are passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr size_t kSegmentBytes = 128;
inline constexpr size_t kRingWordBytes = 8;

enum class RingKind : uint16_t {
  kMessage = 1,
  kReset = 2,     // Requests: the next message starts at segment 0.
  kTooLarge = 3,  // Replies: the body is only the header of what did not fit.
};

// How many segments a message with such a body takes.
constexpr size_t SegmentsOf(size_t body_bytes) {
  return (2 * kRingWordBytes + body_bytes + kSegmentBytes - 1) / kSegmentBytes;
}
// The largest body in so many segments.
constexpr size_t BodyBytesMax(size_t segments) {
  return segments * kSegmentBytes - 2 * kRingWordBytes;
}

// The rendezvous word of message `number`. `salt` is drawn at random for each connection, so that
// no bytes of a body can pass for one.
uint64_t RendezvousWord(uint64_t salt, uint64_t number);

// Builds a message at `to`, which nobody else sees yet and which has the segments for it: the
// bytes to be written to the peer. The body is put in by the caller, at `to` + kRingWordBytes.
void FrameRingMessage(RingKind kind, size_t body_bytes, uint64_t rendezvous, char* to);

// What is at a place where a message with a known number is to appear.
struct RingMessage {
  RingKind kind{};
  Slice body;
};

// Looks at the `segments` segments at `at`, which a peer may be writing to. Returns whether the
// message is there, and then *message refers to it.
bool LookAtMessage(const char* at, size_t segments, uint64_t rendezvous, RingMessage* message);

// Makes `at` a place where no message is, before the peer is told of it.
void ClearMessagePlace(char* at);

// The reader of a request ring. Whatever the writer does, it reads inside of the ring only, ends
// every call soon, and returns what is a well-formed message in its own memory. Not thread-safe.
class RingReader {
 public:
  // `ring` is zero, and outlives this.
  RingReader(char* ring, size_t segments, uint64_t salt)
      : ring_(ring), segments_(segments), salt_(salt) {}

  // *found: whether a further message was there; *body is then a copy of its body, for the writer
  // can change the ring at any time. What does not become a message is waited for. After an error
  // nothing more can be read.
  Status Next(bool* found, std::string* body);

  uint64_t read() const { return number_ - 1; }  // Messages so far, resets included.

 private:
  char* const ring_;
  const size_t segments_;
  const uint64_t salt_;
  size_t at_ = 0;        // The next segment to read.
  uint64_t number_ = 1;  // Of the next message.
};

// The writer's side of a request ring: gives out segments in order. Not thread-safe.
class RingAllocator {
 public:
  struct Allocation {
    bool reset = false;  // A reset goes first, with number - 1, to segment `reset_at`.
    size_t reset_at = 0;
    size_t at = 0;  // The first segment.
    size_t segments = 0;
    uint64_t number = 0;
  };

  explicit RingAllocator(size_t segments) : segments_(segments) {}

  // The most that one message may take: so that several fit, wherever the ring is cut.
  size_t segments_max() const { return segments_ / 4; }

  // False: there is no room until messages that came before have been read. `segments` is 1 to
  // segments_max().
  bool Allocate(size_t segments, Allocation* allocation);
  // Everything up to `number` has been read, and its source is not needed any more.
  void Release(uint64_t number);

  size_t used() const { return used_; }

 private:
  struct Taken {
    uint64_t number = 0;
    size_t segments = 0;  // With what was skipped before it.
  };

  const size_t segments_;
  size_t at_ = 0;
  size_t used_ = 0;
  uint64_t number_ = 1;
  std::deque<Taken> taken_;
};

// Gives out runs of segments that come back in any order. Not thread-safe.
class SegmentAllocator {
 public:
  explicit SegmentAllocator(size_t segments) : used_(segments, false), free_(segments) {}

  // The next free run after the last one given out. False: there is none that is long enough.
  bool Allocate(size_t segments, size_t* at);
  void Free(size_t at, size_t segments);

  size_t free() const { return free_; }

 private:
  std::vector<bool> used_;
  size_t free_;
  size_t next_ = 0;
};

}  // namespace dlsm
