// leveldb::Comparator: the built-in one, and those of programs.
#include "leveldb/comparator.h"

#include <memory>
#include <string>

#include "db/leveldb/adapters.h"
#include "db/leveldb/translate.h"

namespace leveldb {

Comparator::~Comparator() = default;

}  // namespace leveldb

namespace dlsm::compat {
namespace {

class Bytewise final : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    return a.compare(b);
  }
  const char* Name() const override { return "leveldb.BytewiseComparator"; }
  void FindShortestSeparator(std::string* start, const leveldb::Slice& limit) const override {
    dlsm::BytewiseComparator()->FindShortestSeparator(start, ToDlsm(limit));
  }
  void FindShortSuccessor(std::string* key) const override {
    // The first byte that can grow does, and ends the key.
    for (size_t i = 0; i < key->size(); ++i) {
      const auto byte = static_cast<unsigned char>((*key)[i]);
      if (byte == 0xff) continue;
      (*key)[i] = static_cast<char>(byte + 1);
      key->resize(i + 1);
      return;
    }
  }
};

class OfProgram final : public dlsm::Comparator {
 public:
  explicit OfProgram(const leveldb::Comparator& own) : own_(own) {}

  int Compare(const dlsm::Slice& a, const dlsm::Slice& b) const override {
    return own_.Compare(ToLeveldb(a), ToLeveldb(b));
  }
  const char* Name() const override { return own_.Name(); }
  void FindShortestSeparator(std::string* start, const dlsm::Slice& limit) const override {
    own_.FindShortestSeparator(start, ToLeveldb(limit));
  }
  void FindShortSuccessor(std::string* key) const override { own_.FindShortSuccessor(key); }

 private:
  const leveldb::Comparator& own_;
};

}  // namespace

std::unique_ptr<const dlsm::Comparator> AdaptComparator(const leveldb::Comparator& comparator) {
  if (&comparator == leveldb::BytewiseComparator()) return nullptr;
  return std::make_unique<OfProgram>(comparator);
}

}  // namespace dlsm::compat

namespace leveldb {

const Comparator* BytewiseComparator() {
  // Never destroyed: static objects may be databases.
  static const Comparator& built_in = *std::make_unique<dlsm::compat::Bytewise>().release();
  return &built_in;
}

}  // namespace leveldb
