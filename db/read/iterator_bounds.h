// Where an iterator ends: the bounds of its ReadOptions, and with prefix_same_as_start the prefix
// of the key that it was last positioned at. In the bytewise order a prefix is a range of keys, so
// the iterators below are told bounds, and read nothing beyond the prefix. In other orders each key
// is asked for its prefix.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/options.h"
#include "dLSM/slice_transform.h"
#include "table/internal_key.h"
#include "table/read_bounds.h"

namespace dlsm {

class IteratorBounds {
 public:
  // Null where the options bound nothing, nor the time. With prefix_same_as_start the database has
  // an extractor.
  static std::unique_ptr<IteratorBounds> Of(const Options& database_options,
                                            const ReadOptions& options,
                                            const InternalKeyComparator& comparator);

  IteratorBounds(const IteratorBounds&) = delete;
  IteratorBounds& operator=(const IteratorBounds&) = delete;

  // Keeps to the prefix of `key` from now on, if it has one.
  void Follow(const Slice& key);
  // Keeps to no prefix, until Follow().
  void Unfollow();

  // As they are now; they stay where they are.
  const ReadBounds& now() const { return now_; }
  // Whether no key from this one on is within the bounds, in the iterator's direction.
  bool EndForward(const Slice& user_key) const {
    return (now_.upper.has_value() && comparator_.CompareUserKeys(user_key, *now_.upper) >= 0) ||
           (follows_ && !HasPrefix(user_key));
  }
  bool EndBackward(const Slice& user_key) const {
    return (now_.lower.has_value() && comparator_.CompareUserKeys(user_key, *now_.lower) < 0) ||
           (follows_ && !HasPrefix(user_key));
  }
  // TimedOut once the deadline has passed.
  Status CheckTime() const;

 private:
  IteratorBounds(const ReadOptions& options, const InternalKeyComparator& comparator,
                 std::shared_ptr<const SliceTransform> extractor);
  bool HasPrefix(const Slice& user_key) const;
  void Narrow();

  const InternalKeyComparator comparator_;
  const std::chrono::steady_clock::time_point deadline_;   // May be kNoDeadline.
  const ReadBounds all_;                                   // Those of the options.
  const std::shared_ptr<const SliceTransform> extractor_;  // May be null.
  bool follows_ = false;
  std::string prefix_;
  std::string behind_prefix_;  // The first key behind those that begin with it.
  ReadBounds now_;
};

}  // namespace dlsm
