#include "table/read_ahead.h"

#include <algorithm>
#include <cassert>

#include "port/cpu.h"
#include "util/status_macros.h"

namespace dlsm {

DataCuts::Part PartWithin(const TableReader& table, const ReadBounds& bounds) {
  DataCuts::Part part{0, table.meta().data_bytes};
  const auto bound = [&table](const Slice& user_key) {
    return table.BoundOffset(LookupKey(user_key, kSequenceNumberMax).internal_key());
  };
  if (bounds.lower.has_value()) part.begin = bound(*bounds.lower).least;
  if (bounds.upper.has_value()) part.end = bound(*bounds.upper).most;
  return part;
}

ReadAhead::ReadAhead(const RemoteSpan& data, const DataCuts* cuts, const TableReadOptions& options,
                     QueuePairs* queue_pairs)
    : data_(data),
      cuts_(cuts),
      options_(options),
      queue_pairs_(queue_pairs),
      lost_nodes_(queue_pairs->LostNodes()),
      bounds_(options.bounds),
      next_bytes_(options.prefetch_bytes) {}

Status ReadAhead::CheckPlace() {
  if (!MayBeOthers()) [[likely]]
    return Status::OK();
  QueuePair* queue_pair = nullptr;
  return QueuePairOrNoWindow(&queue_pair);
}

Status ReadAhead::Forward(uint64_t begin) {
  assert(begin < data_.bytes);
  if (Holds(begin)) return CheckPlace();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(QueuePairOrNoWindow(&queue_pair));
  return ForwardFrom(queue_pair, begin);
}

Status ReadAhead::ForwardUncut(uint64_t begin, bool follows) {
  assert(begin < data_.bytes);
  if (Holds(begin)) return CheckPlace();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(QueuePairOrNoWindow(&queue_pair));
  const char* const data = InPlace(queue_pair);
  if (data == nullptr) return ForwardFrom(queue_pair, begin);
  const bool sequential = follows && direct_ && direction_ == Direction::kForward && end_ != 0;
  assert(!sequential || end_ <= begin);
  const uint64_t counted_from = sequential ? end_ : begin;
  Grow(sequential, Direction::kForward);
  const uint64_t end = std::max(part_end(), begin + 1);  // Mostly `begin` is before part_end().
  UseInPlace(queue_pair, data, begin, begin + std::min(next_bytes_, end - begin), counted_from);
  return Status::OK();
}

Status ReadAhead::Backward(uint64_t end) {
  assert(0 < end && end <= data_.bytes);
  if (begin_ < end && end <= end_) return CheckPlace();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(QueuePairOrNoWindow(&queue_pair));
  Grow(direction_ == Direction::kBackward && end == begin_, Direction::kBackward);
  return Load(queue_pair, CutBackward(end, next_bytes_), end);
}

void ReadAhead::Prepare(uint64_t begin) {
  assert(begin < data_.bytes);
  if (Holds(begin) || (posted_ != nullptr && posted_->begin == begin)) return;
  QueuePair* queue_pair = nullptr;
  if (!QueuePairHere(&queue_pair).ok()) return;
  if (const char* const data = queue_pair->Direct(data_); data != nullptr) {
    port::PrefetchRead(data + begin);
    return;
  }
  if (options_.local) return;
  posted_.reset();
  Post(queue_pair, begin, CutForward(begin, options_.prefetch_bytes));
}

const DataCuts::Part& ReadAhead::PartNow() {
  if (part_version_ != bounds_->version) {
    part_ = cuts_->Within(*bounds_);
    part_version_ = bounds_->version;
  }
  return part_;
}

// A unit is read even where it is out of bounds: its reader has asked for it.
uint64_t ReadAhead::CutForward(uint64_t begin, uint64_t bytes) {
  const uint64_t end = part_end();
  return cuts_->CutAfter(begin, begin < end ? std::min(bytes, end - begin) : 1);
}

uint64_t ReadAhead::CutBackward(uint64_t end, uint64_t bytes) {
  const uint64_t begin = part_begin();
  return cuts_->CutBefore(end, begin < end ? std::min(bytes, end - begin) : 1);
}

// A reader whose first window is the largest one has said that it will read on.
void ReadAhead::Grow(bool sequential, Direction direction) {
  next_bytes_ = sequential ? std::min<uint64_t>(next_bytes_ * 2, options_.prefetch_bytes_max)
                           : options_.prefetch_bytes;
  sequential_ = sequential || options_.prefetch_bytes >= options_.prefetch_bytes_max;
  direction_ = direction;
}

Status ReadAhead::QueuePairHere(QueuePair** queue_pair) {
  return options_.limited ? queue_pairs_->ForLimitedRead(data_.node, options_, queue_pair)
                          : queue_pairs_->ForThisThread(data_.node, queue_pair);
}

Status ReadAhead::QueuePairOrNoWindow(QueuePair** queue_pair) {
  // First: a node that is lost after that is asked about again.
  lost_seen_ = lost_nodes_.load(std::memory_order_acquire);
  Status status = QueuePairHere(queue_pair);
  if (!status.ok()) begin_ = end_ = 0;
  return status;
}

Status ReadAhead::ForwardFrom(QueuePair* queue_pair, uint64_t begin) {
  Grow(direction_ == Direction::kForward && begin == end_, Direction::kForward);
  return Load(queue_pair, begin, CutForward(begin, next_bytes_));
}

// All of the data; null where it is not to be read in place.
const char* ReadAhead::InPlace(QueuePair* queue_pair) const {
  return MayReadInPlace(options_) ? queue_pair->Direct(data_) : nullptr;
}

void ReadAhead::UseInPlace(QueuePair* queue_pair, const char* data, uint64_t begin, uint64_t end,
                           uint64_t counted_from) {
  queue_pair->CountDirectRead(end - counted_from, options_.purpose);
  bytes_ = data + begin;
  limit_ = data + data_.bytes;
  begin_ = begin;
  end_ = end;
  direct_ = true;
}

Status ReadAhead::Load(QueuePair* queue_pair, uint64_t begin, uint64_t end) {
  assert(begin < end && end <= data_.bytes);
  begin_ = end_ = 0;  // No window, should an error come.
  if (const char* const data = InPlace(queue_pair); data != nullptr) {
    UseInPlace(queue_pair, data, begin, end, begin);
    return Status::OK();
  }
  direct_ = false;
  if (options_.limited) DLSM_RETURN_IF_ERROR(options_.CheckTransfer());
  const bool matches =
      posted_ != nullptr &&
      (direction_ == Direction::kForward ? posted_->begin == begin : posted_->end == end);
  bool taken = false;
  if (matches) DLSM_RETURN_IF_ERROR(TakePosted(queue_pair, &taken));
  if (!taken) DLSM_RETURN_IF_ERROR(FetchNow(queue_pair, begin, end));
  if (sequential_) PostNext(queue_pair);
  return Status::OK();
}

Status ReadAhead::FetchNow(QueuePair* queue_pair, uint64_t begin, uint64_t end) {
  posted_.reset();  // Not wanted any more.
  std::shared_ptr<Window> window;
  DLSM_RETURN_IF_ERROR(NewWindow(begin, end, &window));
  queue_pair->held().MakeRoom();
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(data_.Sub(begin, end - begin),
                                            window->buffer.span().Sub(0, end - begin),
                                            options_.purpose, &window->ticket));
  // Held although this waits for it: a wait that fails must not free the buffer.
  queue_pair->held().Hold(window->ticket, window);
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(window->ticket, options_.WaitEnds()));
  queue_pair->held().Complete(window->ticket);
  Use(std::move(window));
  return Status::OK();
}

// *taken stays false if the read-ahead is another thread's, or was lost with its queue pair.
Status ReadAhead::TakePosted(QueuePair* queue_pair, bool* taken) {
  const std::shared_ptr<Window> window = std::move(posted_);
  posted_ = nullptr;
  if (!window->complete()) {
    if (!queue_pair->held().Holds(*window)) return Status::OK();
    DLSM_RETURN_IF_ERROR(queue_pair->Wait(window->ticket, options_.WaitEnds()));
    queue_pair->held().Complete(window->ticket);
  }
  Use(window);
  *taken = true;
  return Status::OK();
}

// An error here is not an error yet: who needs the window will read it and see.
void ReadAhead::PostNext(QueuePair* queue_pair) {
  const uint64_t bytes = std::min<uint64_t>(next_bytes_ * 2, options_.prefetch_bytes_max);
  uint64_t begin = end_;
  uint64_t end = begin_;
  if (direction_ == Direction::kForward) {
    if (begin >= part_end()) return;
    end = CutForward(begin, bytes);
  } else {
    if (end <= part_begin()) return;
    begin = CutBackward(end, bytes);
  }
  if (Post(queue_pair, begin, end) && !queue_pair->Ring().ok()) posted_.reset();
}

bool ReadAhead::Post(QueuePair* queue_pair, uint64_t begin, uint64_t end) {
  std::shared_ptr<Window> window;
  if (!NewWindow(begin, end, &window).ok()) return false;
  queue_pair->held().MakeRoom();
  const Status posted =
      queue_pair->PostRead(data_.Sub(begin, end - begin), window->buffer.span().Sub(0, end - begin),
                           options_.purpose, &window->ticket);
  if (!posted.ok()) return false;
  queue_pair->held().Hold(window->ticket, window);
  posted_ = std::move(window);
  return true;
}

Status ReadAhead::NewWindow(uint64_t begin, uint64_t end, std::shared_ptr<Window>* window) {
  const uint64_t bytes = end - begin;
  *window = std::move(spare_);
  spare_ = nullptr;
  if (*window == nullptr || (*window)->buffer.bytes() < bytes) {
    *window = std::make_shared<Window>();
    DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(data_.node, bytes, &(*window)->buffer));
  }
  (*window)->Reset();
  (*window)->begin = begin;
  (*window)->end = end;
  return Status::OK();
}

void ReadAhead::Use(std::shared_ptr<Window> window) {
  // The queue pair has let go of the old window before this read was waited for.
  spare_ = std::move(current_);
  current_ = std::move(window);
  bytes_ = current_->buffer.data();
  begin_ = current_->begin;
  end_ = current_->end;
  limit_ = bytes_ + (end_ - begin_);
}

}  // namespace dlsm
