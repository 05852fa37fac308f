#include "dLSM/write_batch.h"

#include <limits>

#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

constexpr size_t kHeaderBytes = WriteBatchReader::kHeaderBytes;

bool Fits(const Slice& bytes) { return bytes.size() <= std::numeric_limits<uint32_t>::max(); }

// False, and nothing is added, where so many cannot be counted.
bool AddToCount(std::string* rep, uint32_t updates) {
  const uint32_t count = DecodeFixed32(rep->data());
  if (updates > std::numeric_limits<uint32_t>::max() - count) return false;
  EncodeFixed32(rep->data(), count + updates);
  return true;
}

}  // namespace

WriteBatch::WriteBatch() { Clear(); }

void WriteBatch::Clear() { rep_.assign(kHeaderBytes, '\0'); }

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

uint32_t WriteBatch::Count() const { return DecodeFixed32(rep_.data()); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  if (!AddToCount(&rep_, 1) || !Fits(key) || !Fits(value)) {
    rep_.push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  rep_.push_back(static_cast<char>(UpdateType::kPut));
  PutLengthPrefixed(&rep_, key);
  PutLengthPrefixed(&rep_, value);
}

void WriteBatch::Delete(const Slice& key) {
  if (!AddToCount(&rep_, 1) || !Fits(key)) {
    rep_.push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  rep_.push_back(static_cast<char>(UpdateType::kDelete));
  PutLengthPrefixed(&rep_, key);
}

void WriteBatch::Append(const WriteBatch& source) {
  const size_t bytes = source.rep_.size() - kHeaderBytes;  // `source` may be this batch itself.
  if (!AddToCount(&rep_, source.Count())) {
    rep_.push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  rep_.append(source.rep_, kHeaderBytes, bytes);
}

Status WriteBatch::Iterate(Handler* handler) const {
  WriteBatchReader reader(*this);
  UpdateType type;
  Slice key;
  Slice value;
  while (reader.Next(&type, &key, &value)) {
    if (type == UpdateType::kPut) {
      handler->Put(key, value);
    } else {
      handler->Delete(key);
    }
  }
  return reader.status();
}

WriteBatchReader::WriteBatchReader(const Slice& contents) {
  if (contents.size() < kHeaderBytes) {
    damaged_ = true;
    return;
  }
  count_ = DecodeFixed32(contents.data());
  payload_bytes_ = contents.size() - kHeaderBytes;
  rest_ = Slice(contents.data() + kHeaderBytes, payload_bytes_);
}

Status WriteBatchReader::status() const {
  if (damaged_) return Status::Corruption("the write batch ends within an update");
  if (!rest_.empty()) {
    if (static_cast<uint8_t>(rest_[0]) == kTooLarge) {
      return Status::InvalidArgument(
          "the write batch was given a key or value of 4 GiB or more, or 2^32 updates",
          "write it in several batches, and keys and values in parts");
    }
    return Status::Corruption("the write batch holds an update of unknown type");
  }
  if (seen_ != count_) {
    return Status::Corruption("the write batch holds more or fewer updates than it says");
  }
  return Status::OK();
}

}  // namespace dlsm
