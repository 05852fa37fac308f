// An iterable of pairs as the sorted stream that DB::IngestSorted() takes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "dLSM/sorted_source.h"
#include "script/python/values.h"

namespace dlsm::python {

// Made and destroyed with the GIL. Next() is called without, and takes it for many pairs at a time.
class SortedPairs final : public SortedSource {
 public:
  // Throws a TypeError for what cannot be iterated over.
  explicit SortedPairs(nb::handle pairs) : iterator_(nb::iter(pairs)) {}

  bool Next(Slice* key, Slice* value) override {
    if (next_ == pairs_.size() && !Fetch()) return false;
    *key = pairs_[next_].first.slice();
    *value = pairs_[next_].second.slice();
    ++next_;
    return true;
  }
  Status status() const override {
    return failure_ == nullptr ? Status::OK() : Status::Aborted("the iterable has failed");
  }

  // With the GIL: throws what the iterable, or a pair of it, has thrown.
  void Rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  static constexpr size_t kPairsAtOnce = 256;
  static constexpr const char* kNoPair = "ingest_sorted() takes pairs of a key and a value";

  static std::pair<nb::object, nb::object> Divided(nb::handle pair) {
    const nb::object items = nb::steal(PySequence_Fast(pair.ptr(), kNoPair));
    if (!items.is_valid()) throw nb::python_error();
    if (PySequence_Fast_GET_SIZE(items.ptr()) != 2) throw nb::type_error(kNoPair);
    return {nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), 0)),
            nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), 1))};
  }

  bool Fetch() {
    const nb::gil_scoped_acquire with_gil;
    pairs_.clear();
    next_ = 0;
    try {
      while (pairs_.size() < kPairsAtOnce && iterator_ != nb::iterator::sentinel()) {
        const auto [key, value] = Divided(*iterator_);
        pairs_.emplace_back(Key(key), Bytes(value));
        ++iterator_;
      }
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
    return !pairs_.empty();
  }

  nb::iterator iterator_;
  std::vector<std::pair<Key, Bytes>> pairs_;
  size_t next_ = 0;
  std::exception_ptr failure_;
};

}  // namespace dlsm::python
