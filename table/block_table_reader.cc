#include "table/block_table_reader.h"

#include <algorithm>

#include "table/block_table_iterator.h"
#include "util/status_macros.h"

namespace dlsm {

Status BlockTableReader::Open(const TableOptions& options, const TableMeta& meta,
                              const Slice& resident, std::shared_ptr<const void> owner,
                              const CachedBlocks& blocks, std::unique_ptr<TableReader>* reader) {
  std::unique_ptr<BlockTableReader> opened(
      new BlockTableReader(options, meta, std::move(owner), blocks));
  const Slice index(resident.data(), meta.index_bytes);
  const Slice filter(resident.data() + meta.index_bytes, meta.filter_bytes);
  DLSM_RETURN_IF_ERROR(opened->index_.Open(index, meta.data_bytes));
  DLSM_RETURN_IF_ERROR(opened->filter_.Open(options.filter_policy, filter));
  *reader = std::move(opened);
  return Status::OK();
}

bool BlockTableReader::Find(const LookupKey& key, bool filtered, TableProbe* probe) const {
  if (!filtered && !filter_.MayMatch(key.user_key(), key.hash())) return false;
  const uint32_t block = index_.BlockFor(key.internal_key());
  if (block == index_.blocks()) return false;
  const uint64_t begin = index_.BlockBegin(block);
  probe->span = meta().data_span().Sub(begin, index_.BlockEnd(block) - begin);
  probe->cached = blocks_.Lookup(begin);
  return true;
}

Status BlockTableReader::Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                                const TableReadOptions& options, LookupResult* result) const {
  if (probe.cached != nullptr) {
    result->holder = probe.cached;
    return LookUpIn(static_cast<const BlockPayload*>(probe.cached.get())->bytes(), key, result);
  }
  std::shared_ptr<const BlockPayload> block;
  DLSM_RETURN_IF_ERROR(
      blocks_.Open(probe.span.offset - meta().image.offset, fetched, options, &block));
  if (!block->in_place()) result->holder = block;
  return LookUpIn(block->bytes(), key, result);
}

Status BlockTableReader::LookUpIn(const Slice& payload, const LookupKey& key,
                                  LookupResult* result) const {
  result->state = LookupState::kAbsent;
  BlockCursor cursor(comparator_);
  cursor.Open(payload);
  cursor.Seek(key.internal_key());
  if (cursor.malformed()) return Status::Corruption("a block is malformed");
  if (cursor.valid() && IsVersionOf(comparator_, key, cursor.key())) {
    result->Set(ExtractTrailer(cursor.key()), cursor.value());
  }
  return Status::OK();
}

std::unique_ptr<TableIterator> BlockTableReader::NewIterator(const TableReadOptions& options,
                                                             QueuePairs* queue_pairs) const {
  const DataCuts* const cuts = this;
  return std::make_unique<BlockTableIterator>(comparator_, index_, blocks_, meta().data_span(),
                                              cuts, options, queue_pairs);
}

TableReader::OffsetBounds BlockTableReader::BoundOffset(const Slice& internal_key) const {
  const uint64_t all = meta().data_bytes;
  if (comparator_.Compare(internal_key, meta().smallest) <= 0) return {0, 0};
  const uint32_t block = index_.BlockFor(internal_key);
  if (block == index_.blocks() || comparator_.Compare(internal_key, meta().largest) > 0) {
    return {all, all};
  }
  return {index_.BlockBegin(block), index_.BlockEnd(block)};
}

size_t BlockTableReader::resident_bytes() const {
  return meta().index_bytes + meta().filter_bytes + sizeof(*this);
}

uint64_t BlockTableReader::CutAfter(uint64_t begin, uint64_t bytes) const {
  const uint64_t wanted = begin + std::min(bytes, meta().data_bytes - begin);
  if (wanted == meta().data_bytes) return wanted;
  const uint64_t cut = index_.BlockBegin(index_.BlockAt(wanted));
  return cut > begin ? cut : index_.BlockEnd(index_.BlockAt(begin));
}

uint64_t BlockTableReader::CutBefore(uint64_t end, uint64_t bytes) const {
  const uint64_t wanted = end - std::min(bytes, end);
  if (wanted == 0) return 0;
  const uint64_t cut = index_.BlockEnd(index_.BlockAt(wanted - 1));
  return cut < end ? cut : index_.BlockBegin(index_.BlockAt(end - 1));
}

}  // namespace dlsm
