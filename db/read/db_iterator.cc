#include "db/read/db_iterator.h"

#include <cassert>
#include <cstdint>
#include <new>
#include <utility>

#include "port/process_mark.h"
#include "table/key_prefix.h"
#include "util/call_timer.h"
#include "util/other_process.h"
#include "util/out_of_memory.h"

namespace dlsm {
namespace {

// Forward, `entries_` stands at the entry that is shown. Backward, it stands before all entries of
// the user key that is shown, which is kept in saved_key_ and saved_value_: only then is it known
// which version is the newest visible one. key_ is what is shown, wherever it lies.
class DbIterator final : public Iterator {
 public:
  DbIterator(const InternalKeyComparator& comparator, std::unique_ptr<InternalIterator> entries,
             const DbIteratorOptions& options, std::shared_ptr<const void> holder,
             std::shared_ptr<Statistics> statistics)
      : comparator_(comparator),
        options_(options),
        bounds_(options.bounds.get()),
        holder_(std::move(holder)),
        statistics_(std::move(statistics)),
        entries_(std::move(entries)) {}

  // In a child of the process that made the iterator nothing is destroyed, and what users have
  // registered to be called then is not called.
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(DbIterator* iterator, std::destroying_delete_t) {
    port::DestroyHere(iterator, iterator->made_by_);
  }
  ~DbIterator() override {
    if (options_.counts_seeks != nullptr) options_.counts_seeks->CountLooks(seeks_ * kLooksPerSeek);
    // This may be another thread than those that it counts, and need its first counters.
    OrEndForLackOfMemory([this] {
      statistics_->Add(Ticker::kSeeks, seeks_);
      statistics_->Add(Ticker::kIteratorSteps, steps_);
    });
  }

  bool Valid() const override { return shown_in_ == port::ProcessMark::Current(); }
  Slice key() const override {
    assert(Valid());
    return key_;
  }
  Slice value() const override {
    assert(Valid());
    return forward_ ? entries_->value() : Slice(saved_value_);
  }
  Status status() const override {
    if (!made_by_.IsHere()) [[unlikely]]
      return OpenedByOtherProcess(made_by_);
    return status_.ok() ? entries_->status() : status_;
  }

  // In another process than that of the iterator moves do nothing: it is not Valid() there. A move
  // may lack memory for blocks, keys and values, which has left what it moved somewhere in between.

  void Seek(const Slice& target) override try {
    const CallTimer timer(statistics_.get(), HistogramType::kSeek);
    if (!StartSeek(/*forward=*/true)) return;
    if (bounds_ != nullptr) bounds_->Follow(target);
    const Slice* const lower = LowerBound();
    const bool below = lower != nullptr && comparator_.CompareUserKeys(target, *lower) < 0;
    SeekEntries(below ? *lower : target);
    ShowForward(/*skipping=*/false);
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

  void SeekToFirst() override try {
    const CallTimer timer(statistics_.get(), HistogramType::kSeek);
    if (!StartSeek(/*forward=*/true)) return;
    if (bounds_ != nullptr) bounds_->Unfollow();
    SeekEntriesToFirst();
    ShowForward(/*skipping=*/false);
    FollowShown();
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

  void SeekToLast() override try {
    const CallTimer timer(statistics_.get(), HistogramType::kSeek);
    if (!StartSeek(/*forward=*/false)) return;
    if (bounds_ != nullptr) bounds_->Unfollow();
    SeekEntriesToLast();
    ShowBackward();
    FollowShown();
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

  void SeekForPrev(const Slice& target) override try {
    const CallTimer timer(statistics_.get(), HistogramType::kSeek);
    if (!StartSeek(/*forward=*/false)) return;
    if (bounds_ != nullptr) bounds_->Follow(target);
    const Slice* const upper = UpperBound();
    if (upper != nullptr && comparator_.CompareUserKeys(target, *upper) >= 0) {
      SeekEntriesToLast();
    } else {
      // Behind all versions of it, which are numbered from 1 on, and no further: what follows may
      // be many deletions.
      SeekEntriesBefore(target, /*sequence=*/0);
    }
    ShowBackward();
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

  void Next() override try {
    if (!Valid()) [[unlikely]]
      return;
    ++steps_;
    if (forward_) [[likely]] {
      Pass(key_);
      StepForward();
    } else {
      TurnForward();
    }
    ShowForward(/*skipping=*/true);
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

  void Prev() override try {
    if (!Valid()) [[unlikely]]
      return;
    ++steps_;
    if (forward_) {
      saved_key_.assign(key_.data(), key_.size());
      while (entries_->Valid() &&
             comparator_.CompareUserKeys(ExtractUserKey(entries_->key()), saved_key_) >= 0) {
        entries_->Prev();
      }
      forward_ = false;
      StepAll();
    }
    ShowBackward();
  } catch (const std::bad_alloc&) {
    FailForMemory();
  }

 private:
  // The iterator is of no more use.
  [[gnu::noinline]] void FailForMemory() {
    out_of_memory_ = true;
    shown_in_ = port::ProcessMark::kNone;
    status_.PermitUncheckedError();
    status_ = OutOfTransferMemory();
    status_.PermitUncheckedError();
  }

  // Returns false in another process, and if the iterator is of no more use.
  bool StartSeek(bool forward) {
    if (!made_by_.IsHere() || out_of_memory_) [[unlikely]]
      return false;
    ++seeks_;
    StepAll();
    forward_ = forward;
    shown_in_ = port::ProcessMark::kNone;
    status_.PermitUncheckedError();
    status_ = bounds_ == nullptr ? Status::OK() : bounds_->CheckTime();
    status_.PermitUncheckedError();
    return status_.ok();
  }

  // May be null.
  const Slice* LowerBound() const {
    return bounds_ != nullptr && bounds_->now().lower.has_value() ? &*bounds_->now().lower
                                                                  : nullptr;
  }
  const Slice* UpperBound() const {
    return bounds_ != nullptr && bounds_->now().upper.has_value() ? &*bounds_->now().upper
                                                                  : nullptr;
  }

  // After a seek without a target, whose prefix is that of the key that it has found.
  void FollowShown() {
    if (bounds_ != nullptr && Valid()) bounds_->Follow(key_);
  }

  // Back to the entries of the key that is shown. Where the entries have left the bounds, nothing
  // that is before those is looked at.
  [[gnu::noinline]] void TurnForward() {
    forward_ = true;
    passed_ = saved_key_;
    saved_value_.clear();
    if (entries_->Valid() && !IsBeforeBounds()) {
      entries_->Next();
    } else if (bounds_ != nullptr) {
      SeekEntries(saved_key_);
    } else {
      entries_->SeekToFirst();
    }
  }
  bool IsBeforeBounds() const {
    return bounds_ != nullptr && bounds_->EndBackward(ExtractUserKey(entries_->key()));
  }

  // A long scan is mostly in one table at a time, which lies below several iterators that choose
  // among others: it steps that one.
  [[gnu::always_inline]] void StepForward() {
    stepped_->Next();
    if (stepped_->Valid() && --steps_to_look_ != 0) [[likely]]
      return;
    LookForSole();
  }

  // Apart from StepForward(), which mostly does not need it.
  [[gnu::noinline]] void LookForSole() {
    if (!stepped_->Valid() && stepped_ != entries_.get()) entries_->SoleEnded();
    StepAll();
    InternalIterator* const sole = entries_->Valid() ? entries_->Sole() : nullptr;
    if (sole == nullptr) return;
    stepped_ = sole;
    steps_to_look_ = UINT64_MAX;
  }

  void StepAll() {
    stepped_ = entries_.get();
    steps_to_look_ = kStepsToLook;
  }

  // A target may be a key that this iterator has shown: it is copied before anything moves.
  void SeekEntries(const Slice& user_key) {
    const LookupKey target(user_key, options_.sequence);
    entries_->Seek(target.internal_key());
  }

  // Within the bounds.
  void SeekEntriesToFirst() {
    if (const Slice* const lower = LowerBound(); lower != nullptr) {
      SeekEntries(*lower);
    } else {
      entries_->SeekToFirst();
    }
  }
  void SeekEntriesToLast() {
    if (const Slice* const upper = UpperBound(); upper != nullptr) {
      SeekEntriesBefore(*upper, kSequenceNumberMax);
    } else {
      entries_->SeekToLast();
    }
  }

  // To the last entry of the keys before `user_key`, or of its versions later than `sequence`.
  void SeekEntriesBefore(const Slice& user_key, SequenceNumber sequence) {
    const LookupKey target(user_key, sequence);
    entries_->Seek(target.internal_key());
    if (entries_->Valid()) {
      entries_->Prev();
    } else if (entries_->status().ok()) {
      entries_->SeekToLast();
    }
  }

  // Where there are bounds. The move has failed then.
  bool IsLate() {
    Status in_time = bounds_->CheckTime();
    if (in_time.ok()) return false;
    status_ = std::move(in_time);
    status_.PermitUncheckedError();  // It is there for a caller that asks.
    return true;
  }

  bool IsVisible(const Slice& internal_key) const {
    return TrailerSequence(ExtractTrailer(internal_key)) <= options_.sequence;
  }

  bool Check(const Slice& internal_key) {
    if (IsValidInternalKey(internal_key)) [[likely]]
      return true;
    FailMalformed();
    return false;
  }

  // Apart from Check(), so that a step pays nothing for it; KeepPassed() and TurnForward()
  // likewise.
  [[gnu::noinline]] void FailMalformed() {
    status_ = Status::Corruption("malformed internal key");
    status_.PermitUncheckedError();  // It is there for who asks.
  }

  // Makes `user_key`, of the current entry, the one to be passed. Copied only where it must be.
  void Pass(const Slice& user_key) {
    passed_ = user_key;
    if (!entries_->stable()) KeepPassed();
  }
  [[gnu::noinline]] void KeepPassed() {
    saved_key_.assign(passed_.data(), passed_.size());
    passed_ = saved_key_;
  }

  // Entries behind passed_ have a greater user key, or that one.
  bool IsPassed(const Slice& user_key) const {
    return comparator_.bytewise() ? SameBytes(user_key, passed_)
                                  : comparator_.CompareUserKeys(user_key, passed_) <= 0;
  }

  // Shows the first visible user key at or behind the entries' position; `skipping`: that is behind
  // passed_.
  [[gnu::always_inline]] void ShowForward(bool skipping) {
    shown_in_ = port::ProcessMark::kNone;
    for (; entries_->Valid(); StepForward()) {
      const Slice entry = entries_->key();
      if (!Check(entry)) return;
      const Slice user_key = ExtractUserKey(entry);
      if (bounds_ != nullptr && (bounds_->EndForward(user_key) || IsLate())) return;
      if (!IsVisible(entry)) {
        if (skipping && passed_.data() != saved_key_.data()) KeepPassed();
        continue;
      }
      if (skipping && IsPassed(user_key)) {
        if (passed_.data() != saved_key_.data()) Pass(user_key);
        continue;
      }
      if (TrailerType(ExtractTrailer(entry)) == ValueType::kValue) {
        key_ = user_key;
        shown_in_ = made_by_.number();
        return;
      }
      Pass(user_key);
      skipping = true;
    }
  }

  // Shows the last visible user key at or before the entries' position. Versions of a key come
  // oldest first: the last one that is visible counts, unless it is a deletion.
  void ShowBackward() {
    shown_in_ = port::ProcessMark::kNone;
    bool found = false;  // saved_key_ and saved_value_ hold a candidate.
    for (; entries_->Valid(); entries_->Prev()) {
      const Slice entry = entries_->key();
      if (!Check(entry)) return;
      const Slice user_key = ExtractUserKey(entry);
      if (found && comparator_.CompareUserKeys(user_key, saved_key_) < 0) break;
      if (bounds_ != nullptr) {
        if (bounds_->EndBackward(user_key)) break;
        if (IsLate()) return;
      }
      if (!IsVisible(entry)) continue;
      found = TrailerType(ExtractTrailer(entry)) == ValueType::kValue;
      if (!found) continue;
      saved_key_.assign(user_key.data(), user_key.size());
      const Slice value = entries_->value();
      saved_value_.assign(value.data(), value.size());
    }
    if (found && entries_->status().ok()) shown_in_ = made_by_.number();
    key_ = saved_key_;
  }

  const port::ProcessMark made_by_;
  const InternalKeyComparator comparator_;
  const DbIteratorOptions options_;
  IteratorBounds* const bounds_;  // Those of the options, or null.
  const std::shared_ptr<const void> holder_;
  const std::shared_ptr<Statistics> statistics_;
  const std::unique_ptr<InternalIterator> entries_;  // After holder_: destroyed before it.

  static constexpr uint64_t kStepsToLook = 32;  // More than most seeks take.

  // The process in which an entry is shown, by number. So Valid(), which is asked at each step, is
  // false in its children.
  uint32_t shown_in_ = port::ProcessMark::kNone;
  bool forward_ = true;
  bool out_of_memory_ = false;
  // entries_, or since its last move, forward, what its Sole() is.
  InternalIterator* stepped_ = entries_.get();
  uint64_t steps_to_look_ = kStepsToLook;  // For a sole one.
  Slice key_;
  // Forward: lies in saved_key_, or in stable memory. Once a node is lost it is not looked at
  // there: entries_ fail that stand in such memory, or have left it by this step. So before a
  // further step it is taken from where entries_ stand, or copied.
  Slice passed_;
  std::string saved_key_;
  std::string saved_value_;
  Status status_;
  uint64_t seeks_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Iterator> NewDbIterator(const InternalKeyComparator& comparator,
                                        std::unique_ptr<InternalIterator> entries,
                                        const DbIteratorOptions& options,
                                        std::shared_ptr<const void> holder,
                                        std::shared_ptr<Statistics> statistics) {
  return std::make_unique<DbIterator>(comparator, std::move(entries), options, std::move(holder),
                                      std::move(statistics));
}

}  // namespace dlsm
