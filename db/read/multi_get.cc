#include "db/read/multi_get.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "db/read/table_lookup.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Reads that one doorbell hands to one memory node, and the buffer that they share. The queue pair
// has a share of it, so the buffer outlives whatever comes between here and there.
struct Fetch final : Transfer, std::enable_shared_from_this<Fetch> {
  size_t way = 0;
  size_t reads = 0;
  size_t bytes = 0;
  RegisteredBuffer buffer;
  Ticket last{};
  Status status;  // Not OK: its buffer was not to be had, or it was posted in part.
};

// One request that no memtable answered, and where its next candidate's record is or will be.
struct Pending {
  explicit Pending(LookupRequest* request) : lookup(request) {}

  TableLookup lookup;
  Fetch* fetch = nullptr;  // Null: it is in place, or there is nothing to fetch.
  size_t offset = 0;       // In the fetch's buffer.
  Slice in_place;
};

// This thread's way to one memory node, for one round. No pointer to a queue pair is kept between
// steps: loading an evicted index may have it replaced.
struct Way {
  Way(NodeQueuePairs* nodes, ThreadQueuePairs* pairs, NodeId to)
      : all(nodes), queue_pairs(pairs), node(to) {
    if (pairs == nullptr) status = NodeQueuePairs::Unknown(to);
  }

  QueuePair* Mine(const TableReadOptions& options) {
    QueuePair* queue_pair = nullptr;
    if (status.ok()) {
      status = options.limited ? queue_pairs->ForLimitedRead(node, options, &queue_pair)
                               : queue_pairs->ForThisThread(node, &queue_pair);
    }
    return status.ok() ? queue_pair : nullptr;
  }

  NodeQueuePairs* all;  // Of one of the requests: it counts their buffers.
  ThreadQueuePairs* queue_pairs;
  NodeId node;
  Status status;
  Fetch* next = nullptr;             // What is to be read, and not posted yet; null if nothing is.
  std::optional<Deadline> deadline;  // Of all its fetches, from the first wait on.
};

class MultiGet {
 public:
  MultiGet(std::span<std::optional<LookupRequest>> requests, const TableReadOptions& options)
      : requests_(requests), options_(options) {}

  void Run() {
    lookups_.reserve(requests_.size());
    pending_.reserve(requests_.size());
    for (size_t begin = 0; begin < requests_.size(); begin += kLookupsTogetherMax) {
      const size_t count = std::min(kLookupsTogetherMax, requests_.size() - begin);
      FindFirst(requests_.subspan(begin, count));
      const bool more = begin + count < requests_.size();
      if (more && IsWorthRinging()) Doorbell(more);
    }
    while (!pending_.empty()) {
      Doorbell(/*more=*/false);
      Collect();
    }
  }

 private:
  // Answers what memtables and tables in place can answer; of the others, appends those that have a
  // record to be fetched.
  void FindFirst(std::span<std::optional<LookupRequest>> requests) {
    const size_t first = pending_.size();
    for (std::optional<LookupRequest>& request : requests) {
      Pending& pending = lookups_.emplace_back(&*request);
      if (!pending.lookup.AskMemtables()) pending_.push_back(&pending);
    }
    std::array<TableLookup*, kLookupsTogetherMax> lookups;
    FindCandidatesTogether(LookupsFrom(first, &lookups));
    KeepThoseWithCandidates(first);
    ApproachTogether(LookupsFrom(first, &lookups), options_);
    // What lies in place is looked at while it is in the cache.
    AdvanceAll(first);
  }

  // Of the pending ones from `first` on.
  std::span<TableLookup* const> LookupsFrom(
      size_t first, std::array<TableLookup*, kLookupsTogetherMax>* lookups) const {
    const size_t count = pending_.size() - first;
    for (size_t i = 0; i < count; ++i) (*lookups)[i] = &pending_[first + i]->lookup;
    return std::span(*lookups).first(count);
  }

  // Of those from `first` on; the others are answered: no table has their keys. No branch depends
  // on which they are, for no processor can guess it, and every later step takes the same ones.
  void KeepThoseWithCandidates(size_t first) {
    size_t kept = first;
    for (size_t i = first; i < pending_.size(); ++i) {
      Pending* const pending = pending_[i];
      pending_[kept] = pending;
      kept += pending->lookup.has_candidates() ? 1 : 0;
    }
    pending_.resize(kept);
  }

  // On to the next candidates of those from `first` on, until what is left is to be fetched.
  void AdvanceAll(size_t first) {
    KeepIf(first, [this](Pending* pending) { return Advance(pending); });
    for (bool again = true; again;) {
      again = false;
      KeepIf(first, [this, &again](Pending* pending) {
        if (pending->fetch != nullptr) return true;
        if (Decode(pending, pending->in_place, pending->lookup.request().holder)) return false;
        again = true;
        return Advance(pending);
      });
    }
  }

  template <typename Keeps>
  void KeepIf(size_t first, const Keeps& keeps) {
    size_t kept = first;
    for (size_t i = first; i < pending_.size(); ++i) {
      Pending* const pending = pending_[i];
      if (keeps(pending)) pending_[kept++] = pending;
    }
    pending_.resize(kept);
  }

  // On to the next candidate's record, which is placed; false: there is none, or it is answered.
  bool Advance(Pending* pending) {
    TableLookup& lookup = pending->lookup;
    if (!lookup.Advance(options_)) return false;
    const RemoteSpan span = lookup.to_fetch();
    if (span.bytes > 0 && IsLost(&lookup.request(), span.node)) return false;
    Place(pending, span);
    return true;
  }

  // Of each request: shards share their ways, and one may have lost its session. That answers it.
  static bool IsLost(LookupRequest* request, NodeId node) {
    request->status = request->reader->queue_pairs()->Check(node);
    return !request->status.ok();
  }

  // TableLookup::Decode() of the record that was found in place, or has been fetched. Other keys
  // were looked for since then, or before it was fetched, and their indexes may have had to be
  // loaded: by now, where it lies may be others' memory, or may have been when it was copied.
  bool Decode(Pending* pending, const Slice& bytes, const std::shared_ptr<const void>* holder) {
    TableLookup& lookup = pending->lookup;
    if (!bytes.empty() && IsLost(&lookup.request(), lookup.to_fetch().node)) return true;
    return lookup.Decode(bytes, holder, options_);
  }

  // Finds the record's bytes if they can be read in place, and else where they will be put.
  void Place(Pending* pending, const RemoteSpan& span) {
    pending->fetch = nullptr;
    pending->in_place.clear();
    if (span.bytes == 0) return;
    const size_t index = WayOf(*pending);
    Way& way = ways_[index];
    if (way.next == nullptr) {
      pending->in_place = InPlace(&way, span);
      if (!pending->in_place.empty()) return;
      // Nor are the next ones that go that way.
      way.next = fetches_.emplace_back(std::make_shared<Fetch>()).get();
      way.next->way = index;
    }
    pending->fetch = way.next;
    pending->offset = way.next->bytes;
    ++way.next->reads;
    way.next->bytes += span.bytes;
  }

  // The record where it lies; empty if it is to be fetched.
  Slice InPlace(Way* way, const RemoteSpan& span) const {
    QueuePair* const queue_pair = MayReadInPlace(options_) ? way->Mine(options_) : nullptr;
    return queue_pair != nullptr ? RecordInPlace(queue_pair, span, options_) : Slice();
  }

  size_t WayOf(const Pending& pending) {
    const NodeId node = pending.lookup.table().meta().image.node;
    NodeQueuePairs* const all = pending.lookup.request().reader->queue_pairs();
    ThreadQueuePairs* const queue_pairs = all->Of(node);
    const auto found = std::ranges::find(ways_, queue_pairs, &Way::queue_pairs);
    const auto index = static_cast<size_t>(found - ways_.begin());
    if (found == ways_.end()) ways_.emplace_back(all, queue_pairs, node);
    return index;
  }

  bool IsWorthRinging() {
    return std::ranges::any_of(ways_, [this](Way& way) {
      QueuePair* const queue_pair = way.next != nullptr ? way.Mine(options_) : nullptr;
      return queue_pair != nullptr && way.next->reads >= queue_pair->worth_ringing();
    });
  }

  // Posts what has been placed since the last one. `more`: nobody waits for it yet.
  void Doorbell(bool more) {
    const std::span<Pending* const> unposted = std::span(pending_).subspan(posted_);
    for (Way& way : ways_) {
      Fetch* const fetch = std::exchange(way.next, nullptr);
      if (fetch == nullptr || !way.status.ok()) continue;
      if (options_.limited) {
        fetch->status = options_.CheckTransfer();
        if (!fetch->status.ok()) continue;
      }
      fetch->status = way.all->NewBuffer(way.node, fetch->bytes, &fetch->buffer);
      QueuePair* const queue_pair = fetch->status.ok() ? way.Mine(options_) : nullptr;
      if (queue_pair == nullptr) continue;
      Post(queue_pair, fetch, unposted);
      // A wait rings by itself; but no memory node waits for the wait for another one.
      const bool rings = more || ways_.size() > 1;
      if (rings && way.status.ok() &&
          queue_pair->worth_ringing() != QueuePair::kNeverWorthRinging) {
        way.status = queue_pair->Ring();
      }
    }
    posted_ = pending_.size();
  }

  void Post(QueuePair* queue_pair, Fetch* fetch, std::span<Pending* const> among) {
    queue_pair->held().MakeRoom();
    Status& status = ways_[fetch->way].status;
    bool any = false;
    for (const Pending* const pending : among) {
      if (pending->fetch != fetch) continue;
      const RemoteSpan span = pending->lookup.to_fetch();
      const LocalSpan to = fetch->buffer.span().Sub(pending->offset, span.bytes);
      status = queue_pair->PostRead(span, to, options_.purpose, &fetch->last);
      if (!status.ok()) break;
      any = true;
    }
    fetch->status = status;
    if (any) queue_pair->held().Hold(fetch->last, fetch->shared_from_this());
  }

  // Takes the records in the order of their doorbells; finishes the requests that are answered, or
  // cannot be, and moves the others on.
  void Collect() {
    const std::vector<Pending*> waiting = std::exchange(pending_, {});
    for (Pending* const pending : waiting) {
      TableLookup& lookup = pending->lookup;
      lookup.request().status = Arrive(pending->fetch, waiting);
      if (!lookup.request().status.ok()) continue;
      const RemoteSpan span = lookup.to_fetch();
      const Slice bytes(pending->fetch->buffer.data() + pending->offset, span.bytes);
      std::shared_ptr<const void> holder;
      if (SharesFetched(lookup.table(), span.bytes)) holder = pending->fetch->shared_from_this();
      if (!Decode(pending, bytes, &holder)) pending_.push_back(pending);
    }
    // Where no filter denies a key there are as many rounds as runs: buffers are those of one.
    for (Pending* const pending : waiting) pending->fetch = nullptr;
    fetches_.clear();
    ways_.clear();
    posted_ = 0;
    AdvanceAll(0);
  }

  // Waits until the fetch, whose requests are among `waiting`, has its bytes.
  Status Arrive(Fetch* fetch, std::span<Pending* const> waiting) {
    DLSM_RETURN_IF_ERROR(fetch->status);
    if (fetch->complete()) return Status::OK();
    Way& way = ways_[fetch->way];
    QueuePair* const queue_pair = way.Mine(options_);
    if (queue_pair == nullptr) return way.status;
    // Loading an index may have had the queue pair replaced. That ended what was under way.
    if (!queue_pair->held().Holds(*fetch)) Post(queue_pair, fetch, waiting);
    if (!way.deadline) way.deadline = options_.WaitEnds();
    if (way.status.ok()) way.status = queue_pair->Wait(fetch->last, *way.deadline);
    if (way.status.ok()) queue_pair->held().Complete(fetch->last);
    return way.status;
  }

  const std::span<std::optional<LookupRequest>> requests_;
  const TableReadOptions& options_;
  std::vector<Pending> lookups_;   // Each stays where it is.
  std::vector<Pending*> pending_;  // Of these, those without an answer.
  size_t posted_ = 0;              // Of pending_.
  // Of this round. What it has fetched is shared with queue pairs alone, as long as they hold it.
  std::vector<std::shared_ptr<Fetch>> fetches_;
  std::vector<Way> ways_;
};

}  // namespace

void RunMultiGet(std::span<std::optional<LookupRequest>> requests,
                 const TableReadOptions& options) {
  if (options.limited) {
    const Status in_time = options.CheckDeadline();
    if (!in_time.ok()) {
      for (std::optional<LookupRequest>& request : requests) request->status = in_time;
      return;
    }
  }
  MultiGet(requests, options).Run();
}

}  // namespace dlsm
