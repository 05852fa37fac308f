#include "dLSM/write_batch.h"

#include <limits>
#include <new>
#include <utility>

#include "util/null_argument.h"
#include "util/write_batch_reader.h"

namespace dlsm {
namespace {

constexpr size_t kHeaderBytes = WriteBatchReader::kHeaderBytes;

bool Fits(const Slice& bytes) { return bytes.size() <= std::numeric_limits<uint32_t>::max(); }

bool CanCount(const std::string& rep, uint32_t updates) {
  return updates <= std::numeric_limits<uint32_t>::max() - DecodeFixed32(rep.data());
}

// Last of all: a call that throws because there is no memory has changed nothing.
void AddToCount(std::string* rep, uint32_t updates) {
  EncodeFixed32(rep->data(), DecodeFixed32(rep->data()) + updates);
}

// `append` adds an update in several pieces.
template <typename Append>
void AddUpdate(std::string* rep, const Append& append) {
  const size_t bytes = rep->size();
  try {
    append();
  } catch (const std::bad_alloc&) {
    rep->resize(bytes);
    throw;
  }
  AddToCount(rep, 1);
}

// An update of a key and something with it.
void AddPair(std::string* rep, UpdateType type, const Slice& key, const Slice& other) {
  if (!CanCount(*rep, 1) || !Fits(key) || !Fits(other)) {
    rep->push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  AddUpdate(rep, [&] {
    rep->push_back(static_cast<char>(type));
    PutLengthPrefixed(rep, key);
    PutLengthPrefixed(rep, other);
  });
}

}  // namespace

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::WriteBatch(WriteBatch&& other) noexcept
    : rep_(std::move(other.rep_)), save_points_(std::move(other.save_points_)) {
  other.Clear();
}

WriteBatch& WriteBatch::operator=(WriteBatch&& other) noexcept {
  if (this == &other) return *this;
  rep_ = std::move(other.rep_);
  save_points_ = std::move(other.save_points_);
  other.Clear();
  return *this;
}

// What is left has a place within every string, so there is always memory for it.
void WriteBatch::Clear() {
  rep_.assign(kHeaderBytes, '\0');
  save_points_.clear();
}

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

uint32_t WriteBatch::Count() const { return DecodeFixed32(rep_.data()); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  AddPair(&rep_, UpdateType::kPut, key, value);
}

void WriteBatch::Delete(const Slice& key) {
  if (!CanCount(rep_, 1) || !Fits(key)) {
    rep_.push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  AddUpdate(&rep_, [&] {
    rep_.push_back(static_cast<char>(UpdateType::kDelete));
    PutLengthPrefixed(&rep_, key);
  });
}

void WriteBatch::DeleteRange(const Slice& begin, const Slice& end) {
  AddPair(&rep_, UpdateType::kDeleteRange, begin, end);
}

void WriteBatch::Append(const WriteBatch& source) {
  const size_t bytes = source.rep_.size() - kHeaderBytes;  // `source` may be this batch itself.
  const uint32_t updates = source.Count();
  if (!CanCount(rep_, updates)) {
    rep_.push_back(static_cast<char>(WriteBatchReader::kTooLarge));
    return;
  }
  rep_.append(source.rep_, kHeaderBytes, bytes);
  AddToCount(&rep_, updates);
}

void WriteBatch::SetSavePoint() { save_points_.push_back({rep_.size(), Count()}); }

Status WriteBatch::RollbackToSavePoint() {
  if (save_points_.empty()) return Status::NotFound("the write batch has no save point");
  rep_.resize(save_points_.back().bytes);
  EncodeFixed32(rep_.data(), save_points_.back().count);
  save_points_.pop_back();
  return Status::OK();
}

Status WriteBatch::PopSavePoint() {
  if (save_points_.empty()) return Status::NotFound("the write batch has no save point");
  save_points_.pop_back();
  return Status::OK();
}

Status WriteBatch::Iterate(Handler* handler) const {
  if (handler == nullptr) return NullArgument("handler");
  WriteBatchReader reader(*this);
  UpdateType type;
  Slice key;
  Slice value;
  while (reader.Next(&type, &key, &value)) {
    switch (type) {
      case UpdateType::kPut:
        handler->Put(key, value);
        break;
      case UpdateType::kDelete:
        handler->Delete(key);
        break;
      case UpdateType::kDeleteRange:
        if (handler->DeleteRange(key, value)) break;
        return Status::InvalidArgument("the batch deletes a range, of which the handler knows not",
                                       "override WriteBatch::Handler::DeleteRange()");
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
