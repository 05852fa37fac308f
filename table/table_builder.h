// Builds one table's image from records in internal key order. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "table/edge_keys.h"
#include "table/internal_key.h"
#include "table/table_meta.h"
#include "table/table_sink.h"

namespace dlsm {

class FilterPolicy;

// What table builders and readers need of the database's options. Shipped with every merge.
struct TableOptions {
  TableFormat format = TableFormat::kByteAddressable;
  const Comparator* comparator = BytewiseComparator();
  const FilterPolicy* filter_policy = nullptr;  // May be null: no filter.
  size_t block_bytes = 8192;                    // Block-based tables only, like the next two.
  int restart_interval = 16;
  CompressionType compression = kNoCompression;
};

class TableBuilder {
 public:
  virtual ~TableBuilder() = default;

  // Keys come in strictly increasing internal order (asserted). `same`: the user key is that of the
  // record before, which callers know anyway; of a table's first record it says nothing.
  virtual Status Add(const Slice& internal_key, const Slice& value, bool same) = 0;
  // The same for a record of a byte-addressable table, whose checksum the caller has verified:
  // `encoded` is the whole record and is copied as it is where the format allows.
  virtual Status AddEncoded(const Slice& encoded, const Slice& internal_key, const Slice& value,
                            bool same) = 0;

  // No less than the bytes the image would have if it were finished now.
  virtual uint64_t ImageBytesBound() const = 0;
  // No less than what one more such record can add to the image.
  virtual uint64_t RecordBytesBound(size_t internal_key_bytes, size_t value_bytes) const = 0;
  virtual uint64_t entries() const = 0;
  // Of the records so far.
  virtual EdgeKeys edges() const { return {}; }

  // Writes index and filter and finishes the sink. Sets everything in *meta but `number` and the
  // image's node, region and offset; *resident gets the bytes of index and filter.
  virtual Status Finish(TableMeta* meta, std::string* resident) = 0;
};

// `sink` and what `options` points to outlive the builder.
std::unique_ptr<TableBuilder> NewTableBuilder(const TableOptions& options, TableSink* sink);

// A capacity that is enough for a table of one such record.
uint64_t LoneRecordImageBound(const TableOptions& options, size_t internal_key_bytes,
                              size_t value_bytes);

}  // namespace dlsm
