// leveldb::WriteBatch. Its bytes are those of LevelDB, so that programs may look at them.
#include "leveldb/write_batch.h"

#include <cstdint>
#include <string>

#include "db/leveldb/translate.h"
#include "leveldb/slice.h"
#include "util/coding.h"

namespace leveldb {
namespace {

constexpr size_t kCountOffset = 8;
constexpr size_t kBatchHeaderBytes = 12;
constexpr char kDeletion = 0;
constexpr char kValue = 1;

using dlsm::compat::ToDlsm;
using dlsm::compat::ToLeveldb;

uint32_t CountOf(const std::string& rep) { return dlsm::DecodeFixed32(rep.data() + kCountOffset); }

void AddToCount(std::string* rep, uint32_t updates) {
  dlsm::EncodeFixed32(rep->data() + kCountOffset, CountOf(*rep) + updates);
}

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }
WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() { rep_.assign(kBatchHeaderBytes, '\0'); }

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  AddToCount(&rep_, 1);
  rep_.push_back(kValue);
  dlsm::PutLengthPrefixed(&rep_, ToDlsm(key));
  dlsm::PutLengthPrefixed(&rep_, ToDlsm(value));
}

void WriteBatch::Delete(const Slice& key) {
  AddToCount(&rep_, 1);
  rep_.push_back(kDeletion);
  dlsm::PutLengthPrefixed(&rep_, ToDlsm(key));
}

void WriteBatch::Append(const WriteBatch& source) {
  // The batch may be its own source.
  const size_t bytes = source.rep_.size() - kBatchHeaderBytes;
  const uint32_t updates = CountOf(source.rep_);
  rep_.append(source.rep_, kBatchHeaderBytes, bytes);
  AddToCount(&rep_, updates);
}

Status WriteBatch::Iterate(Handler* handler) const {
  if (rep_.size() < kBatchHeaderBytes) return Status::Corruption("a batch has no header");
  dlsm::Slice rest(rep_.data() + kBatchHeaderBytes, rep_.size() - kBatchHeaderBytes);
  uint32_t found = 0;
  while (!rest.empty()) {
    const char type = rest[0];
    rest.remove_prefix(1);
    dlsm::Slice key;
    dlsm::Slice value;
    if (type != kValue && type != kDeletion) return Status::Corruption("unknown update in a batch");
    if (!dlsm::GetLengthPrefixed(&rest, &key)) return Status::Corruption("bad key in a batch");
    if (type == kDeletion) {
      handler->Delete(ToLeveldb(key));
    } else {
      if (!dlsm::GetLengthPrefixed(&rest, &value)) {
        return Status::Corruption("bad value in a batch");
      }
      handler->Put(ToLeveldb(key), ToLeveldb(value));
    }
    ++found;
  }
  if (found == CountOf(rep_)) return Status::OK();
  return Status::Corruption("a batch has another number of updates than it says");
}

}  // namespace leveldb
