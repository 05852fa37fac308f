#include "table/block_table_iterator.h"

#include <cassert>
#include <utility>

#include "table/block_table_reader.h"
#include "util/status_macros.h"

namespace dlsm {

BlockTableIterator::BlockTableIterator(const InternalKeyComparator& comparator,
                                       const BlockTableIndex& index, const CachedBlocks& cached,
                                       const RemoteSpan& data, const DataCuts* cuts,
                                       const TableReadOptions& options, QueuePairs* queue_pairs)
    : index_(index),
      cached_(cached),
      options_(options),
      window_(data, cuts, options, queue_pairs),
      cursor_(comparator) {}

void BlockTableIterator::SeekToFirst() {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  if (!OpenBlock(0, Direction::kForward)) return;
  cursor_.SeekToFirst();
  ShowCursor();
}

void BlockTableIterator::SeekToLast() {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  const uint64_t end = window_.part_end();
  if (index_.blocks() == 0 || end <= window_.part_begin()) return Invalidate();
  if (!OpenBlock(index_.BlockAt(end - 1), Direction::kBackward)) return;
  cursor_.SeekToLast();
  ShowCursor();
}

// Behind the last block, or behind the bounds.
bool BlockTableIterator::IsBehind(uint32_t block) {
  return block >= index_.blocks() || index_.BlockBegin(block) >= window_.part_end();
}

void BlockTableIterator::Seek(const Slice& target) {
  status_.PermitUncheckedError();
  status_ = Status::OK();
  const uint32_t block = index_.BlockFor(target);
  if (IsBehind(block)) return Invalidate();
  if (!OpenBlock(block, Direction::kForward)) return;
  cursor_.Seek(target);
  // The block's separator is after `target`, but its last key may be before.
  if (!cursor_.valid() && !cursor_.malformed()) {
    if (IsBehind(block + 1)) return Invalidate();
    if (!OpenBlock(block + 1, Direction::kForward)) return;
    cursor_.SeekToFirst();
  }
  ShowCursor();
}

void BlockTableIterator::Next() {
  assert(Valid());
  if (!IsStillOurs()) return;
  cursor_.Next();
  if (!cursor_.valid() && !cursor_.malformed()) {
    if (IsBehind(block_ + 1)) return Invalidate();
    if (!OpenBlock(block_ + 1, Direction::kForward)) return;
    cursor_.SeekToFirst();
  }
  ShowCursor();
}

void BlockTableIterator::Prev() {
  assert(Valid());
  if (!IsStillOurs()) return;
  cursor_.Prev();
  if (!cursor_.valid() && !cursor_.malformed()) {
    if (index_.BlockBegin(block_) <= window_.part_begin()) return Invalidate();
    if (!OpenBlock(block_ - 1, Direction::kBackward)) return;
    cursor_.SeekToLast();
  }
  ShowCursor();
}

// A block of the cache, or one that was compressed, is a copy.
Status BlockTableIterator::CheckPlace() {
  return Valid() && payload_->in_place() ? window_.CheckPlace() : Status::OK();
}

bool BlockTableIterator::IsStillOurs() {
  if (!window_.MayBeOthers()) [[likely]]
    return true;
  Status status = CheckPlace();
  if (status.ok()) return true;
  Fail(std::move(status));
  return false;
}

void BlockTableIterator::ShowCursor() {
  if (cursor_.malformed()) {
    window_.Forget();
    return Fail(Status::Corruption("a block is malformed"));
  }
  if (!cursor_.valid()) return Invalidate();
  record_.key = cursor_.key();
  record_.value = cursor_.value();
  Show(&record_);
}

bool BlockTableIterator::OpenBlock(uint32_t block, Direction direction) {
  if (block >= index_.blocks()) {  // Only if there are none.
    Invalidate();
    return false;
  }
  payload_ = cached_.Lookup(index_.BlockBegin(block));
  if (payload_ == nullptr) {
    Status status = FetchBlock(block, direction);
    if (!status.ok()) {
      Fail(std::move(status));
      return false;
    }
  }
  block_ = block;
  cursor_.Open(payload_->bytes());
  return true;
}

Status BlockTableIterator::FetchBlock(uint32_t block, Direction direction) {
  const uint64_t begin = index_.BlockBegin(block);
  const uint64_t end = index_.BlockEnd(block);
  DLSM_RETURN_IF_ERROR(direction == Direction::kForward ? window_.Forward(begin)
                                                        : window_.Backward(end));
  Status status = cached_.Open(begin, Slice(window_.At(begin), end - begin), options_, &payload_);
  if (!status.ok()) window_.Forget();
  return status;
}

}  // namespace dlsm
