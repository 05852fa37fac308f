#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dLSM/backup.h"
#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "db/backup/backup_file.h"
#include "db/backup/backup_format.h"
#include "util/escape.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

// An iterator keeps all tables of its moment at the memory nodes, also those that merges have
// replaced since. So after so many blocks the copy goes on with another one of the same snapshot.
constexpr uint64_t kBlocksPerIterator = 64;

// Of a snapshot that this call has taken.
class OwnSnapshot {
 public:
  OwnSnapshot(DB* db, const Snapshot* given)
      : db_(db), own_(given == nullptr ? db->GetSnapshot() : nullptr), given_(given) {}
  OwnSnapshot(const OwnSnapshot&) = delete;
  OwnSnapshot& operator=(const OwnSnapshot&) = delete;
  ~OwnSnapshot() { db_->ReleaseSnapshot(own_); }

  const Snapshot* get() const { return given_ == nullptr ? own_ : given_; }

 private:
  DB* const db_;
  const Snapshot* const own_;
  const Snapshot* const given_;
};

Status CheckOptions(const BackupOptions& options) {
  if (options.compression != kNoCompression && options.compression != kSnappyCompression) {
    return Status::InvalidArgument(
        fmt::format("BackupOptions::compression is {}", static_cast<int>(options.compression)),
        "use kNoCompression or kSnappyCompression");
  }
  if (options.block_bytes < kBackupBlockBytesMin || options.block_bytes > kBackupBlockBytesMax) {
    return Status::InvalidArgument(
        fmt::format("BackupOptions::block_bytes is {}", options.block_bytes),
        fmt::format("use {} to {}", kBackupBlockBytesMin, kBackupBlockBytesMax));
  }
  return Status::OK();
}

// What a database that is open says about itself. False if it is closed.
bool TakeFacts(DB* db, BackupInfo* info) {
  std::string boundaries;
  if (!db->GetProperty("dlsm.comparator", &info->comparator) ||
      !db->GetProperty("dlsm.filter-policy", &info->filter_policy) ||
      !db->GetProperty("dlsm.shard-boundaries", &boundaries)) {
    return false;
  }
  std::string_view rest = boundaries;
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    std::string boundary;
    if (!Unescape(rest.substr(0, end), &boundary).ok()) return false;
    info->shard_boundaries.push_back(std::move(boundary));
    rest.remove_prefix(end + 1);
  }
  info->written_unix_micros =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
  return true;
}

// Appends blocks of entries to a file.
class BlockWriter {
 public:
  BlockWriter(const BackupOptions& options, BackupFile* file)
      : block_bytes_(options.block_bytes), builder_(options.compression), file_(file) {}

  Status Add(const Slice& key, const Slice& value) {
    builder_.Add(key, value);
    ++footer_.entries;
    footer_.bytes += key.size() + value.size();
    return builder_.bytes() < block_bytes_ ? Status::OK() : FinishBlock();
  }

  Status Finish() {
    if (!builder_.empty()) DLSM_RETURN_IF_ERROR(FinishBlock());
    footer_.file_crc = file_->crc();
    return file_->Append(footer_.Encode());
  }

  const BackupFooter& footer() const { return footer_; }

 private:
  Status FinishBlock() {
    ++footer_.blocks;
    return file_->Append(builder_.Finish());
  }

  const size_t block_bytes_;
  BackupBlockBuilder builder_;
  BackupFile* const file_;
  BackupFooter footer_;
};

// Goes on behind *last, or from the first key if there is none yet, for kBlocksPerIterator.
Status CopyPart(DB* db, const ReadOptions& read, BlockWriter* to, bool* begun, std::string* last,
                bool* end) {
  const std::unique_ptr<Iterator> it(db->NewIterator(read));
  if (*begun) {
    it->Seek(*last);
    if (it->Valid()) it->Next();  // The snapshot still has the last key.
  } else {
    it->SeekToFirst();
    *begun = true;
  }
  const uint64_t blocks_max = to->footer().blocks + kBlocksPerIterator;
  for (; it->Valid(); it->Next()) {
    const Slice key = it->key();
    DLSM_RETURN_IF_ERROR(to->Add(key, it->value()));
    if (to->footer().blocks < blocks_max) continue;
    last->assign(key.data(), key.size());
    return Status::OK();
  }
  *end = true;
  return it->status();
}

Status CopyAll(DB* db, const ReadOptions& read, BlockWriter* to) {
  bool begun = false;
  bool end = false;
  std::string last;
  while (!end) DLSM_RETURN_IF_ERROR(CopyPart(db, read, to, &begun, &last, &end));
  return to->Finish();
}

Status WriteIt(DB* db, const BackupOptions& options, const std::string& path, BackupInfo* info) {
  if (db == nullptr) return Status::InvalidArgument("WriteBackup: db is null");
  DLSM_RETURN_IF_ERROR(CheckOptions(options));
  BackupInfo made;
  made.version = kBackupVersion;
  const OwnSnapshot snapshot(db, options.snapshot);
  if (snapshot.get() == nullptr || !TakeFacts(db, &made)) {
    return Status::InvalidArgument(fmt::format("backup {}: the database is closed", path),
                                   "open it, and call WriteBackup in the process that opened it");
  }
  std::unique_ptr<BackupFile> file;
  DLSM_RETURN_IF_ERROR(BackupFile::Create(path, &file));
  DLSM_RETURN_IF_ERROR(file->Append(EncodeBackupHeader(made)));
  ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  read.snapshot = snapshot.get();
  BlockWriter blocks(options, file.get());
  DLSM_RETURN_IF_ERROR(CopyAll(db, read, &blocks));
  made.file_bytes = file->bytes();
  DLSM_RETURN_IF_ERROR(file->Commit());
  made.entries = blocks.footer().entries;
  made.bytes = blocks.footer().bytes;
  made.blocks = blocks.footer().blocks;
  if (info != nullptr) *info = std::move(made);
  return Status::OK();
}

}  // namespace

Status WriteBackup(DB* db, const BackupOptions& options, const std::string& path,
                   BackupInfo* info) {
  return WithinMemory([&] { return WriteIt(db, options, path, info); });
}

}  // namespace dlsm
