#include <snappy.h>

#include <algorithm>
#include <cassert>

#include "table/block.h"
#include "table/key_prefix.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {

void BlockBuilder::Add(const Slice& internal_key, const Slice& value) {
  size_t shared = 0;
  if (entries_ % restart_interval_ == 0) {
    restarts_.push_back(static_cast<uint32_t>(payload_.size()));
  } else {
    shared = CommonPrefix(last_key_, internal_key);
  }
  PutVarint32(&payload_, static_cast<uint32_t>(shared));
  PutVarint32(&payload_, static_cast<uint32_t>(internal_key.size() - shared));
  PutVarint32(&payload_, static_cast<uint32_t>(value.size()));
  payload_.append(internal_key.data() + shared, internal_key.size() - shared);
  payload_.append(value.data(), value.size());
  last_key_.assign(internal_key.data(), internal_key.size());
  ++entries_;
}

Slice BlockBuilder::Finish(CompressionType compression) {
  assert(!empty());
  for (const uint32_t restart : restarts_) PutFixed32(&payload_, restart);
  PutFixed32(&payload_, static_cast<uint32_t>(restarts_.size()));
  std::string* stored = &payload_;
  CompressionType used = kNoCompression;
  if (compression == kSnappyCompression) {
    snappy::Compress(payload_.data(), payload_.size(), &compressed_);
    if (compressed_.size() < payload_.size() - payload_.size() / 8) {
      stored = &compressed_;
      used = kSnappyCompression;
    }
  }
  stored->push_back(static_cast<char>(used));
  PutFixed32(stored, Crc32c(*stored));
  return *stored;
}

void BlockBuilder::Reset() {
  payload_.clear();
  compressed_.clear();
  restarts_.clear();
  entries_ = 0;
}

}  // namespace dlsm
