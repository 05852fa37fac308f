// How an iterator gets at a table's data: through windows that grow with sequential use.
//
//   data   | r0 | r1 | r2 | r3 | r4 | r5 | r6 | r7 | r8 |      windows are cut between units
//                 '-------------'    '--------------'           (records or blocks), so that
//                  the window         posted already            none is ever in two of them
//
// Where the fabric lets this thread address the data, a window is the data in place and only
// counted; elsewhere it is a registered buffer, and the next one is posted while the current one is
// consumed, once the use has proved to be sequential. In place a unit may reach beyond its window,
// so that who can do with that saves the search for a cut (ForwardUncut).
//
// An iterator may be used by one thread after another. A read-ahead belongs to the queue pair of
// the thread that posted it: another thread that finds it incomplete reads again for itself. The
// buffer is shared with that queue pair (held_transfers.h), so it outlives a reader that goes away.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dLSM/status.h"
#include "table/read_bounds.h"
#include "table/table_reader.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Where a table's data may be cut. Thread-safe.
class DataCuts {
 public:
  virtual ~DataCuts() = default;
  // The largest cut in (begin, begin + bytes], or the first one after `begin` if there is none.
  // `begin` is a cut and not the end of the data.
  virtual uint64_t CutAfter(uint64_t begin, uint64_t bytes) const = 0;
  // The smallest cut in [end - bytes, end), or the last one before `end` if there is none. `end` is
  // a cut and not 0.
  virtual uint64_t CutBefore(uint64_t end, uint64_t bytes) const = 0;
  // The part of the data outside of which no key is within the bounds, between two cuts.
  struct Part {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  virtual Part Within(const ReadBounds& bounds) const = 0;
};

// DataCuts::Within(), of a table whose cuts BoundOffset() knows.
DataCuts::Part PartWithin(const TableReader& table, const ReadBounds& bounds);

class ReadAhead {
 public:
  // `cuts` and `queue_pairs` outlive this.
  ReadAhead(const RemoteSpan& data, const DataCuts* cuts, const TableReadOptions& options,
            QueuePairs* queue_pairs);

  // An error, and no window, if that is in place, in memory that may be others' by now.
  Status CheckPlace();
  // Whether it may have become others' since that was asked last: then it is to be asked.
  bool MayBeOthers() const {
    // Pairs with the addition in NodeQueuePairs::End().
    return direct_ && lost_nodes_.load(std::memory_order_acquire) != lost_seen_;
  }

  // Makes the window hold the unit that starts at the cut `begin`, and some after it. Like the next
  // one and Backward(), it fails as CheckPlace() does where the window holds that already.
  Status Forward(uint64_t begin);
  // The same, but in place the window ends anywhere: limit() tells what may be read. `follows`: the
  // unit before this one was the last that was used. Then the window before is counted up to here.
  Status ForwardUncut(uint64_t begin, bool follows);
  // Posts what Forward(begin) will fetch, without waiting or ringing; in place, asks for its first
  // cache line. An error is left to Forward().
  void Prepare(uint64_t begin);

  // Makes the window hold the unit that ends at the cut `end`, and some before it.
  Status Backward(uint64_t end);

  // What the window holds is damaged, perhaps only on its way: who wants it again has it read
  // again.
  void Forget() { begin_ = end_ = 0; }

  // The window: the data's bytes [begin(), end()). They stay until the next call that fails,
  // moves it or forgets it.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  // Where what may be read ends: the end of the window; in place, the end of the data.
  const char* limit() const { return limit_; }
  // Of the byte at `offset` of the data, which is in the window.
  const char* At(uint64_t offset) const { return bytes_ + (offset - begin_); }
  bool Holds(uint64_t offset) const { return begin_ <= offset && offset < end_; }

  // The part of the data that is within the bounds of the iterator, as they are now: all of it
  // without bounds. Windows are cut there. Nobody wants what is before or behind.
  uint64_t part_begin() { return bounds_ == nullptr ? 0 : PartNow().begin; }
  uint64_t part_end() { return bounds_ == nullptr ? data_.bytes : PartNow().end; }
  // The window is the table's own memory.
  bool direct() const { return direct_; }

 private:
  enum class Direction { kNone, kForward, kBackward };

  struct Window final : Transfer {
    RegisteredBuffer buffer;
    uint64_t begin = 0;
    uint64_t end = 0;
    Ticket ticket{};
  };

  const DataCuts::Part& PartNow();
  uint64_t CutForward(uint64_t begin, uint64_t bytes);
  uint64_t CutBackward(uint64_t end, uint64_t bytes);
  void Grow(bool sequential, Direction direction);
  Status QueuePairHere(QueuePair** queue_pair);
  Status QueuePairOrNoWindow(QueuePair** queue_pair);
  const char* InPlace(QueuePair* queue_pair) const;
  Status ForwardFrom(QueuePair* queue_pair, uint64_t begin);
  void UseInPlace(QueuePair* queue_pair, const char* data, uint64_t begin, uint64_t end,
                  uint64_t counted_from);
  Status Load(QueuePair* queue_pair, uint64_t begin, uint64_t end);
  Status FetchNow(QueuePair* queue_pair, uint64_t begin, uint64_t end);
  Status TakePosted(QueuePair* queue_pair, bool* taken);
  void PostNext(QueuePair* queue_pair);
  bool Post(QueuePair* queue_pair, uint64_t begin, uint64_t end);
  Status NewWindow(uint64_t begin, uint64_t end, std::shared_ptr<Window>* window);
  void Use(std::shared_ptr<Window> window);

  const RemoteSpan data_;
  const DataCuts* const cuts_;
  const TableReadOptions options_;
  QueuePairs* const queue_pairs_;
  const std::atomic<uint32_t>& lost_nodes_;  // Of queue_pairs_.
  const ReadBounds* const bounds_;           // Of options_.

  DataCuts::Part part_;  // Within bounds_, as they were in that version.
  uint64_t part_version_ = UINT64_MAX;

  Direction direction_ = Direction::kNone;
  bool sequential_ = false;
  uint64_t next_bytes_;  // Of the next window.

  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  const char* bytes_ = nullptr;
  const char* limit_ = nullptr;
  bool direct_ = false;
  uint32_t lost_seen_ = 0;           // lost_nodes_, before the queue pair was asked for last.
  std::shared_ptr<Window> current_;  // Holds bytes_ unless direct_.
  std::shared_ptr<Window> posted_;   // Read-ahead; null if there is none.
  std::shared_ptr<Window> spare_;    // A buffer to use again; nobody else has it.
};

}  // namespace dlsm
