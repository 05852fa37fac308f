#include "db/leveldb/database.h"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "db/leveldb/iterators.h"
#include "db/leveldb/translate.h"
#include "util/log.h"

namespace dlsm::compat {
namespace {

// So many bytes of entries are counted one by one, which takes some milliseconds.
constexpr uint64_t kCountedBytesMax = uint64_t{4} << 20;

class BatchCopier final : public leveldb::WriteBatch::Handler {
 public:
  explicit BatchCopier(dlsm::WriteBatch* batch) : batch_(*batch) {}
  void Put(const leveldb::Slice& key, const leveldb::Slice& value) override {
    batch_.Put(compat::ToDlsm(key), compat::ToDlsm(value));
  }
  void Delete(const leveldb::Slice& key) override { batch_.Delete(compat::ToDlsm(key)); }

 private:
  dlsm::WriteBatch& batch_;
};

}  // namespace

class Database::OwnSnapshot final : public leveldb::Snapshot {
 public:
  explicit OwnSnapshot(const dlsm::Snapshot* own) : own_(own) {}
  ~OwnSnapshot() override = default;

  const dlsm::Snapshot* own() const { return own_; }

 private:
  const dlsm::Snapshot* const own_;
};

Database::Database(Parts parts) : parts_(std::move(parts)) {}

Database::~Database() {
  for (const OwnSnapshot* snapshot : snapshots_) {
    parts_.db->ReleaseSnapshot(std::unique_ptr<const OwnSnapshot>(snapshot)->own());
  }
  const dlsm::Status closed = parts_.db->Close();
  parts_.db.reset();
  if (closed.ok()) {
    parts_.log.Write("closed");
    return;
  }
  parts_.log.Write("closed, with an error: " + closed.ToString());
  dlsm::Log().Error("{}: closed, with an error: {}", parts_.path, closed.ToString());
}

leveldb::Status Database::Put(const leveldb::WriteOptions& options, const leveldb::Slice& key,
                              const leveldb::Slice& value) {
  return ToLeveldb(parts_.db->Put(ToDlsm(options), compat::ToDlsm(key), compat::ToDlsm(value)));
}

leveldb::Status Database::Delete(const leveldb::WriteOptions& options, const leveldb::Slice& key) {
  return ToLeveldb(parts_.db->Delete(ToDlsm(options), compat::ToDlsm(key)));
}

leveldb::Status Database::Write(const leveldb::WriteOptions& options,
                                leveldb::WriteBatch* updates) {
  dlsm::WriteBatch batch;
  if (updates != nullptr) {
    BatchCopier copier(&batch);
    leveldb::Status status = updates->Iterate(&copier);
    if (!status.ok()) return status;
  }
  return ToLeveldb(parts_.db->Write(ToDlsm(options), &batch));
}

dlsm::WriteOptions Database::ToDlsm(const leveldb::WriteOptions& options) const {
  dlsm::WriteOptions own;
  own.sync = options.sync && !parts_.in_memory;
  return own;
}

dlsm::ReadOptions Database::ToDlsm(const leveldb::ReadOptions& options) {
  dlsm::ReadOptions own;
  own.verify_checksums = options.verify_checksums;
  own.fill_cache = options.fill_cache;
  if (options.snapshot != nullptr) {
    own.snapshot = static_cast<const OwnSnapshot*>(options.snapshot)->own();
  }
  return own;
}

leveldb::Status Database::Get(const leveldb::ReadOptions& options, const leveldb::Slice& key,
                              std::string* value) {
  const dlsm::Status status = parts_.db->Get(ToDlsm(options), compat::ToDlsm(key), value);
  if (status.IsNotFound()) return leveldb::Status::NotFound(leveldb::Slice());
  return ToLeveldb(status);
}

leveldb::Iterator* Database::NewIterator(const leveldb::ReadOptions& options) {
  return WrapIterator(std::unique_ptr<dlsm::Iterator>(parts_.db->NewIterator(ToDlsm(options))))
      .release();
}

const leveldb::Snapshot* Database::GetSnapshot() {
  auto snapshot = std::make_unique<const OwnSnapshot>(parts_.db->GetSnapshot());
  const port::MutexLock lock(mutex_);
  snapshots_.insert(snapshot.get());
  return snapshot.release();
}

void Database::ReleaseSnapshot(const leveldb::Snapshot* snapshot) {
  if (snapshot == nullptr || !opened_by_.IsHere()) return;
  const std::unique_ptr<const OwnSnapshot> own(static_cast<const OwnSnapshot*>(snapshot));
  {
    const port::MutexLock lock(mutex_);
    snapshots_.erase(own.get());
  }
  parts_.db->ReleaseSnapshot(own->own());
}

bool Database::GetProperty(const leveldb::Slice& property, std::string* value) {
  value->clear();
  return parts_.db->GetProperty(compat::ToDlsm(property), value);
}

void Database::GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) {
  std::vector<dlsm::Range> own;
  for (int i = 0; i < n; ++i) {
    sizes[i] = 0;
    own.emplace_back(compat::ToDlsm(range[i].start), compat::ToDlsm(range[i].limit));
  }
  parts_.db->GetApproximateSizes(own.data(), n, sizes);
  for (int i = 0; i < n; ++i) {
    if (sizes[i] == 0) sizes[i] = BytesInMemtables(own[static_cast<size_t>(i)]);
  }
}

uint64_t Database::BytesInMemtables(const dlsm::Range& range) {
  dlsm::ReadOptions options;
  options.iterate_upper_bound = &range.limit;
  const std::unique_ptr<dlsm::Iterator> entry(parts_.db->NewIterator(options));
  uint64_t bytes = 0;
  for (entry->Seek(range.start); entry->Valid() && bytes < kCountedBytesMax; entry->Next()) {
    bytes += entry->key().size() + entry->value().size();
  }
  return bytes;
}

void Database::CompactRange(const leveldb::Slice* begin, const leveldb::Slice* end) {
  dlsm::Slice first;
  dlsm::Slice last;
  if (begin != nullptr) first = compat::ToDlsm(*begin);
  if (end != nullptr) last = compat::ToDlsm(*end);
  const dlsm::Status status = parts_.db->CompactRange(begin == nullptr ? nullptr : &first,
                                                      end == nullptr ? nullptr : &last);
  // The call has nothing to tell it by.
  if (!status.ok()) parts_.log.Write("CompactRange failed: " + status.ToString());
}

}  // namespace dlsm::compat
