// A window of lookups under way, answered in the order in which they were submitted.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/get_pipeline.h"
#include "db/read/table_lookup.h"
#include "port/process_mark.h"
#include "util/fabric/decorators/guarded_fabric.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Where a key is looked for, and what has to stay until the answer is there.
struct LookupPlace {
  const PointReader* reader = nullptr;
  const ReadView* view = nullptr;
  std::shared_ptr<const void> holder;     // Of the view and of the connections.
  std::weak_ptr<const void> connections;  // Buffers are of use as long as these are the same.
  SequenceNumber sequence = 0;
  // Whether what was found may be told, or its error; null: always. `holder` keeps it.
  const TransferGuard* guard = nullptr;
};

// What a kind of handle knows about its keys.
class LookupPlaces {
 public:
  virtual ~LookupPlaces() = default;
  // Not OK once the handle is closed: then nothing that a place named is there any more.
  virtual Status CheckOpen() = 0;
  // Where to look for the key now; or why not.
  virtual Status Of(const Slice& key, LookupPlace* place) = 0;
  // What to tell about an error that is not NotFound.
  virtual Status Explain(const Slice& key, Status status) = 0;
};

// Where there is no memory for a step of a get, that get fails; states and counts are right then,
// too.
class GetPipelineImpl final : public GetPipeline {
 public:
  // `depth` is at least 1.
  GetPipelineImpl(std::unique_ptr<LookupPlaces> places, const TableReadOptions& options,
                  size_t depth, std::shared_ptr<Statistics> statistics);

  // In a child of the process that made the pipeline nothing is destroyed.
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(GetPipelineImpl* pipeline, std::destroying_delete_t) {
    port::DestroyHere(pipeline, pipeline->made_by_);
  }

  Status Submit(const Slice& key, uint64_t tag) override;
  bool Next(Answer* answer) override;
  size_t outstanding() const override { return outstanding_; }
  size_t depth() const override { return slots_.size(); }

 private:
  // A read on the wire. The queue pair shares it, so its buffer outlives a pipeline that goes away.
  struct Fetch final : Transfer {
    RegisteredBuffer buffer;
    // Where the buffer is registered.
    ThreadQueuePairs* way = nullptr;
    std::weak_ptr<const void> connections;
    Ticket ticket{};
  };

  // kBegun: no memtable has it; its record is to be located. kLocated: its record is to be fetched,
  // and no read posted yet.
  enum class State { kAnswered, kBegun, kInPlace, kLocated, kPosted };

  struct Slot {
    uint64_t tag = 0;
    std::optional<LookupRequest> request;
    std::shared_ptr<const void> holder;
    std::weak_ptr<const void> connections;
    const TransferGuard* guard = nullptr;
    TableLookup lookup;
    State state = State::kAnswered;
    Slice in_place;                // kInPlace: the record, empty if there is nothing to fetch.
    std::shared_ptr<Fetch> fetch;  // kPosted: of the record. Kept for its buffer.
    std::string value;
  };

  // Of those outstanding, the oldest is 0.
  Slot& SlotAt(size_t i) { return slots_[(oldest_ + i) % slots_.size()]; }
  // Null if the table's meta names a node that nobody knows.
  static ThreadQueuePairs* WayOf(const Slot& slot) {
    return slot.request->reader->queue_pairs()->Of(slot.lookup.to_fetch().node);
  }
  Status QueuePairOf(const Slot& slot, QueuePair** queue_pair) const {
    NodeQueuePairs* const queue_pairs = slot.request->reader->queue_pairs();
    const NodeId node = slot.lookup.to_fetch().node;
    return options_.limited ? queue_pairs->ForLimitedRead(node, options_, queue_pair)
                            : queue_pairs->ForThisThread(node, queue_pair);
  }
  static bool Fits(const Fetch& fetch, const Slot& slot);
  void SetState(Slot* slot, State state);
  Status BeginNext(const Slice& key, uint64_t tag);
  void LocateBegun();
  void GoOn(Slot* slot);
  Status Locate(Slot* slot);
  void PostAll();
  void BoundHeld(Slot* slot);
  Status Post(QueuePair* queue_pair, Slot* slot);
  static void Tidy(Slot* slot);
  Status Outcome(const Slot& slot);
  void Continue(Slot* slot);
  Status Arrive(Slot* slot, Slice* bytes);
  Status Wait(Slot* slot);
  void Finish(Slot* slot, Status status);
  void FailFetchesWith(const Slot& failed, const Status& why);
  void TakeOldest();

  const port::ProcessMark made_by_;
  const std::unique_ptr<LookupPlaces> places_;
  const TableReadOptions options_;
  const std::shared_ptr<Statistics> statistics_;
  std::vector<Slot> slots_;
  size_t oldest_ = 0;
  size_t outstanding_ = 0;
  size_t begun_ = 0;    // That many of the newest may be in that state, and no other.
  size_t located_ = 0;  // Slots in that state: SetState() counts them.
};

}  // namespace dlsm
