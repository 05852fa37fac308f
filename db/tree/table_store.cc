#include "db/tree/table_store.h"

#include <algorithm>
#include <utility>

#include "db/tree/cached_records.h"
#include "table/fetch_resident.h"
#include "table/remote_sink.h"
#include "table/resident_memory.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

Status TableStore::OpenReader(const TableMeta& meta, const CachedBlocks& blocks,
                              const TableReadOptions& options,
                              std::unique_ptr<TableReader>* reader) const {
  std::string resident;
  DLSM_RETURN_IF_ERROR(Fetch(meta, options, &resident));
  return MakeReader(meta, resident, blocks, reader);
}

Status TableStore::Fetch(const TableMeta& meta, const TableReadOptions& options,
                         std::string* resident) const {
  TableReadOptions own = options;
  own.timeout = config_.timeout;
  return WithinMemory([&] { return FetchResident(meta, queue_pairs_, own, resident); },
                      &OutOfIndexMemory);
}

// It is here that so much memory is taken that there may be none. Nothing is under way meanwhile.
Status TableStore::MakeReader(const TableMeta& meta, const Slice& resident,
                              const CachedBlocks& blocks,
                              std::unique_ptr<TableReader>* reader) const {
  return WithinMemory(
      [&] {
        const ResidentMemory::Copy kept = ResidentMemory::Shared().Keep(resident);
        return TableReader::Open(config_.table, meta, kept.bytes, kept.owner, blocks, reader);
      },
      &OutOfIndexMemory);
}

std::unique_ptr<TableReader> TableStore::Evictable(const TableMeta& meta,
                                                   std::unique_ptr<TableReader> loaded,
                                                   const CachedBlocks& blocks) const {
  return std::make_unique<EvictableTableReader>(meta, std::move(loaded), blocks, this,
                                                config_.budget, statistics_);
}

TableRef TableStore::NewTable(std::unique_ptr<TableReader> reader) const {
  std::shared_ptr<const CachedRecords> records;
  // Those of blocks are in the block cache, with their blocks.
  if (config_.value_cache != nullptr && reader->meta().format == TableFormat::kByteAddressable) {
    records = std::make_shared<const CachedRecords>(config_.value_cache);
  }
  return std::make_shared<const Table>(std::move(reader), memory_, std::move(records));
}

TableRef TableStore::Unloaded(const Table& table) const {
  return std::make_shared<const Table>(
      Evictable(table.meta(), /*loaded=*/nullptr, EvictableReaderOf(table).blocks()), table);
}

Status TableStore::OpenEach(const std::vector<TableMeta>& metas, Purpose purpose,
                            std::vector<TableRef>* tables) const {
  std::vector<TableRef> opened;
  for (const TableMeta& meta : metas) {
    DLSM_RETURN_IF_ERROR(Open(meta, purpose, &opened.emplace_back()));
  }
  *tables = std::move(opened);
  return Status::OK();
}

Status TableStore::Open(const TableMeta& meta, Purpose purpose, TableRef* table) const {
  if (config_.budget != nullptr && !config_.budget->HasRoomFor(meta.resident_span().bytes)) {
    *table = NewTable(Evictable(meta, /*loaded=*/nullptr, CachedBlocks(config_.block_cache)));
    return Status::OK();
  }
  std::string resident;
  TableReadOptions options;
  options.purpose = purpose;
  DLSM_RETURN_IF_ERROR(Fetch(meta, options, &resident));
  return OpenWith(meta, resident, table);
}

Status TableStore::OpenAll(const std::vector<TableMeta>& metas, Purpose purpose,
                           std::vector<TableRef>* tables) const {
  if (config_.budget != nullptr) return OpenEach(metas, purpose, tables);
  // Of index and filter, fetched at a time.
  constexpr uint64_t kBatchBytes = uint64_t{4} << 20;
  std::vector<TableRef> opened;
  const TableMeta* const end = metas.data() + metas.size();
  for (const TableMeta* first = metas.data(); first != end;) {
    QueuePair* queue_pair = nullptr;
    DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(first->image.node, &queue_pair));
    const TableMeta* last = first;
    uint64_t bytes = 0;
    while (last != end && last->image.node == first->image.node &&
           (last == first || bytes + last->resident_span().bytes <= kBatchBytes)) {
      bytes += (last++)->resident_span().bytes;
    }
    DLSM_RETURN_IF_ERROR(OpenBatch(queue_pair, first, last, purpose, &opened));
    first = last;
  }
  *tables = std::move(opened);
  return Status::OK();
}

// All of one memory node.
Status TableStore::OpenBatch(QueuePair* queue_pair, const TableMeta* first, const TableMeta* last,
                             Purpose purpose, std::vector<TableRef>* tables) const {
  if (last - first == 1 || queue_pair->Direct(first->resident_span()) != nullptr) {
    for (; first != last; ++first) {
      DLSM_RETURN_IF_ERROR(Open(*first, purpose, &tables->emplace_back()));
    }
    return Status::OK();
  }
  uint64_t bytes = 0;
  for (const TableMeta* meta = first; meta != last; ++meta) bytes += meta->resident_span().bytes;
  RegisteredBuffer buffer;
  DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(first->image.node, bytes, &buffer));
  Ticket ticket{};
  uint64_t offset = 0;
  for (const TableMeta* meta = first; meta != last; ++meta) {
    const RemoteSpan span = meta->resident_span();
    const Status posted =
        queue_pair->PostRead(span, buffer.span().Sub(offset, span.bytes), purpose, &ticket);
    if (!posted.ok()) {
      // The buffer stays the fabric's until the reads before have ended.
      queue_pair->Wait(ticket, Deadline::In(config_.timeout)).PermitUncheckedError();
      return posted;
    }
    offset += span.bytes;
  }
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, Deadline::In(config_.timeout)));
  offset = 0;
  for (const TableMeta* meta = first; meta != last; ++meta) {
    const uint64_t length = meta->resident_span().bytes;
    DLSM_RETURN_IF_ERROR(
        OpenWith(*meta, Slice(buffer.data() + offset, length), &tables->emplace_back()));
    offset += length;
  }
  return Status::OK();
}

Status TableStore::OpenWith(const TableMeta& meta, const Slice& resident, TableRef* table) const {
  const CachedBlocks blocks(config_.block_cache);
  std::unique_ptr<TableReader> reader;
  DLSM_RETURN_IF_ERROR(MakeReader(meta, resident, blocks, &reader));
  if (config_.budget != nullptr) reader = Evictable(meta, std::move(reader), blocks);
  *table = NewTable(std::move(reader));
  return Status::OK();
}

RemoteTableWriter::~RemoteTableWriter() {
  OrEndForLackOfMemory([this] {
    DropUnfinished();
    if (!tables_.empty()) AwaitWrites();
    for (const TableRef& table : tables_) table->MarkObsolete();
  });
}

// Nothing may land in memory that is given back: a wait that fails has closed the queue pair, and
// while its writes may still land, nothing is (RemoteMemory).
void RemoteTableWriter::AwaitWrites() { writes_.Wait().PermitUncheckedError(); }

// Writes of an abandoned image may still be under way: requests complete in order, so once an empty
// read behind them is done, nothing can land there any more. If the queue pair is closed instead,
// the memory goes back only when the fabric says so (RemoteMemory).
void RemoteTableWriter::DropUnfinished() {
  if (unfinished_.bytes == 0) return;
  PlacedMemory* const memory = store_->memory();
  // The next attempt had better go elsewhere.
  if (!AwaitUnfinished().ok()) memory->NoteSilence(memory->NumberOf(unfinished_.node));
  memory->FreeAllocated(std::exchange(unfinished_, RemoteSpan{}));
}

Status RemoteTableWriter::AwaitUnfinished() {
  QueuePair* queue_pair = nullptr;
  Ticket ticket;
  DLSM_RETURN_IF_ERROR(store_->queue_pairs()->ForThisThread(unfinished_.node, &queue_pair));
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(unfinished_.Sub(0, 0), LocalSpan{}, purpose_, &ticket));
  return queue_pair->Wait(ticket, Deadline::In(store_->timeout()));
}

std::vector<size_t> RemoteTableWriter::NextOrder() {
  const size_t width = store_->memory()->scatter_width();
  if (fragment_ % width == 0) order_ = store_->memory()->Order(width);
  const size_t first = std::min(fragment_ % width, order_.size() - 1);
  // Its own one, those beyond all fragments, and only then the other fragments'.
  std::vector<size_t> order = {order_[first]};
  const size_t beyond = std::min(width, order_.size());
  order.insert(order.end(), order_.begin() + static_cast<ptrdiff_t>(beyond), order_.end());
  for (size_t i = 0; i < beyond; ++i) {
    if (i != first) order.push_back(order_[i]);
  }
  return order;
}

Status RemoteTableWriter::NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) {
  DLSM_RETURN_IF_ERROR(OrEndForLackOfMemory([&] {
    DropUnfinished();
    return store_->memory()->Allocate(bytes, when_full_, NextOrder(), &unfinished_);
  }));
  return RemoteSink::Open(unfinished_, store_->queue_pairs(), purpose_, store_->timeout(), sink,
                          store_->memory()->nodes() > 1 ? &writes_ : nullptr);
}

Status RemoteTableWriter::TableDone(TableMeta meta, const Slice& resident) {
  return OrEndForLackOfMemory([&] { return KeepTable(std::move(meta), resident); });
}

Status RemoteTableWriter::KeepTable(TableMeta meta, const Slice& resident) {
  const RemoteSpan allocated = std::exchange(unfinished_, RemoteSpan{});
  ++fragment_;
  meta.number = number_();
  meta.image.node = allocated.node;
  meta.image.region = allocated.region;
  meta.image.offset = allocated.offset;
  store_->memory()->Shrink(allocated, meta.image.bytes);
  bytes_written_ += meta.image.bytes;
  TableRef table;
  const Status opened = store_->OpenWith(meta, resident, &table);
  if (opened.ok()) {
    tables_.push_back(std::move(table));
    return opened;
  }
  // As in the destructor, which knows nothing of it.
  AwaitWrites();
  store_->memory()->Free(AllocatedSpan(meta.image));
  return opened;
}

Status RemoteTableWriter::Release(std::vector<TableRef>* tables) {
  DLSM_RETURN_IF_ERROR(writes_.Wait());
  *tables = std::exchange(tables_, {});
  return Status::OK();
}

}  // namespace dlsm
