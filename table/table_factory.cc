// Which builder and which reader belong to which format.
#include "table/block_table_builder.h"
#include "table/block_table_reader.h"
#include "table/byte_table_builder.h"
#include "table/byte_table_reader.h"
#include "table/cached_blocks.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace dlsm {

std::unique_ptr<TableBuilder> NewTableBuilder(const TableOptions& options, TableSink* sink) {
  if (options.format == TableFormat::kBlockBased) {
    return std::make_unique<BlockTableBuilder>(options, sink);
  }
  return std::make_unique<ByteTableBuilder>(options, sink);
}

uint64_t LoneRecordImageBound(const TableOptions& options, size_t internal_key_bytes,
                              size_t value_bytes) {
  const std::unique_ptr<TableBuilder> empty = NewTableBuilder(options, nullptr);
  return empty->ImageBytesBound() + empty->RecordBytesBound(internal_key_bytes, value_bytes);
}

Status TableReader::Open(const TableOptions& options, const TableMeta& meta, const Slice& resident,
                         std::shared_ptr<const void> owner, const CachedBlocks& blocks,
                         std::unique_ptr<TableReader>* reader) {
  // Sums cannot wrap: the parts of a decoded meta add up to its image.
  if (resident.size() != meta.index_bytes + meta.filter_bytes || meta.entries == 0) {
    return Status::Corruption("a table's resident part does not fit its meta");
  }
  if (meta.format == TableFormat::kBlockBased) {
    return BlockTableReader::Open(options, meta, resident, std::move(owner), blocks, reader);
  }
  return ByteTableReader::Open(options, meta, resident, std::move(owner), reader);
}

}  // namespace dlsm
