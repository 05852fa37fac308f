#include "dLSM/comparator.h"

#include <algorithm>
#include <memory>
#include <string>

namespace dlsm {
namespace {

size_t CommonPrefix(const Slice& a, const Slice& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

unsigned char ByteAt(const Slice& bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
  const char* Name() const override { return "dlsm.BytewiseComparator"; }

  // The prefix up to and with the first byte that can be raised without reaching `limit`.
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    const size_t differ = CommonPrefix(*start, limit);
    if (differ >= start->size() || differ >= limit.size()) return;
    const int raised = ByteAt(*start, differ) + 1;
    const int bound = ByteAt(limit, differ);
    // Equal to the bound is still before `limit` if the limit goes on after that byte.
    if (raised < bound || (raised == bound && limit.size() > differ + 1)) {
      (*start)[differ] = static_cast<char>(raised);
      start->resize(differ + 1);
    }
  }

  // The first byte that can be raised, raised; keys of 0xff only have no shorter successor.
  void FindShortSuccessor(std::string* key) const override {
    for (size_t i = 0; i < key->size(); ++i) {
      const unsigned char byte = ByteAt(*key, i);
      if (byte == 0xff) continue;
      (*key)[i] = static_cast<char>(byte + 1);
      key->resize(i + 1);
      return;
    }
  }
};

class ReverseBytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "dlsm.ReverseBytewiseComparator"; }

  // In this order a prefix of a key comes after the key, so cutting is enough: what is left still
  // comes before `limit` if it holds the first byte that is greater than the limit's.
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    const size_t differ = CommonPrefix(*start, limit);
    if (differ < start->size()) start->resize(differ + 1);
  }
  void FindShortSuccessor(std::string* key) const override {
    if (key->size() > 1) key->resize(1);
  }
};

}  // namespace

// Never destroyed: static handles flush when they close, after static destruction began.
const Comparator* BytewiseComparator() {
  static const Comparator* const comparator = std::make_unique<Bytewise>().release();
  return comparator;
}

const Comparator* ReverseBytewiseComparator() {
  static const Comparator* const comparator = std::make_unique<ReverseBytewise>().release();
  return comparator;
}

}  // namespace dlsm
