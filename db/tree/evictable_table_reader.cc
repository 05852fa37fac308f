#include "db/tree/evictable_table_reader.h"

#include <utility>

#include "dLSM/statistics.h"
#include "util/status_macros.h"

namespace dlsm {

// For an index that could not be fetched: tells so at the first seek, which is mostly part of the
// same move, and tries again with each further one, until it can.
class EvictableTableReader::LateIterator final : public TableIterator {
 public:
  LateIterator(const EvictableTableReader* table, const TableReadOptions& options,
               QueuePairs* queue_pairs, Status failure)
      : table_(table), options_(options), queue_pairs_(queue_pairs) {
    Fail(std::move(failure));
  }

  void SeekToFirst() override {
    if (!Open()) return;
    opened_->SeekToFirst();
    ShowOpened();
  }
  void SeekToLast() override {
    if (!Open()) return;
    opened_->SeekToLast();
    ShowOpened();
  }
  void Seek(const Slice& target) override {
    if (!Open()) return;
    opened_->Seek(target);
    ShowOpened();
  }
  void Next() override {
    opened_->Next();
    ShowOpened();
  }
  void Prev() override {
    opened_->Prev();
    ShowOpened();
  }
  Status CheckPlace() override { return opened_ == nullptr ? Status::OK() : opened_->CheckPlace(); }

 private:
  bool Open() {
    if (opened_ != nullptr) return true;
    if (!std::exchange(told_, true)) return false;
    status_.PermitUncheckedError();  // Of an attempt before.
    const TableReader* reader;
    Status status = table_->Load(options_, &reader);
    if (!status.ok()) {
      Fail(std::move(status));
      return false;
    }
    opened_ = reader->NewIterator(options_, queue_pairs_);
    return true;
  }
  void ShowOpened() {
    status_.PermitUncheckedError();
    if (!opened_->Valid()) return Fail(opened_->status());
    status_ = Status::OK();
    Show(*opened_);
  }

  const EvictableTableReader* const table_;
  const TableReadOptions options_;
  QueuePairs* const queue_pairs_;
  bool told_ = false;
  std::unique_ptr<TableIterator> opened_;
};

EvictableTableReader::EvictableTableReader(
    const TableMeta& meta, std::unique_ptr<TableReader> loaded, const CachedBlocks& blocks,
    const TableReaderSource* source, std::shared_ptr<MemoryBudget> budget, Statistics* statistics)
    : TableReader(meta),
      blocks_(blocks),
      source_(source),
      budget_(std::move(budget)),
      statistics_(statistics),
      loaded_(std::move(loaded)) {
  if (loaded_ == nullptr) return;
  budget_->Charge(loaded_->resident_bytes());
  reader_.store(loaded_.get(), std::memory_order_release);
}

EvictableTableReader::~EvictableTableReader() {
  failure_.PermitUncheckedError();
  const TableReader* const reader = Loaded();
  if (reader == nullptr) return;
  budget_->Release(reader->resident_bytes());
  if (counted_leaving_.load(std::memory_order_relaxed)) {
    budget_->NoteLeft(reader->resident_bytes());
  }
}

// An iterator may have it loaded after it has left. This and Load() each store one word and then
// look at the other's, so at least one of them finds both.
void EvictableTableReader::NoteLeaving() const {
  leaving_.store(true);
  if (const TableReader* const reader = reader_.load(); reader != nullptr) CountLeaving(*reader);
}

void EvictableTableReader::CountLeaving(const TableReader& reader) const {
  if (!counted_leaving_.exchange(true)) budget_->NoteLeaving(reader.resident_bytes());
}

Status EvictableTableReader::Load(const TableReadOptions& options,
                                  const TableReader** reader) const {
  if (options.purpose == Purpose::kRead) NoteUse();
  *reader = Loaded();
  if (*reader != nullptr) [[likely]]
    return Status::OK();
  if (options.limited) {
    DLSM_RETURN_IF_ERROR(LoadWithinLimits(options));
    *reader = Loaded();
    return Status::OK();
  }
  const auto arrived = port::Clock::now();
  const port::MutexLock lock(mutex_);
  if (loaded_ == nullptr) {
    if (!failure_.ok() && arrived < failed_at_) return failure_;
    failure_ = LoadLocked(options);
    failed_at_ = port::Clock::now();
    if (!failure_.ok()) return failure_;
  }
  *reader = loaded_.get();
  return Status::OK();
}

Status EvictableTableReader::LoadLocked(const TableReadOptions& options) const {
  DLSM_RETURN_IF_ERROR(source_->OpenReader(meta(), blocks_, options, &loaded_));
  budget_->Charge(loaded_->resident_bytes());
  reader_.store(loaded_.get());
  if (leaving_.load()) CountLeaving(*loaded_);
  if (options.purpose == Purpose::kRead) statistics_->Add(Ticker::kMetadataLoads);
  return Status::OK();
}

// Another's attempt may take longer than this read may. It looks again after a time that is short
// beside what it saves, a round trip.
Status EvictableTableReader::LoadWithinLimits(const TableReadOptions& options) const {
  constexpr std::chrono::microseconds kLookAgain{50};
  DLSM_RETURN_IF_ERROR(options.CheckTransfer());
  while (!mutex_.TryLock()) {
    DLSM_RETURN_IF_ERROR(options.CheckDeadline());
    port::SleepFor(kLookAgain);
  }
  const port::AdoptedLock lock(mutex_);
  return loaded_ != nullptr ? Status::OK() : LoadLocked(options);
}

Status EvictableTableReader::MakeReady(const TableReadOptions& options) const {
  DLSM_RETURN_IF_ERROR(options.CheckDeadline());
  return Loaded() != nullptr ? Status::OK() : LoadWithinLimits(options);
}

void EvictableTableReader::Approach(const LookupKey& key, TableProbe* probe) const {
  if (const TableReader* const reader = Loaded(); reader != nullptr) reader->Approach(key, probe);
}

void EvictableTableReader::ApproachFurther(const LookupKey& key, TableProbe* probe) const {
  if (const TableReader* const reader = Loaded(); reader != nullptr) {
    reader->ApproachFurther(key, probe);
  }
}

bool EvictableTableReader::Find(const LookupKey& key, bool filtered, TableProbe* probe) const {
  const TableReader* reader;
  Status status = Load(TableReadOptions(), &reader);
  if (status.ok()) [[likely]]
    return reader->Find(key, filtered, probe);
  probe->span = RemoteSpan{};
  probe->cached = std::make_shared<const Status>(std::move(status));
  return true;
}

Status EvictableTableReader::Decode(const LookupKey& key, const TableProbe& probe,
                                    const Slice& fetched, const TableReadOptions& options,
                                    LookupResult* result) const {
  // An index that is malformed gives an empty span, too.
  if (probe.span.bytes == 0 && probe.cached != nullptr) [[unlikely]]
    return *static_cast<const Status*>(probe.cached.get());
  return Loaded()->Decode(key, probe, fetched, options, result);
}

std::unique_ptr<TableIterator> EvictableTableReader::NewIterator(const TableReadOptions& options,
                                                                 QueuePairs* queue_pairs) const {
  const TableReader* reader;
  Status status = Load(options, &reader);
  if (!status.ok()) {
    return std::make_unique<LateIterator>(this, options, queue_pairs, std::move(status));
  }
  return reader->NewIterator(options, queue_pairs);
}

TableReader::OffsetBounds EvictableTableReader::BoundOffset(const Slice& internal_key) const {
  if (const TableReader* const reader = Loaded(); reader != nullptr) {
    return reader->BoundOffset(internal_key);
  }
  const uint64_t all = meta().data_bytes;
  const InternalKeyComparator& comparator = source_->comparator();
  if (comparator.Compare(internal_key, meta().smallest) <= 0) return {0, 0};
  if (comparator.Compare(internal_key, meta().largest) > 0) return {all, all};
  return {0, all};
}

uint64_t EvictableTableReader::ApproximateBytes(const Slice& start, const Slice& limit) const {
  const InternalKeyComparator& comparator = source_->comparator();
  const bool whole = comparator.Compare(start, meta().smallest) <= 0 &&
                     comparator.Compare(limit, meta().largest) > 0;
  const TableReader* reader = nullptr;
  if (whole || !Load(TableReadOptions(), &reader).ok()) {
    return TableReader::ApproximateBytes(start, limit);
  }
  return reader->ApproximateBytes(start, limit);
}

Slice EvictableTableReader::bloom_filter() const {
  const TableReader* const reader = Loaded();
  return reader == nullptr ? Slice() : reader->bloom_filter();
}

size_t EvictableTableReader::resident_bytes() const {
  const TableReader* const reader = Loaded();
  return sizeof(*this) + (reader == nullptr ? 0 : reader->resident_bytes());
}

}  // namespace dlsm
