#include "db/multi_get.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "db/lookups_together.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// One request that no memtable answered, and where its bytes are in this round.
struct Pending {
  TableLookup lookup;
  Slice bytes;
  size_t way = 0;
  size_t scratch_offset = 0;
  bool to_be_fetched = false;
};

// This thread's way to one memory node, for one round. No pointer to a queue pair is kept between
// steps: loading an evicted index may have it replaced.
struct Way {
  Way(ThreadQueuePairs* pairs, NodeId to) : queue_pairs(pairs), node(to) {
    if (pairs == nullptr) status = NodeQueuePairs::Unknown(to);
  }

  QueuePair* Mine() {
    QueuePair* queue_pair = nullptr;
    if (status.ok()) status = queue_pairs->ForThisThread(node, &queue_pair);
    return status.ok() ? queue_pair : nullptr;
  }

  ThreadQueuePairs* queue_pairs;
  NodeId node;
  Status status;
  size_t scratch_bytes = 0;
  LocalSpan scratch;
};

class MultiGet {
 public:
  MultiGet(std::span<std::optional<LookupRequest>> requests, const TableReadOptions& options)
      : requests_(requests), options_(options) {}

  void Run() {
    pending_.reserve(requests_.size());
    for (size_t begin = 0; begin < requests_.size(); begin += kLookupsTogetherMax) {
      FindFirst(requests_.subspan(begin, std::min(kLookupsTogetherMax, requests_.size() - begin)));
      // What lies in place is copied while it is in the cache; what is fetched has one doorbell.
      if (NothingToFetch()) Round();
    }
    while (!pending_.empty()) Round();
  }

 private:
  // Appends the requests that no memtable answers, each with the place where its first candidate
  // table would have its record.
  void FindFirst(std::span<std::optional<LookupRequest>> requests) {
    const size_t first = pending_.size();
    for (std::optional<LookupRequest>& request : requests) {
      TableLookup& lookup = pending_.emplace_back().lookup;
      lookup.Start(&*request);
      if (lookup.AskMemtables()) pending_.pop_back();
    }
    std::array<TableLookup*, kLookupsTogetherMax> lookups;
    const size_t count = pending_.size() - first;
    for (size_t i = 0; i < count; ++i) lookups[i] = &pending_[first + i].lookup;
    ApproachTogether(std::span(lookups).first(count), options_);
    size_t kept = first;
    for (size_t i = first; i < pending_.size(); ++i) {
      if (!pending_[i].lookup.Advance(options_)) continue;
      Place(&pending_[i]);
      if (kept != i) pending_[kept] = std::move(pending_[i]);
      ++kept;
    }
    pending_.resize(kept);
  }

  // Finds the record's bytes if they can be read in place, and else where they will be put.
  void Place(Pending* pending) {
    const RemoteSpan span = pending->lookup.to_fetch();
    pending->to_be_fetched = span.bytes > 0;
    if (!pending->to_be_fetched) return;
    const NodeId node = pending->lookup.table().meta().image.node;
    ThreadQueuePairs* const queue_pairs = pending->lookup.request().reader->queue_pairs()->Of(node);
    const auto found = std::ranges::find(ways_, queue_pairs, &Way::queue_pairs);
    pending->way = static_cast<size_t>(found - ways_.begin());
    if (found == ways_.end()) ways_.emplace_back(queue_pairs, node);
    Way& way = ways_[pending->way];
    QueuePair* const queue_pair = way.Mine();
    if (queue_pair == nullptr) return;
    const char* const direct = MayReadInPlace(options_) ? queue_pair->Direct(span) : nullptr;
    if (direct != nullptr) {
      queue_pair->CountDirectRead(span.bytes, options_.purpose);
      pending->bytes = Slice(direct, span.bytes);
      pending->to_be_fetched = false;
      PrefetchRecord(pending->bytes);
    } else {
      pending->scratch_offset = way.scratch_bytes;
      way.scratch_bytes += span.bytes;
    }
  }

  bool NothingToFetch() const {
    return std::ranges::all_of(ways_, [](const Way& way) { return way.scratch_bytes == 0; });
  }

  // Fetches what every pending request needs next, with one doorbell for each memory node; finishes
  // the requests that are answered, or cannot be, and moves the others on.
  void Round() {
    Fetch();
    std::vector<Pending> unanswered;
    for (Pending& waiting : pending_) {
      TableLookup& lookup = waiting.lookup;
      if (waiting.to_be_fetched) lookup.request().status = ways_[waiting.way].status;
      if (!lookup.request().status.ok() || lookup.Decode(waiting.bytes, options_)) continue;
      waiting.bytes.clear();
      if (lookup.Advance(options_)) unanswered.push_back(std::move(waiting));
    }
    pending_ = std::move(unanswered);
    ways_.clear();
    for (Pending& waiting : pending_) Place(&waiting);
  }

  void Fetch() {
    for (Way& way : ways_) {
      if (way.scratch_bytes == 0 || !way.status.ok()) continue;
      way.status = way.queue_pairs->ScratchForThisThread(way.scratch_bytes, &way.scratch);
    }
    std::vector<Posted> posted(ways_.size());
    for (Pending& waiting : pending_) {
      if (waiting.to_be_fetched) Post(&waiting, &posted[waiting.way]);
    }
    // The buffer is the fabric's until the reads that were posted have ended, whatever came after.
    for (size_t i = 0; i < ways_.size(); ++i) {
      if (!posted[i].any) continue;
      Status arrived = posted[i].queue_pair->Wait(posted[i].last, Deadline::In(options_.timeout));
      if (arrived.ok()) posted[i].queue_pair->held().Complete(posted[i].last);
      KeepFirstError(std::move(arrived), &ways_[i].status);
    }
  }

  // What a way has posted; its queue pair stays while nobody asks for another one.
  struct Posted {
    QueuePair* queue_pair = nullptr;
    Ticket last{};
    bool any = false;
  };

  void Post(Pending* waiting, Posted* posted) {
    Way& way = ways_[waiting->way];
    if (posted->queue_pair == nullptr) posted->queue_pair = way.Mine();
    if (!way.status.ok()) return;
    const RemoteSpan span = waiting->lookup.to_fetch();
    const LocalSpan to = way.scratch.Sub(waiting->scratch_offset, span.bytes);
    way.status = posted->queue_pair->PostRead(span, to, options_.purpose, &posted->last);
    posted->any |= way.status.ok();
    waiting->bytes = Slice(to.data, to.bytes);
  }

  const std::span<std::optional<LookupRequest>> requests_;
  const TableReadOptions& options_;
  std::vector<Pending> pending_;
  std::vector<Way> ways_;
};

}  // namespace

void RunMultiGet(std::span<std::optional<LookupRequest>> requests,
                 const TableReadOptions& options) {
  MultiGet(requests, options).Run();
}

}  // namespace dlsm
