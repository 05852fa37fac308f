#include "db/read/iterator_bounds.h"

#include <utility>

#include "port/clock.h"

namespace dlsm {
namespace {

// In the bytewise order. Returns false if there is none.
bool FirstBehind(const std::string& prefix, std::string* behind) {
  *behind = prefix;
  while (!behind->empty() && static_cast<unsigned char>(behind->back()) == 0xff) {
    behind->pop_back();
  }
  if (behind->empty()) return false;
  behind->back() = static_cast<char>(static_cast<unsigned char>(behind->back()) + 1);
  return true;
}

ReadBounds BoundsOf(const ReadOptions& options) {
  ReadBounds bounds;
  if (options.iterate_lower_bound != nullptr) bounds.lower = *options.iterate_lower_bound;
  if (options.iterate_upper_bound != nullptr) bounds.upper = *options.iterate_upper_bound;
  return bounds;
}

}  // namespace

std::unique_ptr<IteratorBounds> IteratorBounds::Of(const Options& database_options,
                                                   const ReadOptions& options,
                                                   const InternalKeyComparator& comparator) {
  if (options.iterate_lower_bound == nullptr && options.iterate_upper_bound == nullptr &&
      !options.prefix_same_as_start && options.deadline == kNoDeadline) {
    return nullptr;
  }
  return std::unique_ptr<IteratorBounds>(new IteratorBounds(
      options, comparator,
      options.prefix_same_as_start ? database_options.prefix_extractor : nullptr));
}

IteratorBounds::IteratorBounds(const ReadOptions& options, const InternalKeyComparator& comparator,
                               std::shared_ptr<const SliceTransform> extractor)
    : comparator_(comparator),
      deadline_(options.deadline),
      all_(BoundsOf(options)),
      extractor_(std::move(extractor)),
      now_(all_) {}

void IteratorBounds::Follow(const Slice& key) {
  Unfollow();
  if (extractor_ == nullptr || !extractor_->InDomain(key)) return;
  const Slice prefix = extractor_->Transform(key);
  prefix_.assign(prefix.data(), prefix.size());
  follows_ = true;
  if (comparator_.bytewise()) Narrow();
}

void IteratorBounds::Unfollow() {
  if (!follows_) return;
  follows_ = false;
  now_.lower = all_.lower;
  now_.upper = all_.upper;
  ++now_.version;
}

void IteratorBounds::Narrow() {
  const Slice prefix(prefix_);
  if (!now_.lower.has_value() || now_.lower->compare(prefix) < 0) now_.lower = prefix;
  if (FirstBehind(prefix_, &behind_prefix_)) {
    const Slice behind(behind_prefix_);
    if (!now_.upper.has_value() || now_.upper->compare(behind) > 0) now_.upper = behind;
  }
  ++now_.version;
}

Status IteratorBounds::CheckTime() const {
  if (deadline_ == kNoDeadline || port::Clock::now() < deadline_) return Status::OK();
  return Status::TimedOut("the deadline of the iterator has passed",
                          "make another one, and give it more time");
}

bool IteratorBounds::HasPrefix(const Slice& user_key) const {
  return extractor_->InDomain(user_key) && extractor_->Transform(user_key) == Slice(prefix_);
}

}  // namespace dlsm
