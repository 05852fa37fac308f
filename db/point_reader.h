// Point lookups: memtables newest first, then tables, newest first, each behind its filter.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/read_view.h"
#include "table/node_queue_pairs.h"

namespace dlsm {

// Thread-safe.
class PointReader {
 public:
  // All outlive the reader.
  PointReader(Sequencer* sequencer, NodeQueuePairs* queue_pairs, Statistics* statistics)
      : sequencer_(sequencer), queue_pairs_(queue_pairs), statistics_(statistics) {}

  // result->value stays where it is as long as the view, or until the thread's next lookup where
  // *fetched is set: then it lies in the thread's scratch. NotFound is told by the result's state.
  Status Get(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
             LookupResult* result, bool* fetched) const;

  struct Request {
    explicit Request(const Slice& user_key, SequenceNumber sequence) : key(user_key, sequence) {}
    LookupKey key;
    const PointReader* reader = nullptr;  // Of the key's shard.
    const ReadView* view = nullptr;
    Status status;
    LookupState state = LookupState::kAbsent;
    std::string* value = nullptr;
  };
  // The fetches of all requests overlap, whatever shards they are of: a round for all requests'
  // first candidate tables, one for the next candidates of those that met a false positive, and so
  // on. A memory node that fails fails its own requests.
  static void MultiGet(const std::vector<std::unique_ptr<Request>>& requests,
                       const TableReadOptions& options);

 private:
  struct Pending;
  struct Way;

  bool GetFromMemtables(const ReadView& view, const LookupKey& key, LookupResult* result) const;
  // The table's record that Find() has named, from the cache or from its memory node.
  Status Read(const Table& table, const LookupKey& key, const TableProbe& probe,
              const TableReadOptions& options, LookupResult* result, bool* fetched) const;
  bool AnswerFromCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                       const TableReadOptions& options, LookupResult* result) const;
  void CountBlock(const Table& table, const TableProbe& probe) const;
  void KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                   const TableReadOptions& options) const;
  Status Fetch(const RemoteSpan& span, const TableReadOptions& options, Slice* bytes,
               bool* fetched) const;
  static bool AdvanceToFetch(const TableReadOptions& options, Pending* pending);
  static void FetchRound(const TableReadOptions& options, std::vector<Pending>* pending);
  static void DecodeRound(const TableReadOptions& options, std::vector<Pending>* pending);

  Sequencer* const sequencer_;
  NodeQueuePairs* const queue_pairs_;
  Statistics* const statistics_;
};

}  // namespace dlsm
