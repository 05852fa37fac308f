// Keys in messages and manifests: each without what it has in common with the last long one before.
//
//   varint32 bytes that it begins with, as that one does | the rest: length-prefixed
//
// Long are keys of 256 bytes and more. Where keys of tables must be as long, to be told apart
// (table_bounds.h), they have most of their bytes in common: so these are written once.
#pragma once

#include <cstdint>
#include <string>

#include "dLSM/slice.h"

namespace dlsm {

// Writes keys one after the other. Used by one thread.
class KeyWriter {
 public:
  // Without `sharing` keys are length-prefixed and no more.
  explicit KeyWriter(bool sharing) : sharing_(sharing) {}

  // `key` stays where it is as long as this is used.
  void Put(const Slice& key, std::string* to);
  // Of all keys so far.
  uint64_t key_bytes() const { return key_bytes_; }

 private:
  const bool sharing_;
  Slice last_long_;
  uint64_t key_bytes_ = 0;
};

// Reads what such a writer has written.
class KeyReader {
 public:
  // `key_bytes_max`: of all keys together. A few bytes can stand for a long key, so what reads them
  // from others must say how much memory they may take.
  KeyReader(bool sharing, uint64_t key_bytes_max)
      : sharing_(sharing), key_bytes_left_(key_bytes_max) {}

  // Takes a key off the front of *from. False, with both unspecified, if there is none or it is too
  // long.
  bool Get(Slice* from, std::string* key);

 private:
  const bool sharing_;
  uint64_t key_bytes_left_;
  std::string last_long_;
};

}  // namespace dlsm
