// Iterators, as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "script/python/handle.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace dlsm::python {

namespace nb = nanobind;

// The first key after all those that begin with `prefix`; none if there is no such key.
inline std::optional<std::string> EndOfPrefix(std::string prefix) {
  while (!prefix.empty()) {
    if (const auto last = static_cast<unsigned char>(prefix.back()); last != 0xff) {
      prefix.back() = static_cast<char>(last + 1);
      return prefix;
    }
    prefix.pop_back();
  }
  return std::nullopt;
}

struct Bounds {
  std::optional<std::string> lower;
  std::optional<std::string> upper;

  static Bounds Of(nb::handle start, nb::handle stop, nb::handle prefix) {
    Bounds bounds;
    if (!start.is_none()) bounds.lower = Bytes(start).ToString();
    if (!stop.is_none()) bounds.upper = Bytes(stop).ToString();
    if (prefix.is_none()) return bounds;
    const std::string begin = Bytes(prefix).ToString();
    const std::optional<std::string> end = EndOfPrefix(begin);
    if (!bounds.lower.has_value() || *bounds.lower < begin) bounds.lower = begin;
    if (end.has_value() && (!bounds.upper.has_value() || *end < *bounds.upper)) bounds.upper = end;
    return bounds;
  }
};

// It reads some entries ahead, so that not each of them costs a turn with the interpreter's lock.
class PythonIterator : public Dependent {
 public:
  PythonIterator(std::shared_ptr<Handle> handle, std::shared_ptr<SnapshotHolder> snapshot,
                 Bounds bounds, bool reverse, bool keys, bool values)
      : handle_(std::move(handle)),
        snapshot_(std::move(snapshot)),
        bounds_(std::move(bounds)),
        reverse_(reverse),
        keys_(keys),
        values_(values) {
    if (bounds_.lower.has_value()) lower_ = Slice(*bounds_.lower);
    if (bounds_.upper.has_value()) upper_ = Slice(*bounds_.upper);
    empty_ = bounds_.lower.has_value() && bounds_.upper.has_value() && lower_.compare(upper_) >= 0;
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    ReadOptions options = AsOf(snapshot_);
    if (bounds_.lower.has_value()) options.iterate_lower_bound = &lower_;
    if (bounds_.upper.has_value()) options.iterate_upper_bound = &upper_;
    iterator_.reset(db->NewIterator(options));
    handle_->Add(this);
  }
  ~PythonIterator() override { Release(); }

  void LetGo(DB*) override { iterator_.reset(); }

  void Close() {
    CheckIdle();
    Release();
  }

  void Seek(nb::handle key) {
    const Bytes target(key);
    CheckIdle();
    CheckOpen();
    target_ = target.ToString();
    positioned_ = done_ = false;
    failure_.reset();
    count_ = next_ = 0;
    chunk_ = 1;
  }

  nb::object Next() {
    CheckIdle();
    CheckOpen();
    if (next_ == count_) {
      if (done_) throw nb::stop_iteration();
      Fill();
      if (next_ == count_) {
        done_ = true;
        if (failure_.has_value()) throw Error(*std::exchange(failure_, std::nullopt));
        throw nb::stop_iteration();
      }
    }
    const Entry& entry = entries_[next_++];
    if (!values_) return ToPython(entry.key);
    if (!keys_) return ToPython(entry.value);
    return nb::make_tuple(ToPython(entry.key), ToPython(entry.value));
  }

 private:
  static constexpr size_t kChunkMax = 128;
  static constexpr size_t kChunkBytes = size_t{64} << 10;

  struct Entry {
    std::string key;
    std::string value;
  };

  // The GIL guards busy_, which is true while a thread reads ahead without the GIL.
  void CheckIdle() const {
    if (busy_) throw Error("another thread is using the iterator");
  }
  void CheckOpen() const {
    handle_->CheckOpen();
    if (closed_) throw Error("the iterator is closed");
  }

  void Fill() {
    if (empty_ || failure_.has_value()) return;
    struct Busy {
      explicit Busy(bool* of) : busy(of) { *busy = true; }
      ~Busy() { *busy = false; }
      bool* busy;
    };
    const Busy busy(&busy_);
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    count_ = next_ = 0;
    entries_.resize(chunk_);
    for (size_t bytes = 0; count_ < chunk_ && bytes < kChunkBytes; ++count_) {
      Move();
      if (!iterator_->Valid()) {
        if (Status status = iterator_->status(); !status.ok()) failure_ = std::move(status);
        done_ = !failure_.has_value();
        return;
      }
      Entry& entry = entries_[count_];
      const Slice key = iterator_->key();
      entry.key.assign(key.data(), key.size());
      bytes += key.size();
      if (!values_) continue;
      const Slice value = iterator_->value();
      entry.value.assign(value.data(), value.size());
      bytes += value.size();
    }
    chunk_ = std::min(2 * chunk_, kChunkMax);
  }

  void Move() {
    if (std::exchange(positioned_, true)) {
      return reverse_ ? iterator_->Prev() : iterator_->Next();
    }
    if (reverse_) {
      const bool behind =
          bounds_.upper.has_value() && target_.has_value() && *target_ >= upper_.ToStringView();
      return target_.has_value() && !behind ? iterator_->SeekForPrev(*target_)
                                            : iterator_->SeekToLast();
    }
    const bool before =
        bounds_.lower.has_value() && target_.has_value() && *target_ < lower_.ToStringView();
    return target_.has_value() && !before ? iterator_->Seek(*target_) : iterator_->SeekToFirst();
  }

  void Release() {
    if (std::exchange(closed_, true)) return;
    const WithoutGil released;
    if (!handle_->Remove(this)) static_cast<void>(iterator_.release());
    snapshot_.reset();
  }

  const std::shared_ptr<Handle> handle_;
  std::shared_ptr<SnapshotHolder> snapshot_;
  const Bounds bounds_;
  const bool reverse_;
  const bool keys_;
  const bool values_;
  Slice lower_;
  Slice upper_;
  bool empty_ = false;
  std::unique_ptr<Iterator> iterator_;

  bool closed_ = false;
  bool busy_ = false;
  bool positioned_ = false;
  bool done_ = false;  // Nothing comes after entries_.
  std::optional<Status> failure_;
  std::optional<std::string> target_;
  size_t chunk_ = 1;
  std::vector<Entry> entries_;  // Those in [next_, count_) are still to be returned.
  size_t next_ = 0;
  size_t count_ = 0;
};

}  // namespace dlsm::python
