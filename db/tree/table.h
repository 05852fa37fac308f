// A table of the database: what is known of it, its reader, and the ownership of its remote memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "db/nodes/placed_memory.h"
#include "table/table_meta.h"
#include "table/table_reader.h"
#include "util/out_of_memory.h"

namespace dlsm {

class CachedRecords;

// What reads cost is counted in looks: one is what a lookup spends on the filter of a run. A seek's
// look is a search in an index and a record fetched, kilobytes of prefetch included.
inline constexpr uint64_t kLooksPerSeek = 32;

// The remote memory of a table. Freed where its last reference dies, and only if it is so marked (a
// table of the manifest outlives the process).
class TableImage {
 public:
  TableImage(const RemoteSpan& span, std::shared_ptr<PlacedMemory> memory)
      : span_(span), memory_(std::move(memory)) {
    memory_->NoteTable(span_);
  }
  ~TableImage() {
    OrEndForLackOfMemory([this] {
      if (obsolete_.load(std::memory_order_acquire)) memory_->Free(span_);
      memory_->NoteTableGone(span_);
    });
  }
  TableImage(const TableImage&) = delete;
  TableImage& operator=(const TableImage&) = delete;

  void MarkObsolete() { obsolete_.store(true, std::memory_order_release); }

 private:
  const RemoteSpan span_;
  const std::shared_ptr<PlacedMemory> memory_;
  std::atomic<bool> obsolete_{false};
};

// Immutable but for the mark that it has left the current version. Counted.
class Table {
 public:
  // `memory` is null where nobody keeps account of it. An iterator may keep a table beyond the end
  // of its database: so the table shares it. `records` may be null: none are cached.
  Table(std::unique_ptr<TableReader> reader, std::shared_ptr<PlacedMemory> memory,
        std::shared_ptr<const CachedRecords> records = nullptr)
      : reader_(std::move(reader)),
        image_(memory == nullptr
                   ? nullptr
                   : std::make_shared<TableImage>(AllocatedSpan(meta().image), std::move(memory))),
        records_(std::move(records)) {}
  // The same table as `other`, read in another way.
  Table(std::unique_ptr<TableReader> reader, const Table& other)
      : reader_(std::move(reader)),
        image_(other.image_),
        records_(other.records_),
        looks_(other.looks()),
        keepers_(other.keepers()),
        hidden_below_(other.hidden_below()) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableMeta& meta() const { return reader_->meta(); }
  const TableReader& reader() const { return *reader_; }
  // Null: none.
  const CachedRecords* cached_records() const { return records_.get(); }
  uint64_t number() const { return meta().number; }
  Slice smallest() const { return meta().smallest; }
  Slice largest() const { return meta().largest; }

  // Reads had to look at each run of this table's guard. Counted in the oldest table of the guard,
  // for merges that reads ask for; orders nothing.
  void CountLooks(uint64_t looks) const { looks_.fetch_add(looks, std::memory_order_relaxed); }
  uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }

  // As in leftovers.h. Set by who makes the table, before others see it.
  static constexpr uint64_t kKeepersUnknown = UINT64_MAX;
  void SetKeepers(uint64_t keepers) const { keepers_.store(keepers, std::memory_order_relaxed); }
  uint64_t keepers() const { return keepers_.load(std::memory_order_relaxed); }

  // The number of the newest range tombstone that may hide something in it; 0: none may. Set when a
  // version is made that the table is in.
  void SetHiddenBelow(SequenceNumber number) const {
    hidden_below_.store(number, std::memory_order_relaxed);
  }
  SequenceNumber hidden_below() const { return hidden_below_.load(std::memory_order_relaxed); }

  // The table has left the current version, or never entered one.
  void MarkObsolete() const {
    reader_->NoteLeaving();
    if (image_ != nullptr) image_->MarkObsolete();
  }

 private:
  const std::unique_ptr<TableReader> reader_;
  const std::shared_ptr<TableImage> image_;
  const std::shared_ptr<const CachedRecords> records_;
  mutable std::atomic<uint64_t> looks_{0};
  mutable std::atomic<uint64_t> keepers_{kKeepersUnknown};
  mutable std::atomic<SequenceNumber> hidden_below_{0};
};

using TableRef = std::shared_ptr<const Table>;

// Tables that were made for a version: unless they have come to be in it, nobody will ever use
// them. Neither copied nor moved; what it is about outlives it.
class TablesOnTrial {
 public:
  explicit TablesOnTrial(const std::vector<TableRef>* tables) : tables_(tables) {}
  TablesOnTrial(const TablesOnTrial&) = delete;
  TablesOnTrial& operator=(const TablesOnTrial&) = delete;
  ~TablesOnTrial() {
    if (installed_) return;
    for (const TableRef& table : *tables_) table->MarkObsolete();
  }

  void NoteInstalled() { installed_ = true; }

 private:
  const std::vector<TableRef>* const tables_;
  bool installed_ = false;
};

}  // namespace dlsm
