#include "table/block.h"

#include <snappy.h>

#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Three bytes of Snappy stand for at most 64: what claims more is not uncompressed, so that nobody
// can make this process allocate out of proportion to what it received.
constexpr uint64_t kSnappyRatioMax = 22;

// `compressed` does not change meanwhile: Snappy reads how long the result is once more.
Status Uncompress(const Slice& compressed, std::unique_ptr<char[]>* to, size_t* bytes) {
  if (!snappy::GetUncompressedLength(compressed.data(), compressed.size(), bytes) ||
      *bytes > kSnappyRatioMax * (compressed.size() + 1)) {
    return Status::Corruption("a block is not what Snappy makes");
  }
  to->reset(new char[*bytes]);
  if (!snappy::RawUncompress(compressed.data(), compressed.size(), to->get())) {
    return Status::Corruption("a block cannot be uncompressed");
  }
  return Status::OK();
}

std::unique_ptr<char[]> Copied(const Slice& bytes) {
  std::unique_ptr<char[]> copy(new char[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

Status CheckChecksum(const Slice& stored) {
  const size_t covered = stored.size() - kBlockTrailerBytes + 1;
  if (Crc32c(stored.data(), covered) == DecodeFixed32(stored.data() + covered)) {
    return Status::OK();
  }
  return Status::Corruption("a block has a wrong checksum");
}

}  // namespace

// Where it lies in a mapped region, it is somebody else's to change at any moment. So its type is
// looked at once: what is read in place is never taken for compressed after that.
Status BlockPayload::Open(const Slice& stored, bool verify_checksum) {
  if (stored.size() < kBlockTrailerBytes) return Status::Corruption("a block is too short");
  const size_t payload_bytes = stored.size() - kBlockTrailerBytes;
  if (stored[payload_bytes] == kNoCompression) {
    if (verify_checksum) DLSM_RETURN_IF_ERROR(CheckChecksum(stored));
    owned_.reset();
    bytes_ = Slice(stored.data(), payload_bytes);
    return Status::OK();
  }
  std::unique_ptr<char[]> copy = Copied(stored);
  const Slice whole(copy.get(), stored.size());
  if (verify_checksum) DLSM_RETURN_IF_ERROR(CheckChecksum(whole));
  return OpenWhole(whole, std::move(copy));
}

Status BlockPayload::OpenCopy(const Slice& stored) {
  if (stored.size() < kBlockTrailerBytes) return Status::Corruption("a block is too short");
  std::unique_ptr<char[]> copy = Copied(stored);
  const Slice whole(copy.get(), stored.size());
  DLSM_RETURN_IF_ERROR(CheckChecksum(whole));
  return OpenWhole(whole, std::move(copy));
}

Status BlockPayload::OpenWhole(const Slice& stored, std::unique_ptr<char[]> copy) {
  owned_.reset();
  const Slice payload(stored.data(), stored.size() - kBlockTrailerBytes);
  switch (stored[payload.size()]) {
    case kNoCompression:
      bytes_ = payload;
      owned_ = std::move(copy);
      return Status::OK();
    case kSnappyCompression: {
      size_t bytes = 0;
      Status status = Uncompress(payload, &owned_, &bytes);
      bytes_ = status.ok() ? Slice(owned_.get(), bytes) : Slice();
      return status;
    }
    default:
      return Status::Corruption("a block has an unknown compression type");
  }
}

void BlockCursor::Open(const Slice& payload) {
  valid_ = false;
  malformed_ = true;
  restarts_ = 0;
  if (payload.size() < 2 * sizeof(uint32_t) ||
      payload.size() > std::numeric_limits<uint32_t>::max()) {
    return;
  }
  const size_t without_count = payload.size() - sizeof(uint32_t);
  const uint32_t restarts = DecodeFixed32(payload.data() + without_count);
  if (restarts == 0 || restarts > without_count / sizeof(uint32_t)) return;
  entries_ = Slice(payload.data(), without_count - restarts * sizeof(uint32_t));
  restart_offsets_ = entries_.end();
  restarts_ = restarts;
  malformed_ = false;
}

uint32_t BlockCursor::RestartOffset(uint32_t i) const {
  return DecodeFixed32(restart_offsets_ + size_t{i} * sizeof(uint32_t));
}

bool BlockCursor::Malformed() {
  valid_ = false;
  malformed_ = true;
  return false;
}

bool BlockCursor::ToRestart(uint32_t i) {
  key_.clear();
  return ParseAt(RestartOffset(i));
}

// Parses the entry at `offset`, which follows the current one or is a restart.
bool BlockCursor::ParseAt(uint32_t offset) {
  if (offset >= entries_.size()) return Malformed();
  uint32_t shared = 0;
  uint32_t other = 0;
  uint32_t value_bytes = 0;
  const char* const limit = entries_.end();
  const char* at = DecodeVarint32(entries_.data() + offset, limit, &shared);
  if (at != nullptr) at = DecodeVarint32(at, limit, &other);
  if (at != nullptr) at = DecodeVarint32(at, limit, &value_bytes);
  if (at == nullptr || shared > key_.size() ||
      uint64_t{other} + value_bytes > static_cast<uint64_t>(limit - at)) {
    return Malformed();
  }
  key_.resize(shared);
  key_.append(at, other);
  if (!IsValidInternalKey(key_)) return Malformed();
  value_ = Slice(at + other, value_bytes);
  offset_ = offset;
  next_ = static_cast<uint32_t>(value_.end() - entries_.data());
  valid_ = true;
  return true;
}

void BlockCursor::SeekToFirst() {
  if (!malformed_) ToRestart(0);
}

void BlockCursor::SeekToLast() {
  if (malformed_ || !ToRestart(restarts_ - 1)) return;
  while (next_ < entries_.size() && ParseAt(next_)) {
  }
}

// The last restart whose key is before `target`, or 0.
uint32_t BlockCursor::LastRestartBefore(const Slice& target) {
  uint32_t low = 0;
  uint32_t high = restarts_ - 1;
  while (low < high && !malformed_) {
    const uint32_t middle = high - (high - low) / 2;
    if (!ToRestart(middle)) break;
    if (comparator_.Compare(key_, target) < 0) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void BlockCursor::Seek(const Slice& target) {
  if (malformed_) return;
  const uint32_t restart = LastRestartBefore(target);
  if (malformed_ || !ToRestart(restart)) return;
  while (valid_ && comparator_.Compare(key_, target) < 0) Next();
}

void BlockCursor::Next() {
  assert(valid_);
  if (next_ >= entries_.size()) {
    valid_ = false;
  } else {
    ParseAt(next_);
  }
}

// Keys are only known from their restart on, so this goes back to it.
void BlockCursor::Prev() {
  assert(valid_);
  const uint32_t current = offset_;
  uint32_t low = 0;  // The last restart before `current`.
  uint32_t high = restarts_ - 1;
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;
    if (RestartOffset(middle) < current) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  // Read once: where the block is somebody else's to change, this still ends before `current`.
  const uint32_t restart = RestartOffset(low);
  if (restart >= current) {
    valid_ = false;
    return;
  }
  key_.clear();
  if (!ParseAt(restart)) return;
  while (next_ < current && ParseAt(next_)) {
  }
}

}  // namespace dlsm
