#include "dLSM/slice_transform.h"

#include <algorithm>
#include <memory>

namespace dlsm {
namespace {

class FirstBytes final : public SliceTransform {
 public:
  // `bytes_min`: that long a key has to be to have a prefix.
  FirstBytes(const char* name, size_t bytes, size_t bytes_min)
      : name_(name), bytes_(bytes), bytes_min_(bytes_min) {}

  const char* Name() const override { return name_; }
  Slice Transform(const Slice& key) const override {
    return Slice(key.data(), std::min(key.size(), bytes_));
  }
  bool InDomain(const Slice& key) const override { return key.size() >= bytes_min_; }

 private:
  const char* const name_;
  const size_t bytes_;
  const size_t bytes_min_;
};

}  // namespace

const SliceTransform* NewFixedPrefixTransform(size_t bytes) {
  return std::make_unique<FirstBytes>("dlsm.FixedPrefix", bytes, bytes).release();
}

const SliceTransform* NewCappedPrefixTransform(size_t bytes) {
  return std::make_unique<FirstBytes>("dlsm.CappedPrefix", bytes, 0).release();
}

}  // namespace dlsm
