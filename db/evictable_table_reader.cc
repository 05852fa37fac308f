#include "db/evictable_table_reader.h"

#include <utility>

#include "dLSM/statistics.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

class FailedTableIterator final : public TableIterator {
 public:
  explicit FailedTableIterator(Status status) { Fail(std::move(status)); }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override {}
  void Prev() override {}
};

}  // namespace

EvictableTableReader::EvictableTableReader(const TableMeta& meta,
                                           std::unique_ptr<TableReader> loaded,
                                           const TableReaderSource* source,
                                           std::shared_ptr<MemoryBudget> budget,
                                           Statistics* statistics)
    : TableReader(meta),
      source_(source),
      budget_(std::move(budget)),
      statistics_(statistics),
      loaded_(std::move(loaded)) {
  if (loaded_ == nullptr) return;
  budget_->Charge(loaded_->resident_bytes());
  reader_.store(loaded_.get(), std::memory_order_release);
}

EvictableTableReader::~EvictableTableReader() {
  const TableReader* const reader = Loaded();
  if (reader == nullptr) return;
  budget_->Release(reader->resident_bytes());
  if (leaving_.load(std::memory_order_relaxed)) budget_->NoteLeft(reader->resident_bytes());
}

void EvictableTableReader::NoteLeaving() const {
  const TableReader* const reader = Loaded();
  if (reader == nullptr || leaving_.exchange(true, std::memory_order_relaxed)) return;
  budget_->NoteLeaving(reader->resident_bytes());
}

Status EvictableTableReader::Load(const TableReader** reader) const {
  NoteUse();
  *reader = Loaded();
  if (*reader != nullptr) [[likely]]
    return Status::OK();
  const port::MutexLock lock(mutex_);
  if (loaded_ == nullptr) {
    DLSM_RETURN_IF_ERROR(source_->OpenReader(meta(), Purpose::kRead, &loaded_));
    budget_->Charge(loaded_->resident_bytes());
    reader_.store(loaded_.get(), std::memory_order_release);
    statistics_->Add(Ticker::kMetadataLoads);
  }
  *reader = loaded_.get();
  return Status::OK();
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
  Status status = Load(&reader);
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
  Status status = Load(&reader);
  if (!status.ok()) return std::make_unique<FailedTableIterator>(std::move(status));
  return reader->NewIterator(options, queue_pairs);
}

uint64_t EvictableTableReader::ApproximateOffsetOf(const Slice& internal_key) const {
  if (const TableReader* const reader = Loaded(); reader != nullptr) {
    return reader->ApproximateOffsetOf(internal_key);
  }
  const InternalKeyComparator& comparator = source_->comparator();
  if (comparator.Compare(internal_key, meta().smallest) <= 0) return 0;
  if (comparator.Compare(internal_key, meta().largest) > 0) return meta().data_bytes;
  return meta().data_bytes / 2;
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
