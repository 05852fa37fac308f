// Tables on several memory nodes, for tests of what reads them one after the other.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/table_reader.h"
#include "table/table_testing.h"

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
  OffsetBounds BoundOffset(const Slice& internal_key) const override {
    return table_->BoundOffset(internal_key);
  }
  size_t resident_bytes() const override { return table_->resident_bytes(); }

 private:
  const TableReader* const table_;
  QueuePairs* const queue_pairs_;
  const std::function<void()> opening_;
};

// A table of "a" and one of "m". Read in place, as long as checksums are not verified.
struct TableLeftAndEntered {
  TableLeftAndEntered() {
    BuildTestTable(TableOptions(), {{MakeInternalKey("a", 1), "value"}}, &memory, &second, &left);
    BuildTestTable(TableOptions(), {{MakeInternalKey("m", 1), "value"}}, &memory, &second,
                   &entered);
  }

  TestMemory memory;
  MemoryQueuePairs second{&memory, /*direct=*/true};
  TestTable left;
  TestTable entered;
};

// An iterator over both steps from the one to the other, which fails if the memory node of the
// first `is_lost` by then.
inline void ExpectStepFromLostNodeFails(InternalIterator* iterator, bool is_lost) {
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  EXPECT_EQ(ExtractUserKey(iterator->key()), Slice("a"));
  iterator->Next();
  EXPECT_EQ(iterator->Valid(), !is_lost);
  EXPECT_EQ(iterator->status().IsIOError(), is_lost) << iterator->status().ToString();
}

// An iterator over "a", whose records the first node has, and "m" stands in the former when that is
// lost. Fails if a seek behind all keys there, which needs nothing of that node, asks it all the
// same.
inline void ExpectSeekAsksNoLostNode(InternalIterator* iterator, MemoryQueuePairs* first) {
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  first->LoseANode(/*this_one=*/true);
  iterator->Seek(MakeInternalKey("b", 1));
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  EXPECT_EQ(ExtractUserKey(iterator->key()), Slice("m"));
  EXPECT_OK(iterator->status());
}

}  // namespace dlsm
