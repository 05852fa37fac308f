// The keys and values of a stress run, all derived from its seed: whoever knows key and version
// knows every byte that the database may return.
//
// Keys are numbers 0 .. count-1, in the order of their numbers, whether the database's order
// ascends by their bytes or descends. They form groups of four that lie far apart, so that a group
// spans shards: group g has the keys g, g + count/4, g + 2*count/4, ... The keys of an even group
// are only written together, by one batch; those of an odd group each by itself. A group has one
// writer, so the versions of a key are counted by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dLSM/slice.h"

namespace dlsm::stress {

class KeySpace {
 public:
  static constexpr uint64_t kGroupKeys = 4;

  // `count`: a multiple of kGroupKeys. Values have up to `value_bytes_max` bytes and a head.
  KeySpace(uint64_t seed, uint64_t count, uint64_t value_bytes_max)
      : seed_(seed), count_(count), value_bytes_max_(value_bytes_max) {}
  // Besides, one of some thousand versions has up to `large` bytes more, and one version of one key
  // has `huge`. 0: none.
  void AddLargeValues(uint64_t large, uint64_t huge) {
    large_bytes_max_ = large + 1;
    huge_bytes_ = huge;
  }

  // Bytes of keys are for a database that is ordered by ReverseBytewiseComparator().
  void Descend() { descending_ = true; }

  uint64_t count() const { return count_; }
  bool descending() const { return descending_; }
  uint64_t groups() const { return count_ / kGroupKeys; }
  uint64_t KeyOf(uint64_t group, uint64_t i) const { return group + i * groups(); }
  static bool IsBatchGroup(uint64_t group) { return group % 2 == 0; }
  // One of `writers`, each of which has groups of both kinds if there are at most WritersMax().
  uint64_t WriterOf(uint64_t group, uint64_t writers) const;
  static uint64_t WritersMax(uint64_t count) { return count / kGroupKeys / 2; }

  // Of various lengths.
  std::string KeyBytes(uint64_t key) const;
  // Behind the bytes of all smaller keys, and not behind those of `key`, which may be `count`.
  std::string LowerBound(uint64_t key) const;
  // Nothing if these are not the bytes of a key.
  std::optional<uint64_t> KeyFromBytes(const Slice& bytes) const;

  // Whether this version of the key is a deletion; version 0, before the first write, is one.
  bool IsDeletion(uint64_t key, uint32_t version) const;
  std::string ValueBytes(uint64_t key, uint32_t version) const;
  // The version of which these are the bytes; nothing if they are of no version of the key.
  std::optional<uint32_t> VersionFromBytes(uint64_t key, const Slice& bytes) const;

 private:
  uint64_t Draw(uint64_t key, uint64_t version) const;
  // What the bytes of a key begin with.
  std::string Digits(uint64_t key) const;

  const uint64_t seed_;
  const uint64_t count_;
  const uint64_t value_bytes_max_;
  uint64_t large_bytes_max_ = 1;
  uint64_t huge_bytes_ = 0;
  bool descending_ = false;
};

}  // namespace dlsm::stress
