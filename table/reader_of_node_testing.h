// Tables on several memory nodes, for tests of what reads them one after the other.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "table/table_reader.h"

namespace dlsm {

// A table whose iterators go by the queue pairs of its own memory node, whichever they are given.
class ReaderOfNode final : public TableReader {
 public:
  // Both outlive it. `opening` is called before an iterator is made; empty: nothing is.
  ReaderOfNode(const TableMeta& meta, const TableReader* table, QueuePairs* queue_pairs,
               std::function<void()> opening = {})
      : TableReader(meta), table_(table), queue_pairs_(queue_pairs), opening_(std::move(opening)) {}

  bool Find(const LookupKey& key, bool filtered, TableProbe* probe) const override {
    return table_->Find(key, filtered, probe);
  }
  Status Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                const TableReadOptions& options, LookupResult* result) const override {
    return table_->Decode(key, probe, fetched, options, result);
  }
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions& options,
                                             QueuePairs*) const override {
    if (opening_) opening_();
    return table_->NewIterator(options, queue_pairs_);
  }
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const override {
    return table_->ApproximateOffsetOf(internal_key);
  }
  size_t resident_bytes() const override { return table_->resident_bytes(); }

 private:
  const TableReader* const table_;
  QueuePairs* const queue_pairs_;
  const std::function<void()> opening_;
};

}  // namespace dlsm
