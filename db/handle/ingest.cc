// DB::IngestSorted: a sorted stream becomes tables of level 0.
//
//   source ──> check ──> one IngestJob for each shard in turn ──> Background::Ingest, shard by
//   shard

#include <fmt/core.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/sorted_source.h"
#include "db/background/ingest_job.h"
#include "db/handle/db_impl.h"
#include "db/handle/entry_sizes.h"
#include "db/handle/ingest_turns.h"
#include "db/merge/merge_policies.h"
#include "db/tree/leftovers.h"
#include "util/null_argument.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

// One call.
class DbImpl::Ingest {
 public:
  explicit Ingest(DbImpl* db)
      : db_(db), turn_(&db->ingest_turns_, db->epochs_->sequencer(), db->shards_.size()) {}
  ~Ingest() {
    for (const Part& part : parts_) {
      for (const TableRef& table : part.tables) table->MarkObsolete();
    }
  }
  Ingest(const Ingest&) = delete;
  Ingest& operator=(const Ingest&) = delete;

  // The entries become tables, which nobody sees yet.
  Status Read(SortedSource* source) {
    DLSM_RETURN_IF_ERROR(turn_.CheckNumbers(db_->shards_.size()));
    Slice key;
    Slice value;
    while (source->Next(&key, &value)) DLSM_RETURN_IF_ERROR(Add(key, value));
    DLSM_RETURN_IF_ERROR(source->status());
    return EndPart();
  }

  // All that the ingest has so far becomes visible.
  Status Install() {
    DLSM_RETURN_IF_ERROR(turn_.Await([this] { return db_->fence_.status(); }));
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      // The tables are the shard's from here on.
      const Status entered = part.shard->background().Ingest(
          turn_.number(i), std::exchange(part.tables, {}), part.bytes);
      if (!entered.ok()) return NamedFrom(i, entered);
    }
    return Status::OK();
  }

  uint64_t entries() const { return entries_; }

 private:
  // What enters one shard.
  struct Part {
    Shard* shard;
    std::vector<TableRef> tables;
    uint64_t bytes = 0;
  };
  // How much is taken between two looks at the gate.
  static constexpr uint64_t kBytesBetweenLooks = uint64_t{1} << 20;

  Status Add(const Slice& key, const Slice& value) {
    // A source may take its time, and another process take the database over meanwhile.
    if (db_->fence_.raised()) [[unlikely]]
      return db_->fence_.status();
    DLSM_RETURN_IF_ERROR(Check(key, value));
    if (job_ == nullptr || IsBehindShard(key)) {
      DLSM_RETURN_IF_ERROR(EndPart());
      BeginPart(key);
    }
    const uint64_t bytes = key.size() + value.size();
    unlooked_ += bytes;
    if (unlooked_ >= kBytesBetweenLooks) {
      DLSM_RETURN_IF_ERROR(PassGate());
    }
    const Status added = job_->Add(key, value);
    if (!added.ok()) return shard_->Named(added);
    last_.assign(key.data(), key.size());
    ++entries_;
    return Status::OK();
  }

  Status Check(const Slice& key, const Slice& value) const {
    DLSM_RETURN_IF_ERROR(CheckEntrySizes(key, value));
    DLSM_RETURN_IF_ERROR(db_->range_.Check(key));
    if (entries_ == 0 || db_->comparator_.CompareUserKeys(Slice(last_), key) < 0) [[likely]]
      return Status::OK();
    return Status::InvalidArgument(
        fmt::format("entry {} of the sorted stream, of key {}, is not behind the one before, of {}",
                    entries_ + 1, ShownKey(key), ShownKey(Slice(last_))),
        "sort the entries, and leave each key in once; nothing was ingested");
  }

  bool IsBehindShard(const Slice& key) const {
    return db_->only_ == nullptr && &db_->ShardOf(key) != shard_;
  }

  // As a writer of so much would: where merges do not keep up, an ingest waits, too.
  Status PassGate() {
    const Status passed = shard_->gate().Pass(/*only_deletes=*/false, unlooked_);
    unlooked_ = 0;
    return passed.ok() ? passed : shard_->Named(passed);
  }

  void BeginPart(const Slice& key) {
    shard_ = &db_->ShardOf(key);
    under_way_.emplace(&shard_->background());
    job_ = std::make_unique<IngestJob>(shard_->tables(), turn_.number(parts_.size()),
                                       TableBytesMax(db_->options_),
                                       [shard = shard_] { return shard->tree().NewTableNumber(); });
  }

  Status EndPart() {
    if (job_ == nullptr) return Status::OK();
    Part part;
    part.shard = shard_;
    DLSM_RETURN_IF_ERROR(shard_->Named(job_->Release(&part.tables)));
    part.bytes = job_->bytes_written();
    job_.reset();
    under_way_.reset();
    NoteKeepers(part.tables, /*snapshots=*/{});
    parts_.push_back(std::move(part));
    return Status::OK();
  }

  // Says what is there already of an ingest that failed in its i-th part.
  Status NamedFrom(size_t i, const Status& status) const {
    const Status named = parts_[i].shard->Named(status);
    if (i == 0) return named;
    return Status::FromCode(named.code(),
                            fmt::format("{}; the entries of the ingest are in shards {} to {}, and "
                                        "in no other one: ingest it again",
                                        named.message().ToString(), parts_.front().shard->number(),
                                        parts_[i - 1].shard->number()));
  }

  DbImpl* const db_;
  const IngestTurns::Turn turn_;
  Shard* shard_ = nullptr;                               // Of the present part.
  std::optional<Background::IngestUnderWay> under_way_;  // As long as there is a job.
  std::unique_ptr<IngestJob> job_;
  std::vector<Part> parts_;  // In the order of shards.
  std::string last_;
  uint64_t entries_ = 0;
  uint64_t unlooked_ = 0;  // Bytes since the gate was last passed.
};

Status DbImpl::IngestSorted(SortedSource* source, uint64_t* entries) try {
  if (entries != nullptr) *entries = 0;
  DLSM_RETURN_IF_ERROR(CheckOpen());
  if (source == nullptr) return NullArgument("source");
  Ingest ingest(this);
  // Tables may find no memory to be built in.
  DLSM_RETURN_IF_ERROR(WithinMemory([&] { return ingest.Read(source); }));
  DLSM_RETURN_IF_ERROR(ingest.Install());
  if (entries != nullptr) *entries = ingest.entries();
  return Status::OK();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

}  // namespace dlsm
